/* Leveled log lines, `time level module event key=value …`, or one JSON object a line.
 * Rate-limited per (module, event): repeats beyond 10 in 10 s are counted and the count is told
 * with the next line. Never per process event; what happens often is a counter. Threads: any. A
 * value is quoted when it holds blanks, quotes or control characters. */
#ifndef PROCFLEET_COMMON_LOG_LOG_H
#define PROCFLEET_COMMON_LOG_LOG_H

#include "common/base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

/* path NULL or "" = standard error; otherwise appended to, rotated at 16 MiB, four old files kept.
 */
NODISCARD enum err log_open(enum log_level level, enum log_format format, const char *path);
void log_close(void);

/* module and event are stable identifiers ("uplink", "connected"). `fmt` makes the rest of the line
 * and must read `key=value key="%s"`: use log_str for values from outside. */
void log_line(enum log_level level, const char *module, const char *event, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Quotes and escapes an outside string into `out` for use as a value; returns `out`. */
const char *log_str(char *out, unsigned size, const char *s);
/* The same in quotes always: what a stranger says of itself must not look like what is known. */
const char *log_quote(char *out, unsigned size, const char *s);

/* The same for a line that the tee must know: `note` is the program's own number of it. */
void log_note(unsigned note, enum log_level level, const char *module, const char *event,
              const char *fmt, ...) PRINTF_LIKE(5, 6);

/* From now on this is the lowest level written; returns the one before. Threads: any. */
enum log_level log_set_level(enum log_level level);

/* "error", "warn", "info", "debug" to its level. Errors: ERR_INVALID */
NODISCARD enum err log_level_parse(enum log_level *out, const char *name);
const char *log_level_name(enum log_level level);

/* Every line that is written goes to `tee` too, without its time and on the thread that wrote it;
 * tee must not log. note: of log_note, else 0. NULL ends it. Set while one thread runs only. */
typedef void (*log_tee_fn)(void *ctx, unsigned note, enum log_level level, const char *module,
                           const char *event, const char *text);
void log_tee(log_tee_fn tee, void *ctx);

#endif
