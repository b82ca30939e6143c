#include "common/http/http_session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/pki/pki_token.h"

#define HASH_BYTES    PKI_TOKEN_HASH_BYTES
#define SECRET_BYTES  ((HTTP_SESSION_TEXT - 1) / 2)
#define TOKEN_MIN     32u /* characters */
#define TOKEN_MAX     128u
#define ADDRESSES     64u
#define ADDRESS_MAX   64u
#define LOGIN_SPAN_NS (60 * CLK_S)
#define RATE_MILLI    1000 /* a request, in the measure of what a session may still ask */

struct ticket {
    bool used;
    uint8_t hash[HASH_BYTES];
    int64_t made_ns; /* monotonic */
    struct net_identity who;
};

struct session {
    uint64_t id;      /* 0: free */
    bool token, gone; /* gone: of a token, it is not in its file any more */
    uint8_t cookie[HASH_BYTES], key[HASH_BYTES]; /* a token has its own as the key */
    struct net_identity who;
    int64_t until_ns;                       /* UTC; INT64_MAX: a token without an end */
    int64_t begun_ns, used_ns, refilled_ns; /* monotonic */
    int64_t left;                           /* in RATE_MILLI */
    unsigned under_way;
};

/* Wrong tickets of an address. */
struct attempts {
    char address[ADDRESS_MAX]; /* "": free */
    int64_t since_ns;          /* monotonic */
    unsigned n;
};

struct http_session_table {
    int64_t life_ns;
    uint64_t ids;
    struct ticket tickets[HTTP_SESSION_TICKETS];
    struct session sessions[HTTP_SESSION_MAX];
    struct attempts attempts[ADDRESSES];
};

/* -- secrets -- */

static enum err secret_make(char text[HTTP_SESSION_TEXT], uint8_t hash[HASH_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[SECRET_BYTES];
    enum err e = os_random(bytes, sizeof bytes);

    for (size_t i = 0; i < sizeof bytes && !e; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[HTTP_SESSION_TEXT - 1] = '\0';
    return e ? e : pki_token_digest(hash, text, HTTP_SESSION_TEXT - 1);
}

/* Takes as long wherever they differ. */
static bool secret_is(const uint8_t a[HASH_BYTES], const uint8_t b[HASH_BYTES])
{
    volatile uint8_t differs = 0;

    for (size_t i = 0; i < HASH_BYTES; i++) {
        differs |= a[i] ^ b[i];
    }
    return differs == 0;
}

/* false: it is none. */
static bool secret_hash(uint8_t hash[HASH_BYTES], struct str text)
{
    return text.n >= TOKEN_MIN && text.n <= TOKEN_MAX &&
           pki_token_digest(hash, text.p, text.n) == ERR_OK;
}

static bool same_holder(const struct net_identity *a, const struct net_identity *b)
{
    return memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

static bool holder_has_ended(const struct net_identity *who, struct http_session_now now)
{
    return who->not_after_ns && now.utc_ns >= who->not_after_ns;
}

/* -- tickets -- */

static bool ticket_is_over(const struct ticket *k, struct http_session_now now)
{
    return now.mono_ns - k->made_ns >= HTTP_SESSION_TICKET_NS || holder_has_ended(&k->who, now);
}

static struct ticket *ticket_room(struct http_session_table *t, const struct net_identity *who,
                                  struct http_session_now now)
{
    struct ticket *free = NULL, *oldest = NULL;
    size_t same = 0;

    for (size_t i = 0; i < HTTP_SESSION_TICKETS; i++) {
        struct ticket *k = &t->tickets[i];

        if (k->used && ticket_is_over(k, now)) {
            *k = (struct ticket){.used = false};
        }
        if (!k->used) {
            free = k;
        } else if (same_holder(&k->who, who)) {
            same++;
            oldest = !oldest || k->made_ns < oldest->made_ns ? k : oldest;
        }
    }
    return same >= HTTP_SESSION_TICKETS_SAME ? oldest : free;
}

enum err http_session_ticket(struct http_session_table *t, const struct net_identity *who,
                             struct http_session_now now, char text[HTTP_SESSION_TEXT])
{
    struct ticket *k = ticket_room(t, who, now);
    struct ticket made = {.used = true, .made_ns = now.mono_ns, .who = *who};
    enum err e;

    if (holder_has_ended(who, now)) {
        return ERR_ACCESS;
    }
    if (!k) {
        return ERR_FULL;
    }
    e = secret_make(text, made.hash);
    if (!e) {
        *k = made;
    }
    return e;
}

/* All are compared, whichever it is. */
static struct ticket *ticket_find(struct http_session_table *t, struct str text,
                                  struct http_session_now now)
{
    struct ticket *found = NULL;
    uint8_t hash[HASH_BYTES];

    if (text.n != HTTP_SESSION_TEXT - 1 || !secret_hash(hash, text)) {
        return NULL;
    }
    for (size_t i = 0; i < HTTP_SESSION_TICKETS; i++) {
        struct ticket *k = &t->tickets[i];

        if (secret_is(hash, k->hash) && k->used && !ticket_is_over(k, now)) {
            found = k;
        }
    }
    return found;
}

/* A wrong ticket of this address; whether it has had too many. */
static bool attempt_is_over(struct http_session_table *t, const char *address, int64_t mono_ns)
{
    struct attempts *a = &t->attempts[0];

    for (size_t i = 0; i < ADDRESSES; i++) {
        struct attempts *other = &t->attempts[i];

        if (strncmp(other->address, address, ADDRESS_MAX - 1) == 0) {
            a = other;
            break;
        }
        a = !other->address[0] || (a->address[0] && other->since_ns < a->since_ns) ? other : a;
    }
    if (strncmp(a->address, address, ADDRESS_MAX - 1) != 0 ||
        mono_ns - a->since_ns >= LOGIN_SPAN_NS) {
        *a = (struct attempts){.since_ns = mono_ns};
        (void)snprintf(a->address, sizeof a->address, "%s", address);
    }
    a->n += a->n <= HTTP_SESSION_LOGINS;
    return a->n > HTTP_SESSION_LOGINS;
}

/* -- sessions -- */

/* NULL: it lives. */
static const char *session_end_reason(const struct http_session_table *t, const struct session *s,
                                      struct http_session_now now)
{
    if (holder_has_ended(&s->who, now)) {
        return "certificate ended";
    }
    if (s->gone) {
        return "its token is not in the file any more";
    }
    if (now.utc_ns >= s->until_ns || (!s->token && now.mono_ns - s->begun_ns >= t->life_ns)) {
        return "had its time";
    }
    return !s->token && now.mono_ns - s->used_ns >= HTTP_SESSION_IDLE_NS ? "not used" : NULL;
}

static struct session *session_of(const struct http_session_table *t, uint64_t id)
{
    const struct session *s = &t->sessions[id % HTTP_SESSION_MAX];

    return id && s->id == id ? (struct session *)(uintptr_t)s : NULL;
}

/* A place, by force that of the one that was used least lately: of the holder's own when it has its
 * share, else of all sessions. NULL: all are tokens. */
static struct session *session_room(struct http_session_table *t, const struct net_identity *who)
{
    struct session *free = NULL, *oldest = NULL, *own = NULL;
    size_t same = 0;

    for (size_t i = 0; i < HTTP_SESSION_MAX; i++) {
        struct session *s = &t->sessions[i];

        if (!s->id) {
            free = s;
        } else if (!s->token) {
            oldest = !oldest || s->used_ns < oldest->used_ns ? s : oldest;
            if (same_holder(&s->who, who)) {
                same++;
                own = !own || s->used_ns < own->used_ns ? s : own;
            }
        }
    }
    return same >= HTTP_SESSION_SAME ? own : free ? free : oldest;
}

/* Ids say where the session is, and are never used again. */
static void session_put(struct http_session_table *t, struct session *at, const struct session *s)
{
    *at = *s;
    at->id = ++t->ids * HTTP_SESSION_MAX + (uint64_t)(at - t->sessions);
    at->left = (int64_t)HTTP_SESSION_RATE * RATE_MILLI;
}

static enum err session_make(struct http_session_table *t, const struct net_identity *who,
                             struct http_session_now now, struct http_session_login *out)
{
    struct session s = {.who = *who,
                        .until_ns = clk_add(now.utc_ns, t->life_ns),
                        .begun_ns = now.mono_ns,
                        .used_ns = now.mono_ns,
                        .refilled_ns = now.mono_ns};
    struct session *at = session_room(t, who);
    enum err e = at ? ERR_OK : ERR_FULL;

    if (who->not_after_ns && who->not_after_ns < s.until_ns) {
        s.until_ns = who->not_after_ns;
    }
    if (!e) {
        e = secret_make(out->cookie, s.cookie);
    }
    if (!e) {
        e = secret_make(out->key, s.key);
    }
    if (!e) {
        out->replaces = at->id != 0;
        out->replaced = at->who;
        session_put(t, at, &s);
        out->who = *who;
        out->until_ns = s.until_ns;
    }
    return e;
}

enum err http_session_login(struct http_session_table *t, struct str ticket, const char *address,
                            struct http_session_now now, struct http_session_login *out)
{
    struct ticket *k = ticket_find(t, ticket, now);
    struct net_identity who;

    if (!k) {
        return attempt_is_over(t, address, now.mono_ns) ? ERR_FULL : ERR_ACCESS;
    }
    who = k->who;
    *k = (struct ticket){.used = false};
    return session_make(t, &who, now, out);
}

/* -- questions -- */

/* A second's worth of requests is the most that is saved up. */
static bool session_may_ask(struct session *s, int64_t mono_ns)
{
    const int64_t most = (int64_t)HTTP_SESSION_RATE * RATE_MILLI;
    int64_t since_ns = mono_ns - s->refilled_ns;

    if (since_ns > 0) {
        s->left += since_ns >= CLK_S ? most : since_ns / (CLK_S / RATE_MILLI) * HTTP_SESSION_RATE;
        s->left = s->left < most ? s->left : most;
        s->refilled_ns = mono_ns - (since_ns >= CLK_S ? 0 : since_ns % (CLK_S / RATE_MILLI));
    }
    if (s->left < RATE_MILLI) {
        return false;
    }
    s->left -= RATE_MILLI;
    return true;
}

/* All are compared, whichever it is. */
static struct session *session_find(struct http_session_table *t,
                                    const struct http_session_proof *proof)
{
    uint8_t cookie[HASH_BYTES] = {0}, key[HASH_BYTES];
    bool token = proof->bearer.n > 0;
    struct session *found = NULL;

    if (token ? !secret_hash(key, proof->bearer)
              : !secret_hash(key, proof->key) || !secret_hash(cookie, proof->cookie)) {
        return NULL;
    }
    for (size_t i = 0; i < HTTP_SESSION_MAX; i++) {
        struct session *s = &t->sessions[i];
        bool has_key = secret_is(key, s->key), has_cookie = secret_is(cookie, s->cookie);

        if (has_key && has_cookie && s->id && s->token == token) {
            found = s;
        }
    }
    return found;
}

enum err http_session_enter(struct http_session_table *t, const struct http_session_proof *proof,
                            struct http_session_now now, uint64_t *id,
                            const struct net_identity **who)
{
    struct session *s = session_find(t, proof);

    if (!s || session_end_reason(t, s, now)) {
        return ERR_ACCESS;
    }
    s->used_ns = now.mono_ns;
    if (!session_may_ask(s, now.mono_ns)) {
        return ERR_FULL;
    }
    *id = s->id;
    *who = &s->who;
    return ERR_OK;
}

bool http_session_begin(struct http_session_table *t, uint64_t id)
{
    struct session *s = session_of(t, id);

    if (s && s->under_way == HTTP_SESSION_AT_ONCE) {
        return false;
    }
    if (s) {
        s->under_way++;
    }
    return true;
}

void http_session_done(struct http_session_table *t, uint64_t id)
{
    struct session *s = session_of(t, id);

    if (s) {
        assert(s->under_way > 0);
        s->under_way--;
    }
}

bool http_session_lives(const struct http_session_table *t, uint64_t id,
                        struct http_session_now now)
{
    const struct session *s = session_of(t, id);

    return s && !session_end_reason(t, s, now);
}

void http_session_touch(struct http_session_table *t, uint64_t id, struct http_session_now now)
{
    struct session *s = session_of(t, id);

    if (s) {
        s->used_ns = now.mono_ns;
    }
}

/* -- their end -- */

static void session_end(struct session *s, const char *reason, http_session_on_end on_end,
                        void *ctx)
{
    if (on_end) {
        on_end(ctx, &s->who, reason);
    }
    *s = (struct session){.id = 0};
}

void http_session_logout(struct http_session_table *t, uint64_t id, http_session_on_end on_end,
                         void *ctx)
{
    struct session *s = session_of(t, id);

    if (s && !s->token) {
        session_end(s, "logout", on_end, ctx);
    }
}

void http_session_sweep(struct http_session_table *t, struct http_session_now now,
                        const char *(*keep)(void *ctx, const struct net_identity *who),
                        http_session_on_end on_end, void *ctx)
{
    for (size_t i = 0; i < HTTP_SESSION_MAX; i++) {
        struct session *s = &t->sessions[i];
        const char *reason = s->id ? session_end_reason(t, s, now) : NULL;

        if (s->id && !reason && !s->token && keep) {
            reason = keep(ctx, &s->who);
        }
        if (reason) {
            session_end(s, reason, on_end, ctx);
        }
    }
    for (size_t i = 0; i < HTTP_SESSION_TICKETS; i++) {
        struct ticket *k = &t->tickets[i];

        if (k->used && (ticket_is_over(k, now) || (keep && keep(ctx, &k->who)))) {
            *k = (struct ticket){.used = false};
        }
    }
}

size_t http_session_count(const struct http_session_table *t)
{
    size_t n = 0;

    for (size_t i = 0; i < HTTP_SESSION_MAX; i++) {
        n += t->sessions[i].id && !t->sessions[i].token;
    }
    return n;
}

/* -- tokens -- */

/* The next word of a line, which it leaves; empty at its end. */
static struct str word_next(struct str *line)
{
    struct str word;

    while (line->n > 0 && (*line->p == ' ' || *line->p == '\t' || *line->p == '\r')) {
        line->p++;
        line->n--;
    }
    word = (struct str){line->p, 0};
    while (line->n > 0 && *line->p != ' ' && *line->p != '\t' && *line->p != '\r') {
        line->p++;
        line->n--;
        word.n++;
    }
    return word;
}

static bool word_copy(char *to, size_t size, struct str word)
{
    if (word.n == 0 || word.n >= size || memchr(word.p, '\0', word.n)) {
        return false;
    }
    memcpy(to, word.p, word.n);
    to[word.n] = '\0';
    return true;
}

static bool token_is_text(struct str token)
{
    for (size_t i = 0; i < token.n; i++) {
        if (token.p[i] <= ' ' || token.p[i] > '~') {
            return false;
        }
    }
    return token.n >= TOKEN_MIN && token.n <= TOKEN_MAX;
}

/* NULL, or what is wrong. */
static const char *token_option(struct session *s, struct str word, bool scopes)
{
    char text[CLK_TEXT];

    if (word.n > 6 && memcmp(word.p, "scope=", 6) == 0) {
        return !scopes           ? "scopes work where the collector itself answers: console.tokens"
               : s->who.scope[0] ? "a token has one scope"
               : word_copy(s->who.scope, sizeof s->who.scope, (struct str){word.p + 6, word.n - 6})
                   ? NULL
                   : "the scope is too long";
    }
    if (word.n > 6 && memcmp(word.p, "until=", 6) == 0 &&
        word_copy(text, sizeof text, (struct str){word.p + 6, word.n - 6}) &&
        clk_parse_when(&s->until_ns, text, 0) == ERR_OK && s->until_ns > 0) {
        return NULL;
    }
    return "after the token come scope=GLOB and until=TIME, such as until=2027-01-31T00:00:00Z";
}

static const char *token_parse(struct session *s, struct str line, bool scopes)
{
    struct str name = word_next(&line), token = word_next(&line), word;
    const char *wrong = NULL;

    if (!word_copy(s->who.name, sizeof s->who.name, name)) {
        return "the name is too long";
    }
    if (!token_is_text(token)) {
        return "behind the name stands a token of 32 to 128 characters: 'openssl rand -hex 16' "
               "makes one";
    }
    if (!secret_hash(s->key, token) ||
        pki_token_digest(s->who.fingerprint, s->key, sizeof s->key) != ERR_OK) {
        return "no memory for it";
    }
    while (!wrong && (word = word_next(&line)).n > 0) {
        wrong = token_option(s, word, scopes);
    }
    return wrong;
}

static struct session *token_find(const struct session *list, size_t n, const struct session *s)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].token && secret_is(list[i].key, s->key)) {
            return (struct session *)(uintptr_t)&list[i];
        }
    }
    return NULL;
}

/* The text's tokens, up to HTTP_SESSION_MAX. */
static enum err tokens_parse(struct session *list, size_t *n, struct str text, bool scopes,
                             struct errmsg *why)
{
    *n = 0;
    for (unsigned at = 1; text.n > 0; at++) {
        const char *end = memchr(text.p, '\n', text.n);
        struct str line = {text.p, end ? (size_t)(end - text.p) : text.n};
        struct session s = {.token = true, .until_ns = INT64_MAX, .who = {.roles = NET_QUERY}};
        struct str look = line, first = word_next(&look);
        const char *wrong = NULL;

        text.p += line.n + (end ? 1 : 0);
        text.n -= line.n + (end ? 1 : 0);
        if (first.n == 0 || *first.p == '#') {
            continue;
        }
        wrong = token_parse(&s, line, scopes);
        if (wrong) {
            return errmsg_set(why, ERR_INVALID, "line %u: %s", at, wrong);
        }
        if (token_find(list, *n, &s)) {
            return errmsg_set(why, ERR_INVALID,
                              "line %u: its token stands in a line before: each has its own", at);
        }
        if (*n == HTTP_SESSION_MAX) {
            return errmsg_set(why, ERR_FULL, "line %u: there are %u tokens already", at,
                              HTTP_SESSION_MAX);
        }
        list[(*n)++] = s;
    }
    return ERR_OK;
}

/* How many places are free for tokens that are new. */
static size_t tokens_room(const struct http_session_table *t)
{
    size_t n = 0;

    for (size_t i = 0; i < HTTP_SESSION_MAX; i++) {
        n += !t->sessions[i].id;
    }
    return n;
}

/* Those that are there keep their place, so that what is under way goes on. */
static enum err tokens_take(struct http_session_table *t, const struct session *list, size_t n,
                            struct errmsg *why)
{
    size_t known = 0;

    for (size_t i = 0; i < n; i++) {
        known += token_find(t->sessions, HTTP_SESSION_MAX, &list[i]) != NULL;
    }
    if (n - known > tokens_room(t)) {
        return errmsg_set(why, ERR_FULL, "there is no room for %zu more tokens beside the sessions",
                          n - known);
    }
    for (size_t i = 0; i < HTTP_SESSION_MAX; i++) {
        struct session *s = &t->sessions[i];

        s->gone = s->id && s->token && !token_find(list, n, s);
    }
    for (size_t i = 0, at = 0; i < n; i++) {
        struct session *s = token_find(t->sessions, HTTP_SESSION_MAX, &list[i]);

        if (s) {
            s->who = list[i].who;
            s->until_ns = list[i].until_ns;
            continue;
        }
        while (t->sessions[at].id) {
            at++;
        }
        session_put(t, &t->sessions[at], &list[i]);
    }
    return ERR_OK;
}

enum err http_session_tokens(struct http_session_table *t, struct str text, bool scopes,
                             struct errmsg *why)
{
    struct session *list = mem_array(HTTP_SESSION_MAX, sizeof *list);
    enum err e = list ? ERR_OK : ERR_NOMEM;
    size_t n;

    e = e ? e : tokens_parse(list, &n, text, scopes, why);
    e = e ? e : tokens_take(t, list, n, why);
    mem_free(list);
    return e;
}

enum err http_session_create(struct http_session_table **out, int64_t life_ns)
{
    struct http_session_table *t = mem_zalloc(sizeof *t);

    if (!t) {
        return ERR_NOMEM;
    }
    assert(life_ns > 0);
    t->life_ns = life_ns;
    *out = t;
    return ERR_OK;
}

void http_session_destroy(struct http_session_table *t)
{
    mem_free(t);
}
