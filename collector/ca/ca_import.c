#include "collector/ca/ca_import.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define FILE_MAX  (200001u * 1042u)
#define SUM_LEN   17u /* of a line's checksum and the blank after it */
#define HEAD_NAME "procfleet-book "
#define HEAD_LEN  (SUM_LEN + 33u + 1u)
#define WORDS_MAX 12u
#define TIME_LEN  30u /* "2026-11-21T09:39:00.123456789Z" */
#define NULS_TORN 8u  /* fewer may be flipped bits */

/* -- words; failure latches -- */

struct words {
    char *word[WORDS_MAX]; /* in the line, each ended by NUL */
    char *rest;            /* of a revocation: the reason */
    size_t n, at;
    bool bad;
};

/* Cuts the line at its blanks; a revocation's after its fourth word. */
static void words_cut(struct words *w, char *text)
{
    size_t max = strncmp(text, "revoked ", 8) == 0 ? 4 : WORDS_MAX;
    char *blank = text;

    *w = (struct words){.n = 0};
    while (text && w->n < max) {
        blank = strchr(text, ' ');
        w->word[w->n++] = text;
        w->bad = w->bad || text[0] == '\0' || text[0] == ' ';
        if (blank) {
            *blank = '\0';
        }
        text = blank ? blank + 1 : NULL;
    }
    w->rest = text;
}

static const char *words_next(struct words *w)
{
    w->bad = w->bad || w->at == w->n;
    return w->bad ? "" : w->word[w->at++];
}

/* Which of the n words it is. */
static unsigned words_choice(struct words *w, const char *const *of, unsigned n)
{
    const char *text = words_next(w);

    for (unsigned i = 0; i < n; i++) {
        if (strcmp(of[i], text) == 0) {
            return i;
        }
    }
    w->bad = true;
    return 0;
}

static int64_t words_time(struct words *w)
{
    const char *text = words_next(w);
    int64_t utc_ns = 0;

    if (strlen(text) != TIME_LEN || text[10] != 'T' || text[TIME_LEN - 1] != 'Z' ||
        clk_parse_when(&utc_ns, text, 0) != ERR_OK) {
        w->bad = true;
    }
    return utc_ns;
}

static void words_hex(struct words *w, uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const char *text = words_next(w);

    if (strlen(text) != 2 * n || strspn(text, digits) != 2 * n) {
        w->bad = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 |
                         (strchr(digits, text[2 * i + 1]) - digits));
    }
}

/* "-" is none. */
static void words_text(struct words *w, char *out, size_t size)
{
    const char *text = words_next(w);
    size_t n = strlen(text);

    w->bad = w->bad || n >= size;
    if (!w->bad && strcmp(text, "-") != 0) {
        memcpy(out, text, n + 1);
    }
}

static void words_host(struct words *w, struct net_identity *who)
{
    const char *text = words_next(w);

    who->has_host = strcmp(text, "-") != 0;
    w->bad = w->bad || (who->has_host && uuid_parse(&who->host, text) != ERR_OK);
}

static bool words_again(struct words *w)
{
    static const char *const words[] = {"new", "again"};

    return words_choice(w, words, 2) == 1;
}

static void words_cert(struct words *w, struct net_identity *who)
{
    static const char *const names[] = {"collector", "agent", "query", "subscribe", "admin"};
    static const unsigned roles[] = {0, NET_AGENT, NET_QUERY, NET_SUBSCRIBE, NET_ADMIN};

    words_hex(w, who->fingerprint, sizeof who->fingerprint);
    words_host(w, who);
    who->roles = roles[words_choice(w, names, 5)];
    who->not_before_ns = words_time(w);
    who->not_after_ns = words_time(w);
    words_text(w, who->name, sizeof who->name);
    words_text(w, who->scope, sizeof who->scope);
    w->bad = w->bad || !who->name[0];
}

static void words_revoked(struct words *w, struct ca_import_entry *x)
{
    static const char *const targets[] = {"cert", "host", "user"};

    x->target = (enum ca_import_target)words_choice(w, targets, 3);
    if (x->target == CA_IMPORT_CERT) {
        words_hex(w, x->who.fingerprint, sizeof x->who.fingerprint);
    } else if (x->target == CA_IMPORT_HOST) {
        words_host(w, &x->who);
        w->bad = w->bad || !x->who.has_host;
    } else {
        words_text(w, x->who.name, sizeof x->who.name);
        w->bad = w->bad || !x->who.name[0];
    }
    w->bad = w->bad || !w->rest || !w->rest[0] || strlen(w->rest) >= sizeof x->reason;
    if (!w->bad && strcmp(w->rest, "-") != 0) {
        memcpy(x->reason, w->rest, strlen(w->rest) + 1);
    }
    w->rest = NULL;
}

/* The line is cut into words. Errors: ERR_CORRUPT, ERR_VERSION (a kind of a later version) */
static enum err entry_read(struct ca_import_entry *out, char *text)
{
    static const char *const kinds[] = {"issued", "enrolled", "token", "withdrawn", "revoked"};
    struct ca_import_entry x = {.when_ns = 0};
    struct words w;

    words_cut(&w, text);
    if (w.bad) { /* a blank too many */
        return ERR_CORRUPT;
    }
    x.kind = (enum ca_import_kind)words_choice(&w, kinds, 5);
    if (w.bad) {
        return ERR_VERSION;
    }
    x.when_ns = words_time(&w);
    if (x.kind == CA_IMPORT_REVOKED) {
        words_revoked(&w, &x);
    } else if (x.kind != CA_IMPORT_ISSUED) {
        words_hex(&w, x.token, sizeof x.token);
    }
    if (x.kind == CA_IMPORT_TOKEN) {
        words_hex(&w, x.hash, sizeof x.hash);
        x.expires_ns = words_time(&w);
        words_text(&w, x.names, sizeof x.names);
    }
    if (x.kind == CA_IMPORT_TOKEN || x.kind == CA_IMPORT_ENROLLED) {
        x.again = words_again(&w);
    }
    if (x.kind == CA_IMPORT_ISSUED || x.kind == CA_IMPORT_ENROLLED) {
        words_cert(&w, &x.who);
    }
    if (w.bad || w.at != w.n || w.rest) {
        return ERR_CORRUPT;
    }
    *out = x;
    return ERR_OK;
}

/* -- the file -- */

/* Whether the n bytes of a line, its break not counted, carry their checksum. */
static bool line_sound(uint64_t seed, const char *line, size_t n)
{
    char wanted[SUM_LEN + 1];

    if (n <= SUM_LEN) {
        return false;
    }
    (void)snprintf(wanted, sizeof wanted, "%016" PRIx64 " ",
                   hash_bytes(line + SUM_LEN, n - SUM_LEN, seed));
    return memcmp(line, wanted, SUM_LEN) == 0;
}

/* Whether the n bytes at the end are what a cut write leaves: a line without its break, where more
 * than that is missing; what was never written may be zero bytes. */
static bool end_torn(uint64_t seed, const char *p, size_t n)
{
    size_t text = 0;

    while (text < n && p[text]) {
        text++;
    }
    for (size_t i = text; i < n; i++) {
        if (p[i]) {
            return false;
        }
    }
    return !memchr(p, '\n', text) && !line_sound(seed, p, text) &&
           (text < n ? n - text >= NULS_TORN : !line_sound(seed, p, n - 1));
}

static enum err head_read(uint64_t *generation, const char *p, size_t n, const char *path,
                          struct errmsg *why)
{
    char head[HEAD_LEN];

    if (n < HEAD_LEN || p[HEAD_LEN - 1] != '\n' || !line_sound(0, p, HEAD_LEN - 1) ||
        strncmp(p + SUM_LEN, HEAD_NAME, strlen(HEAD_NAME)) != 0) {
        return errmsg_set(why, ERR_CORRUPT,
                          "%s:1: not the first line of a book: bring it back from a copy", path);
    }
    memcpy(head, p, HEAD_LEN - 1);
    head[HEAD_LEN - 1] = '\0';
    return sscanf(head + SUM_LEN, HEAD_NAME "1 %16" SCNx64, generation) == 1
               ? ERR_OK
               : errmsg_set(why, ERR_VERSION, "%s was written by a later version", path);
}

static enum err book_load(uint8_t **p, const char *path, struct ca_import_stamp *out,
                          struct errmsg *why)
{
    size_t n = 0;
    enum err e = os_read_file(p, &n, path, FILE_MAX);

    if (e) {
        return errmsg_set(why, e, "cannot read %s: %s", path, os_read_text(e));
    }
    out->bytes = n;
    e = head_read(&out->generation, (const char *)*p, n, path, why);
    if (e) {
        mem_free(*p);
    }
    return e;
}

enum err ca_import_stamp(const char *path, struct ca_import_stamp *out, struct errmsg *why)
{
    uint8_t *p;
    enum err e = book_load(&p, path, out, why);

    if (!e) {
        mem_free(p);
    }
    return e;
}

/* Errors: ERR_END (the rest is torn), ERR_CORRUPT, ERR_VERSION, what `each` returns */
static enum err line_read(char *line, size_t left, uint64_t seed, size_t *n,
                          enum err (*each)(void *ctx, const struct ca_import_entry *x), void *ctx)
{
    char *brk = memchr(line, '\n', left);
    struct ca_import_entry x;
    enum err e;

    if (!brk || !line_sound(seed, line, (size_t)(brk - line))) {
        return end_torn(seed, line, left) ? ERR_END : ERR_CORRUPT;
    }
    *n = (size_t)(brk - line) + 1;
    if (memchr(line, '\0', *n)) {
        return ERR_CORRUPT;
    }
    *brk = '\0';
    e = entry_read(&x, line + SUM_LEN);
    return e ? e : each(ctx, &x);
}

enum err ca_import_read(const char *path,
                        enum err (*each)(void *ctx, const struct ca_import_entry *x), void *ctx,
                        struct ca_import_stamp *out, struct errmsg *why)
{
    size_t at = HEAD_LEN, number = 1;
    uint8_t *whole;
    enum err e = book_load(&whole, path, out, why);

    if (e) {
        return e;
    }
    while (!e && at < out->bytes) {
        size_t n = 0;

        number++;
        e = line_read((char *)whole + at, out->bytes - at, out->generation, &n, each, ctx);
        at += n;
    }
    mem_free(whole);
    return !e || e == ERR_END
               ? ERR_OK
               : errmsg_set(why, e,
                            "cannot import %s:%zu: %s; bring the file back from a copy, or take "
                            "the line out and check with 'pki list --all' what it meant",
                            path, number, err_text(e));
}
