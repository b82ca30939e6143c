#include "collector/ca/entry.h"

#include <string.h>

#include "common/base/clk.h"
#include "common/os/uuid.h"
#include "common/pki/pki.h"

#define WORD_MAX 160u
#define TIME_LEN 30u /* "2026-11-21T09:39:00.123456789Z" */

static const char *const kinds[] = {"issued", "enrolled", "token", "withdrawn", "revoked"};
static const char *const targets[] = {"cert", "host", "user"};

#define N_KINDS   (sizeof kinds / sizeof *kinds)
#define N_TARGETS (sizeof targets / sizeof *targets)

static const struct {
    const char *word;
    unsigned role;
} roles[] = {
    {"agent", NET_AGENT}, {"query", NET_QUERY}, {"subscribe", NET_SUBSCRIBE},
    {"admin", NET_ADMIN}, {"collector", 0},
};

#define N_ROLES (sizeof roles / sizeof *roles)

static bool of_letters(const char *text, size_t max, const char *more)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!plain && !strchr(more, c)) {
            return false;
        }
    }
    return n > 0 && n <= max;
}

bool entry_names_ok(const char *names)
{
    return of_letters(names, ENTRY_NAMES_MAX, "._-*?") && strcmp(names, "-") != 0;
}

static bool scope_ok(const char *scope)
{
    return of_letters(scope, sizeof((struct net_identity *)0)->scope - 1, "._-*?[]") &&
           strcmp(scope, "-") != 0;
}

static bool reason_ok(const char *reason)
{
    size_t n = strlen(reason);

    for (size_t i = 0; i < n; i++) {
        if (reason[i] < 0x20 || reason[i] > 0x7e) {
            return false;
        }
    }
    return n <= ENTRY_REASON_MAX && strcmp(reason, "-") != 0;
}

/* -- writing: each puts a blank before its word -- */

static void put_word(struct buf *out, const char *word)
{
    buf_put_u8(out, ' ');
    buf_put_str(out, word);
}

static void put_time(struct buf *out, int64_t utc_ns)
{
    char text[CLK_TEXT];

    put_word(out, clk_format_utc(text, sizeof text, utc_ns, 9));
}

static void put_hex(struct buf *out, const uint8_t *p, size_t n)
{
    buf_put_u8(out, ' ');
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "%02x", p[i]);
    }
}

static void put_host(struct buf *out, const struct net_identity *who)
{
    char text[UUID_TEXT];

    put_word(out, who->has_host ? uuid_format(text, &who->host) : "-");
}

static const char *role_word(unsigned role)
{
    for (size_t i = 0; i < N_ROLES; i++) {
        if (roles[i].role == role) {
            return roles[i].word;
        }
    }
    return NULL;
}

static enum err put_cert(struct buf *out, const struct net_identity *who)
{
    const char *role = role_word(who->roles);

    if (!role || !pki_name_ok(who->name) || (who->scope[0] && !scope_ok(who->scope))) {
        return ERR_INVALID;
    }
    put_hex(out, who->fingerprint, sizeof who->fingerprint);
    put_host(out, who);
    put_word(out, role);
    put_time(out, who->not_before_ns);
    put_time(out, who->not_after_ns);
    put_word(out, who->name);
    put_word(out, who->scope[0] ? who->scope : "-");
    return out->bad;
}

static enum err put_token(struct buf *out, const struct entry *e)
{
    if (e->names[0] && !entry_names_ok(e->names)) {
        return ERR_INVALID;
    }
    put_hex(out, e->hash, sizeof e->hash);
    put_time(out, e->expires_ns);
    put_word(out, e->names[0] ? e->names : "-");
    put_word(out, e->again ? "again" : "new");
    return out->bad;
}

static enum err put_revoked(struct buf *out, const struct entry *e)
{
    if (!reason_ok(e->reason) || (e->target == ENTRY_USER && !pki_name_ok(e->who.name))) {
        return ERR_INVALID;
    }
    put_word(out, targets[e->target]);
    if (e->target == ENTRY_CERT) {
        put_hex(out, e->who.fingerprint, sizeof e->who.fingerprint);
    } else if (e->target == ENTRY_HOST) {
        put_host(out, &e->who);
    } else {
        put_word(out, e->who.name);
    }
    put_word(out, e->reason[0] ? e->reason : "-");
    return out->bad;
}

enum err entry_put(struct buf *out, const struct entry *e)
{
    buf_put_str(out, kinds[e->kind]);
    put_time(out, e->when_ns);
    if (e->kind == ENTRY_REVOKED) {
        return put_revoked(out, e);
    }
    if (e->kind == ENTRY_ISSUED) {
        return put_cert(out, &e->who);
    }
    put_hex(out, e->token, sizeof e->token);
    if (e->kind == ENTRY_TOKEN) {
        return put_token(out, e);
    }
    if (e->kind == ENTRY_ENROLLED) {
        put_word(out, e->again ? "again" : "new");
        return put_cert(out, &e->who);
    }
    return out->bad;
}

/* -- reading: failure latches -- */

struct words {
    const char *p;
    size_t n;
    bool bad;
};

/* The next word, ended by NUL; "" and bad when there is none or it is too long. */
static const char *word(struct words *w, char text[WORD_MAX + 1])
{
    const char *blank = w->n ? memchr(w->p, ' ', w->n) : NULL;
    size_t n = blank ? (size_t)(blank - w->p) : w->n;

    text[0] = '\0';
    if (w->bad || n == 0 || n > WORD_MAX || memchr(w->p, '\0', n)) {
        w->bad = true;
        return text;
    }
    memcpy(text, w->p, n);
    text[n] = '\0';
    w->p += blank ? n + 1 : n;
    w->n -= blank ? n + 1 : n;
    w->bad = blank && w->n == 0; /* a blank at the end */
    return text;
}

/* Which of the n words it is. */
static size_t choice(struct words *w, const char *const *of, size_t n)
{
    char text[WORD_MAX + 1];
    size_t i = 0;

    (void)word(w, text);
    while (i < n && strcmp(of[i], text) != 0) {
        i++;
    }
    w->bad = w->bad || i == n;
    return w->bad ? 0 : i;
}

static void get_time(struct words *w, int64_t *utc_ns)
{
    char text[WORD_MAX + 1];

    (void)word(w, text);
    if (strlen(text) != TIME_LEN || text[10] != 'T' || text[TIME_LEN - 1] != 'Z' ||
        clk_parse_when(utc_ns, text, 0) != ERR_OK) {
        w->bad = true;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void get_hex(struct words *w, uint8_t *p, size_t n)
{
    char text[WORD_MAX + 1];

    if (strlen(word(w, text)) != 2 * n) {
        w->bad = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        w->bad = w->bad || high < 0 || low < 0;
        p[i] = w->bad ? 0 : (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
}

static void get_host(struct words *w, struct net_identity *who)
{
    char text[WORD_MAX + 1];

    who->has_host = strcmp(word(w, text), "-") != 0;
    if (who->has_host && uuid_parse(&who->host, text) != ERR_OK) {
        w->bad = true;
    }
}

/* A text whose rule bounds it below `size`. */
static void copy(char *to, size_t size, const char *text)
{
    size_t n = strlen(text);

    if (n < size) {
        memcpy(to, text, n + 1);
    }
}

static void get_name(struct words *w, char *name, size_t size)
{
    char text[WORD_MAX + 1];

    if (!pki_name_ok(word(w, text))) {
        w->bad = true;
        return;
    }
    copy(name, size, text);
}

/* A text that may be "-" for none. */
static void get_glob(struct words *w, char *out, size_t size, bool (*ok)(const char *text))
{
    char text[WORD_MAX + 1];

    if (strcmp(word(w, text), "-") == 0) {
        out[0] = '\0';
    } else if (!ok(text)) {
        w->bad = true;
    } else {
        copy(out, size, text);
    }
}

static void get_cert(struct words *w, struct net_identity *who)
{
    static const char *const names[N_ROLES] = {"agent", "query", "subscribe", "admin", "collector"};

    get_hex(w, who->fingerprint, sizeof who->fingerprint);
    get_host(w, who);
    who->roles = roles[choice(w, names, N_ROLES)].role;
    get_time(w, &who->not_before_ns);
    get_time(w, &who->not_after_ns);
    get_name(w, who->name, sizeof who->name);
    get_glob(w, who->scope, sizeof who->scope, scope_ok);
}

static bool get_again(struct words *w)
{
    static const char *const words[] = {"new", "again"};

    return choice(w, words, 2) == 1;
}

/* The rest of the line. */
static void get_reason(struct words *w, char *reason)
{
    if (w->bad || w->n == 0 || w->n > ENTRY_REASON_MAX || memchr(w->p, '\0', w->n)) {
        w->bad = true;
        return;
    }
    memcpy(reason, w->p, w->n);
    reason[w->n] = '\0';
    w->n = 0;
    if (strcmp(reason, "-") == 0) {
        reason[0] = '\0';
    }
    w->bad = !reason_ok(reason);
}

static void get_revoked(struct words *w, struct entry *e)
{
    e->target = (enum entry_target)choice(w, targets, N_TARGETS);
    if (e->target == ENTRY_CERT) {
        get_hex(w, e->who.fingerprint, sizeof e->who.fingerprint);
    } else if (e->target == ENTRY_HOST) {
        get_host(w, &e->who);
        w->bad = w->bad || !e->who.has_host;
    } else {
        get_name(w, e->who.name, sizeof e->who.name);
    }
    get_reason(w, e->reason);
}

static void get_rest(struct words *w, struct entry *e)
{
    get_time(w, &e->when_ns);
    if (e->kind == ENTRY_REVOKED) {
        get_revoked(w, e);
        return;
    }
    if (e->kind != ENTRY_ISSUED) {
        get_hex(w, e->token, sizeof e->token);
    }
    if (e->kind == ENTRY_TOKEN) {
        get_hex(w, e->hash, sizeof e->hash);
        get_time(w, &e->expires_ns);
        get_glob(w, e->names, sizeof e->names, entry_names_ok);
        e->again = get_again(w);
    }
    if (e->kind == ENTRY_ENROLLED) {
        e->again = get_again(w);
    }
    if (e->kind == ENTRY_ISSUED || e->kind == ENTRY_ENROLLED) {
        get_cert(w, &e->who);
    }
}

enum err entry_get(struct entry *out, const char *text, size_t n)
{
    struct words w = {text, n, false};
    struct entry e = {.when_ns = 0};
    char kind[WORD_MAX + 1];
    size_t k = 0;

    (void)word(&w, kind);
    while (k < N_KINDS && strcmp(kinds[k], kind) != 0) {
        k++;
    }
    if (k == N_KINDS) {
        return w.bad ? ERR_CORRUPT : ERR_VERSION;
    }
    e.kind = (enum entry_kind)k;
    get_rest(&w, &e);
    if (w.bad || w.n > 0) {
        return ERR_CORRUPT;
    }
    *out = e;
    return ERR_OK;
}
