/* The book of versions before the database, pki.dir/book: only read, to import it. A file of lines,
 * each with its XXH3-64 over the text, seeded with the file's generation:
 *
 *   0f3a…  procfleet-book 1 5d41…       checksum, name, version, generation
 *   77c0…  token 2026-11-21T19:00:00…   checksum, text
 *
 * Texts are words between single blanks; what is missing is "-":
 *
 *   issued    TIME CERTIFICATE
 *   enrolled  TIME TOKEN new|again CERTIFICATE
 *   token     TIME TOKEN HASH EXPIRES NAMES new|again
 *   withdrawn TIME TOKEN
 *   revoked   TIME cert|host|user WHICH REASON…
 *
 * CERTIFICATE is FINGERPRINT HOST ROLE FROM UNTIL NAME SCOPE. `again`: the host whose name it is
 * continues with a new key, and its certificates from before are revoked. Threads: any. */
#ifndef PROCFLEET_COLLECTOR_CA_CA_IMPORT_H
#define PROCFLEET_COLLECTOR_CA_CA_IMPORT_H

#include "common/net/net.h"
#include "common/pki/pki_token.h"

enum ca_import_kind {
    CA_IMPORT_ISSUED,
    CA_IMPORT_ENROLLED,
    CA_IMPORT_TOKEN,
    CA_IMPORT_WITHDRAWN,
    CA_IMPORT_REVOKED
};
enum ca_import_target { CA_IMPORT_CERT, CA_IMPORT_HOST, CA_IMPORT_USER };

struct ca_import_entry {
    enum ca_import_kind kind;
    int64_t when_ns;         /* UTC */
    struct net_identity who; /* ISSUED, ENROLLED; REVOKED: the member that `target` says */
    uint8_t token[PKI_TOKEN_ID_BYTES];
    uint8_t hash[PKI_TOKEN_HASH_BYTES]; /* TOKEN: of its secret */
    int64_t expires_ns;                 /* TOKEN */
    char names[128];                    /* TOKEN: glob */
    bool again;                         /* TOKEN, ENROLLED */
    enum ca_import_target target;       /* REVOKED */
    char reason[64];                    /* REVOKED; "" = none given */
};

/* Which book it is, and how much of it there is. */
struct ca_import_stamp {
    uint64_t generation, bytes;
};

/* Errors: ERR_NOTFOUND, ERR_CORRUPT (no book), ERR_VERSION, ERR_ACCESS, ERR_IO, ERR_NOMEM */
NODISCARD enum err ca_import_stamp(const char *path, struct ca_import_stamp *out,
                                   struct errmsg *why);

/* Calls `each` for every line in order. A torn end, which a crash during a write leaves, is no
 * line. Errors: as ca_import_stamp (ERR_CORRUPT: why names the line), what `each` returns */
NODISCARD enum err ca_import_read(const char *path,
                                  enum err (*each)(void *ctx, const struct ca_import_entry *x),
                                  void *ctx, struct ca_import_stamp *out, struct errmsg *why);

#endif
