/* The one list of errors. Every function that can fail returns `enum err`; operating-system and
 * library codes are translated where they enter. Functions at the edges (configuration, files, TLS)
 * also fill a `struct errmsg` with the one sentence an operator needs: cause, then remedy. */
#ifndef PROCFLEET_COMMON_BASE_ERR_H
#define PROCFLEET_COMMON_BASE_ERR_H

#if defined(__MINGW32__) /* C99 formats there too: built with __USE_MINGW_ANSI_STDIO */
#define NODISCARD         __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(gnu_printf, f, a)))
#elif defined(__GNUC__)
#define NODISCARD         __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#else
#define NODISCARD
#define PRINTF_LIKE(f, a)
#endif

/* code, text for people */
#define ERR_LIST(X)                             \
    X(ERR_OK, "ok")                             \
    X(ERR_NOMEM, "out of memory")               \
    X(ERR_INVALID, "invalid argument or value") \
    X(ERR_RANGE, "value out of range")          \
    X(ERR_IO, "input/output error")             \
    X(ERR_NOSPACE, "no space left")             \
    X(ERR_NOTFOUND, "not found")                \
    X(ERR_EXISTS, "exists already")             \
    X(ERR_ACCESS, "permission denied")          \
    X(ERR_READONLY, "the disk is read-only")    \
    X(ERR_CORRUPT, "corrupt data")              \
    X(ERR_FULL, "limit reached")                \
    X(ERR_TIMEOUT, "timed out")                 \
    X(ERR_CLOSED, "closed")                     \
    X(ERR_END, "end of data")                   \
    X(ERR_UNSUPPORTED, "not supported here")    \
    X(ERR_VERSION, "unknown version")           \
    X(ERR_REFUSED, "refused by the peer")       \
    X(ERR_UNREACHABLE, "peer unreachable")      \
    X(ERR_TRUST, "peer not trusted")            \
    X(ERR_BUSY, "in use by another process")    \
    X(ERR_LOST, "event source lost")            \
    X(ERR_PROVIDER, "provider refused")         \
    X(ERR_USAGE, "wrong usage")

#define ERR_ENUM(code, text) code,
enum err { ERR_LIST(ERR_ENUM) ERR_COUNT };
#undef ERR_ENUM

/* "ERR_IO" and "input/output error". Any value is allowed; "ERR_?" and "unknown" for others. */
const char *err_name(enum err e);
const char *err_text(enum err e);

/* For a result that truly does not matter; says so in the code. */
static inline void err_ignore(enum err e)
{
    (void)e;
}

/* One sentence for an operator, always NUL-terminated. Caller's storage; `why` may be NULL
 * everywhere. */
struct errmsg {
    char text[512];
};

/* Sets the sentence (printf rules, cut at the size) and returns `e`, so that failing is one line.
 * Names that stand in it steer no terminal (utf8_clean). */
enum err errmsg_set(struct errmsg *why, enum err e, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
