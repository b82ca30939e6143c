/* A ticket, little endian:
 *
 *   key name 16 | nonce 12 | issued at, UTC seconds 8 | sealed content n | tag 16
 *
 * ChaCha20-Poly1305; the 36 bytes in front and the binding are authenticated with it. The binding
 * is a hash of what the collector believes in: under another authority no old ticket opens.
 *
 * The file, little endian: "PFTK", version u16, number of keys u16, per key (the present one first)
 * name 16, key 32, made at UTC ns i64; then XXH3-64 of all that. It is replaced as a whole, before
 * the new key is used.
 *
 * A key seals for an hour and opens for one more. With a stolen file one can read what was said
 * over connections whose tickets its keys open, hence two keys and no more, and the mode 0600. */
#include "common/tls/tls_ticket.h"

#include <stdbool.h>
#include <string.h>

#include <mbedtls/chachapoly.h>
#include <mbedtls/platform_util.h>

#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/pki/pki.h"

#define KEYS       2u
#define KEY_BYTES  56u
#define FILE_HEAD  8u
#define FILE_BYTES (FILE_HEAD + KEYS * KEY_BYTES + 8u)
#define VERSION    1u
#define MAGIC      "PFTK"
#define NAME_BYTES 16u
#define NONCE_AT   NAME_BYTES
#define ISSUED_AT  28u
#define LOOK_NS    (60 * CLK_S) /* between looks at the clock */

struct ticket_key {
    uint8_t name[NAME_BYTES], key[32];
    int64_t made_ns;
};

struct tls_ticket {
    char *path;
    struct os_thread *thread;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *stopping;
    bool stop;
    struct ticket_key keys[KEYS]; /* the present one first */
};

/* -- the file -- */

static void put_le(uint8_t *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

static void encode(uint8_t out[FILE_BYTES], const struct ticket_key keys[KEYS])
{
    memcpy(out, MAGIC, 4);
    put_le(out + 4, VERSION, 2);
    put_le(out + 6, KEYS, 2);
    for (size_t i = 0; i < KEYS; i++) {
        uint8_t *p = out + FILE_HEAD + i * KEY_BYTES;

        memcpy(p, keys[i].name, NAME_BYTES);
        memcpy(p + NAME_BYTES, keys[i].key, sizeof keys[i].key);
        put_le(p + KEY_BYTES - 8, (uint64_t)keys[i].made_ns, 8);
    }
    put_le(out + FILE_BYTES - 8, hash_bytes(out, FILE_BYTES - 8, 0), 8);
}

static enum err decode(struct ticket_key keys[KEYS], const uint8_t *p, size_t n)
{
    if (n != FILE_BYTES || memcmp(p, MAGIC, 4) != 0 || cur_at16le(p + 4) != VERSION ||
        cur_at16le(p + 6) != KEYS ||
        cur_at64le(p + FILE_BYTES - 8) != hash_bytes(p, FILE_BYTES - 8, 0)) {
        return ERR_CORRUPT;
    }
    for (size_t i = 0; i < KEYS; i++) {
        const uint8_t *key = p + FILE_HEAD + i * KEY_BYTES;

        memcpy(keys[i].name, key, NAME_BYTES);
        memcpy(keys[i].key, key + NAME_BYTES, sizeof keys[i].key);
        keys[i].made_ns = (int64_t)cur_at64le(key + KEY_BYTES - 8);
    }
    return ERR_OK;
}

/* Without the file everything works until the next start: said, not fatal. */
static void write_file(const char *path, const struct ticket_key keys[KEYS])
{
    uint8_t all[FILE_BYTES];
    enum err e;

    encode(all, keys);
    e = os_write_file(path, all, sizeof all, true);
    mbedtls_platform_zeroize(all, sizeof all);
    if (e) {
        char words[512];

        log_line(LOG_WARN, "tickets", "not-kept", "path=%s error=%s",
                 log_str(words, sizeof words, path), err_name(e));
    }
}

/* ERR_OK also when there is nothing to read: the keys are zeros then. */
static enum err read_file(struct ticket_key keys[KEYS], const char *path, struct errmsg *why)
{
    uint8_t *p;
    size_t n;
    enum err e = os_check_private(path);

    if (e == ERR_ACCESS) {
        return errmsg_set(
            why, e, "others can read the ticket keys %s; remove the file, new ones are made", path);
    }
    e = os_read_file(&p, &n, path, FILE_BYTES);
    if (!e) {
        e = decode(keys, p, n);
        mbedtls_platform_zeroize(p, n);
        mem_free(p);
    }
    if (e == ERR_NOMEM) {
        return e;
    }
    if (e) {
        memset(keys, 0, KEYS * sizeof *keys);
    }
    if (e && e != ERR_NOTFOUND) {
        char words[512];

        log_line(LOG_WARN, "tickets", "unreadable", "path=%s error=%s effect=\"new keys are made\"",
                 log_str(words, sizeof words, path), err_name(e));
    }
    return ERR_OK;
}

/* -- keys -- */

static bool is_due(const struct ticket_key *k, int64_t now_ns)
{
    return k->made_ns > now_ns || now_ns - k->made_ns >= (int64_t)TLS_TICKET_LIFE_S * CLK_S;
}

static enum err make_key(struct ticket_key *k, int64_t now_ns)
{
    k->made_ns = now_ns;
    return pki_rng(NULL, k->name, sizeof k->name) == 0 && pki_rng(NULL, k->key, sizeof k->key) == 0
               ? ERR_OK
               : ERR_IO;
}

/* A new key in front, in the file first. */
static enum err renew(struct tls_ticket *t, int64_t now_ns)
{
    struct ticket_key next[KEYS];
    enum err e = make_key(&next[0], now_ns);

    if (!e) {
        os_mutex_lock(t->lock);
        next[1] = t->keys[0];
        os_mutex_unlock(t->lock);
        write_file(t->path, next);
        os_mutex_lock(t->lock);
        memcpy(t->keys, next, sizeof next);
        os_mutex_unlock(t->lock);
    }
    mbedtls_platform_zeroize(next, sizeof next);
    return e;
}

static bool wants_renewal(struct tls_ticket *t, int64_t now_ns)
{
    bool due;

    os_mutex_lock(t->lock);
    due = is_due(&t->keys[0], now_ns);
    os_mutex_unlock(t->lock);
    return due;
}

void tls_ticket_rotate(struct tls_ticket *t, int64_t now_ns)
{
    if (wants_renewal(t, now_ns)) {
        /* Without random numbers the old key stays a little longer; its tickets do not. */
        err_ignore(renew(t, now_ns));
    }
}

static void rotate_on_and_on(void *arg)
{
    struct tls_ticket *t = arg;
    bool stop;

    do {
        os_mutex_lock(t->lock);
        if (!t->stop) {
            err_ignore(os_cond_wait_until(t->stopping, clk_add(os_mono_ns(), LOOK_NS)));
        }
        stop = t->stop;
        os_mutex_unlock(t->lock);
        if (!stop) {
            tls_ticket_rotate(t, os_utc_ns());
        }
    } while (!stop);
}

enum err tls_ticket_open(struct tls_ticket **out, const char *path, int64_t now_ns,
                         struct errmsg *why)
{
    struct tls_ticket *t = mem_zalloc(sizeof *t);
    enum err e = ERR_NOMEM;

    if (!t) {
        return ERR_NOMEM;
    }
    t->path = mem_strdup(path);
    if (t->path) {
        e = os_mutex_create(&t->lock);
    }
    if (!e) {
        e = os_cond_create(&t->stopping, t->lock);
    }
    if (!e) {
        e = read_file(t->keys, path, why);
    }
    if (!e && is_due(&t->keys[0], now_ns)) {
        e = renew(t, now_ns);
    }
    if (!e) {
        e = os_thread_start(&t->thread, "tickets", rotate_on_and_on, t);
    }
    if (e) {
        tls_ticket_close(t);
        return e;
    }
    *out = t;
    return ERR_OK;
}

void tls_ticket_close(struct tls_ticket *t)
{
    if (!t) {
        return;
    }
    if (t->thread) {
        os_mutex_lock(t->lock);
        t->stop = true;
        os_cond_wake(t->stopping);
        os_mutex_unlock(t->lock);
        os_thread_join(t->thread);
    }
    os_cond_destroy(t->stopping);
    os_mutex_destroy(t->lock);
    mbedtls_platform_zeroize(t->keys, sizeof t->keys);
    mem_free(t->path);
    mem_free(t);
}

/* -- tickets -- */

/* What is authenticated beside the content. */
struct extra {
    uint8_t head[TLS_TICKET_HEAD], binding[32];
};

static struct extra make_extra(const uint8_t *head, const uint8_t binding[32])
{
    struct extra x;

    memcpy(x.head, head, sizeof x.head);
    memcpy(x.binding, binding, sizeof x.binding);
    return x;
}

enum err tls_ticket_seal(struct tls_ticket *t, const uint8_t binding[32], int64_t now_ns,
                         uint8_t *p, size_t n)
{
    mbedtls_chachapoly_context cipher;
    struct ticket_key k;
    struct extra x;
    int r;

    os_mutex_lock(t->lock);
    k = t->keys[0];
    os_mutex_unlock(t->lock);
    memcpy(p, k.name, NAME_BYTES);
    put_le(p + ISSUED_AT, (uint64_t)(now_ns / CLK_S), 8);
    mbedtls_chachapoly_init(&cipher);
    r = pki_rng(NULL, p + NONCE_AT, ISSUED_AT - NONCE_AT);
    x = make_extra(p, binding);
    if (r == 0) {
        r = mbedtls_chachapoly_setkey(&cipher, k.key);
    }
    if (r == 0) {
        r = mbedtls_chachapoly_encrypt_and_tag(&cipher, n, p + NONCE_AT, (const uint8_t *)&x,
                                               sizeof x, p + TLS_TICKET_HEAD, p + TLS_TICKET_HEAD,
                                               p + TLS_TICKET_HEAD + n);
    }
    mbedtls_chachapoly_free(&cipher);
    mbedtls_platform_zeroize(&k, sizeof k);
    return r == 0 ? ERR_OK : ERR_IO;
}

/* The key of that name, if there is one. */
static bool find_key(struct tls_ticket *t, struct ticket_key *out, const uint8_t *name)
{
    bool found = false;

    os_mutex_lock(t->lock);
    for (size_t i = 0; i < KEYS && !found; i++) {
        found = t->keys[i].made_ns != 0 && memcmp(t->keys[i].name, name, NAME_BYTES) == 0;
        if (found) {
            *out = t->keys[i];
        }
    }
    os_mutex_unlock(t->lock);
    return found;
}

/* Whole seconds, both ways: a clock that was set back makes tickets of the future, which are worth
 * nothing. */
static bool is_alive(const uint8_t *issued, int64_t now_ns)
{
    uint64_t at = cur_at64le(issued), now = (uint64_t)(now_ns / CLK_S);

    return at <= now && now - at < TLS_TICKET_LIFE_S;
}

enum err tls_ticket_unseal(struct tls_ticket *t, const uint8_t binding[32], int64_t now_ns,
                           uint8_t *p, size_t n, size_t *content)
{
    mbedtls_chachapoly_context cipher;
    struct ticket_key k;
    struct extra x;
    size_t len;
    int r;

    if (n < TLS_TICKET_HEAD + TLS_TICKET_TAIL || !find_key(t, &k, p)) {
        return ERR_CORRUPT;
    }
    len = n - TLS_TICKET_HEAD - TLS_TICKET_TAIL;
    x = make_extra(p, binding);
    mbedtls_chachapoly_init(&cipher);
    r = mbedtls_chachapoly_setkey(&cipher, k.key);
    if (r == 0) {
        r = mbedtls_chachapoly_auth_decrypt(&cipher, len, p + NONCE_AT, (const uint8_t *)&x,
                                            sizeof x, p + n - TLS_TICKET_TAIL, p + TLS_TICKET_HEAD,
                                            p + TLS_TICKET_HEAD);
    }
    mbedtls_chachapoly_free(&cipher);
    mbedtls_platform_zeroize(&k, sizeof k);
    if (r != 0) {
        return ERR_CORRUPT;
    }
    if (!is_alive(p + ISSUED_AT, now_ns)) {
        return ERR_TIMEOUT;
    }
    *content = len;
    return ERR_OK;
}
