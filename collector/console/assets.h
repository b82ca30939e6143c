/* The console's page, packed into the program at build time (cmake/Embed.cmake): what is there,
 * and the reply to a request for it. All of it lives as long as the program.
 * Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_ASSETS_H
#define PROCFLEET_COLLECTOR_CONSOLE_ASSETS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/str.h"
#include "common/wire/wire_web.h"

struct console_asset {
    const char *name;          /* "index.html", "views/fleet.js" */
    const char *hash;          /* 12 hexadecimal digits; the same for all but index.html */
    const char *etag;          /* of the contents, with its quotes */
    const char *type;          /* Content-Type */
    const unsigned char *gzip; /* gzip_n bytes */
    size_t gzip_n, plain_n;
};

extern const struct console_asset console_assets[];
extern const size_t console_assets_n;

/* Whether the header Accept-Encoding names this coding, in small letters, and wants it. */
bool assets_accepts(struct str accept_encoding, const char *coding);

/* Writes the reply to a request that is not for the interface: 200 with the packed asset, 304 when
 * the caller has it, 406 when it refuses gzip, 404 for everything else. `out` borrows; nothing in
 * it is to be released. */
void assets_answer(struct wire_web_reply *out, const struct wire_web_request *ask);

#endif
