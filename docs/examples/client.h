/* Talking to a collector: sockets with mutual TLS, and calls. Threads: one. */
#ifndef PROCFLEET_DOCS_EXAMPLES_CLIENT_H
#define PROCFLEET_DOCS_EXAMPLES_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nng/nng.h>

#include "proto/rpc.pb-c.h"

/* One line on standard error. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* ... and the end of the program. */
#define die(...) (say(__VA_ARGS__), exit(1))

int64_t now_ms(void); /* of the monotonic clock */

ProtobufCBinaryData text_of(const char *text);         /* borrows */
ProtobufCBinaryData bytes_of(const void *p, size_t n); /* borrows */

struct client_conf {
    const char *ca, *cert, *key; /* files */
    bool (*over)(void);          /* whether to stop trying */
};

/* Connects a socket, and keeps it connected. Ends the program when the collector refuses us. */
void client_dial(const struct client_conf *conf, nng_socket s, const char *address);

/* Of the query port. Begin with .conf and .address; client_close ends it. */
struct client {
    const struct client_conf *conf;
    const char *address;
    nng_socket socket; /* opened by the first call */
    bool open;
};

struct client_reply {
    nng_msg *message;
    Procfleet__V1__ReplyHeader *header;
    const uint8_t *payload; /* inside the message */
    size_t n;
};

/* Calls a method until there is an answer; false: the answer is no, and was told, or it is time to
 * stop. wait_ms: how long the method itself may take. A reply is released by client_reply_free. */
bool client_call(struct client *c, const char *method, const ProtobufCMessage *request,
                 unsigned wait_ms, struct client_reply *out);
void client_reply_free(struct client_reply *r);
void client_close(struct client *c);

#endif
