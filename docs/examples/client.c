/* NNG does TLS and the framing beneath messages (PROTOCOL.md, sections 1 and 2), protobuf-c the
 * messages; what is left of a call is a frame and a table of codes (sections 3 to 5). */
#include "docs/examples/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>
#include <nng/supplemental/util/platform.h>

#define MESSAGE_MAX (8u << 20) /* what we take from the collector */
#define HEADER_MAX  4096u      /* of a frame */
#define LAST_MS     5000       /* for an answer when it is time to stop */

void say(const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs("subscribe: ", stderr);
    for (const char *c = text; *c; c++) { /* parts of it are the other side's: ASCII alone */
        fprintf(stderr, *c >= 0x20 && *c < 0x7F ? "%c" : "\\x%02x", (unsigned char)*c);
    }
    fputc('\n', stderr);
}

int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* About so long, with chance in it: the clients of a fleet must not all come back at one moment. */
static void pause_ms(const struct client_conf *conf, unsigned ms)
{
    int64_t end = now_ms() + ms / 2 + nng_random() % (ms / 2 + 1);

    while (now_ms() < end && !conf->over()) {
        nng_msleep(100);
    }
}

static char *read_file(const char *path)
{
    char *text = malloc(65537);
    FILE *f = fopen(path, "r");
    size_t n;

    if (!f || !text) {
        die("%s: %s", path, strerror(errno));
    }
    n = fread(text, 1, 65536, f);
    text[n] = 0;
    fclose(f);
    return text;
}

ProtobufCBinaryData bytes_of(const void *p, size_t n)
{
    return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)p};
}

ProtobufCBinaryData text_of(const char *text)
{
    return bytes_of(text, strlen(text));
}

/* -- connections: NNG keeps them up, and connects anew by itself -- */

void client_dial(const struct client_conf *conf, nng_socket s, const char *address)
{
    char url[300], *cert = read_file(conf->cert), *key = read_file(conf->key);
    nng_tls_config *tls;
    nng_dialer dialer;
    int e;

    snprintf(url, sizeof url, "tls+tcp://%s", address);
    e = nng_tls_config_alloc(&tls, NNG_TLS_MODE_CLIENT);
    e = e ? e : nng_tls_config_ca_file(tls, conf->ca);
    e = e ? e : nng_tls_config_own_cert(tls, cert, key, NULL);
    e = e ? e : nng_tls_config_auth_mode(tls, NNG_TLS_AUTH_MODE_REQUIRED);
    /* Every collector's certificate carries this name, whatever address it was dialled at. */
    e = e ? e : nng_tls_config_server_name(tls, "procfleet-collector");
    if (e) {
        die("the files of --ca, --cert, --key: %s", nng_strerror(e));
    }
    e = nng_socket_set_size(s, NNG_OPT_RECVMAXSZ, MESSAGE_MAX);
    e = e ? e : nng_socket_set_ms(s, NNG_OPT_RECONNMINT, 500);
    e = e ? e : nng_socket_set_ms(s, NNG_OPT_RECONNMAXT, 60000);
    e = e ? e : nng_dialer_create(&dialer, s, url);
    e = e ? e : nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, tls);
    if (e) {
        die("%s: %s", address, nng_strerror(e));
    }
    e = nng_dialer_start(dialer, 0); /* once by hand, to say what is wrong */
    if (e == NNG_EPEERAUTH || e == NNG_ECRYPTO || e == NNG_EADDRINVAL) {
        die("%s: %s; the certificate must be of role subscribe, and for the event stream without "
            "a scope",
            address, nng_strerror(e));
    }
    if (e) {
        say("%s: %s; trying again", address, nng_strerror(e));
        e = nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
    }
    if (e) {
        die("%s: %s", address, nng_strerror(e));
    }
    nng_tls_config_free(tls);
    free(cert);
    free(key);
}

/* -- calls (sections 3 to 5) -- */

void client_reply_free(struct client_reply *r)
{
    if (r->header) {
        procfleet__v1__reply_header__free_unpacked(r->header, NULL);
    }
    if (r->message) {
        nng_msg_free(r->message);
    }
    *r = (struct client_reply){0};
}

static const char *code_name(unsigned code)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };

    return code < sizeof names / sizeof *names ? names[code] : "UNKNOWN";
}

/* Section 5 says which may be tried again. */
static bool transient(unsigned code)
{
    return code == 1 || code == 2 || code == 4 || code == 8 || code == 10 || code == 13 ||
           code == 14 || code > 16;
}

/* Magic, version, length of the header, header, payload. NNG puts the request's id before it. */
static nng_msg *frame(const char *method, const ProtobufCMessage *payload, unsigned timeout_ms,
                      const uint8_t call_id[16])
{
    Procfleet__V1__RequestHeader h = PROCFLEET__V1__REQUEST_HEADER__INIT;
    uint8_t bytes[HEADER_MAX], start[4] = {0xB7, 1};
    char name[96];
    nng_msg *m;
    size_t n;

    snprintf(name, sizeof name, "procfleet.v1.Query/%s", method);
    h.has_method = h.has_call_id = h.has_timeout_ms = h.has_client = 1;
    h.method = text_of(name);
    h.call_id = bytes_of(call_id, 16);
    h.timeout_ms = timeout_ms;
    h.client = text_of("subscribe.c");
    n = procfleet__v1__request_header__pack(&h, bytes);
    start[2] = (uint8_t)n; /* little endian */
    start[3] = (uint8_t)(n >> 8);
    if (nng_msg_alloc(&m, 4 + n + protobuf_c_message_get_packed_size(payload)) != 0) {
        die("out of memory");
    }
    memcpy(nng_msg_body(m), start, 4);
    memcpy((uint8_t *)nng_msg_body(m) + 4, bytes, n);
    protobuf_c_message_pack(payload, (uint8_t *)nng_msg_body(m) + 4 + n);
    return m;
}

/* false: it is no frame, or answers another call. */
static bool reply_read(struct client_reply *r, const uint8_t call_id[16])
{
    const uint8_t *p = nng_msg_body(r->message);
    size_t n = nng_msg_len(r->message), header_n;

    if (n < 4 || p[0] != 0xB7 || p[1] != 1) {
        return false;
    }
    header_n = p[2] | (size_t)p[3] << 8;
    if (header_n > n - 4) {
        return false;
    }
    r->header = procfleet__v1__reply_header__unpack(NULL, header_n, p + 4);
    r->payload = p + 4 + header_n;
    r->n = n - 4 - header_n;
    return r->header && r->header->call_id.len == 16 &&
           memcmp(r->header->call_id.data, call_id, 16) == 0;
}

/* Sends once and waits for the answer; an error of NNG. */
static int call_once(struct client *c, const char *method, const ProtobufCMessage *request,
                     unsigned wait_ms, struct client_reply *out)
{
    uint32_t call_id[4] = {nng_random(), nng_random(), nng_random(), nng_random()};
    nng_msg *m = frame(method, request, wait_ms + 10000, (uint8_t *)call_id);
    int32_t limit_ms = c->conf->over() ? LAST_MS : (int32_t)wait_ms + 20000;
    int e;

    e = nng_socket_set_ms(c->socket, NNG_OPT_RECVTIMEO, limit_ms);
    e = e ? e : nng_sendmsg(c->socket, m, 0);
    if (e) {
        nng_msg_free(m);
        return e;
    }
    e = nng_recvmsg(c->socket, &out->message, 0); /* a time-out would end the request */
    if (!e && !reply_read(out, (uint8_t *)call_id)) {
        client_reply_free(out);
        e = NNG_EPROTO;
    }
    return e;
}

bool client_call(struct client *c, const char *method, const ProtobufCMessage *request,
                 unsigned wait_ms, struct client_reply *out)
{
    unsigned delay_ms = 500;

    if (!c->open) {
        int e = nng_req0_open(&c->socket);

        e = e ? e : nng_socket_set_ms(c->socket, NNG_OPT_SENDTIMEO, 20000);
        if (e) {
            die("%s", nng_strerror(e));
        }
        client_dial(c->conf, c->socket, c->address);
        c->open = true;
    }
    for (bool told = false;; told = true) {
        struct client_reply r = {0};
        int e = call_once(c, method, request, wait_ms, &r);
        unsigned code = e ? 0 : r.header->code, after_ms = e ? 0 : r.header->retry_after_ms;

        if (!e && code == 0) {
            *out = r;
            return true;
        }
        if (e && (!told || c->conf->over())) {
            say("%s: %s: %s", method, c->address, nng_strerror(e));
        } else if (!e && (!told || !transient(code))) {
            say("%s: %.*s (%s)", method, (int)r.header->message.len,
                (const char *)r.header->message.data, code_name(code));
        }
        client_reply_free(&r);
        if ((!e && !transient(code)) || c->conf->over()) {
            return false;
        }
        pause_ms(c->conf, after_ms + delay_ms);
        delay_ms = delay_ms < 30000 ? delay_ms * 2 : 60000;
    }
}

void client_close(struct client *c)
{
    if (c->open) {
        nng_close(c->socket);
    }
}
