/* The terminal taken for a full screen: raw keys, the alternate screen, its size as it changes, and
 * everything back as it was on every way out - close, exit, a signal, a crash. Only SIGKILL leaves
 * it behind ('reset' helps). One at a time in a process; one thread, but for term_wake.
 * The POSIX side knows VT sequences by heart instead of asking terminfo: every terminal of the last
 * thirty years that is not "dumb" has those that are used here. */
#ifndef PROCFLEET_COLLECTOR_CLI_TERM_TERM_H
#define PROCFLEET_COLLECTOR_CLI_TERM_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct term;

/* What term_wait saw; any of them at once. */
enum term_saw {
    TERM_KEYS = 1,    /* term_read has bytes */
    TERM_RESIZED = 2, /* also when it comes back from being stopped: draw everything again */
    TERM_WOKEN = 4,   /* by term_wake */
    TERM_STOP = 8,    /* the program is to end: a signal, or the terminal is gone */
};

/* Whether standard input and output are a terminal that can be steered. Errors: ERR_INVALID (why
 * says) */
NODISCARD enum err term_usable(struct errmsg *why);

/* Takes the terminal of standard input and output. Errors: those of term_usable, ERR_BUSY (taken
 * already), ERR_IO, ERR_NOMEM */
NODISCARD enum err term_open(struct term **out, struct errmsg *why);
void term_close(struct term *t); /* gives it back; NULL is allowed */

void term_size(const struct term *t, unsigned *rows, unsigned *columns);

/* Waits for one of these, at most so long (negative: for ever); returns the bits, 0 when the time
 * is over. */
unsigned term_wait(struct term *t, int64_t timeout_ns);

/* Bytes that were typed, at most n of them; 0 when there are none. Never waits. */
size_t term_read(struct term *t, void *p, size_t n);
void term_write(struct term *t, const void *p, size_t n); /* what fails is found by term_wait */

void term_wake(struct term *t); /* ends a term_wait; any thread */

/* Gives the terminal back, stops the program as ^Z does, and takes it again when it goes on. Where
 * there is no such thing it does nothing. */
void term_suspend(struct term *t);

/* Whether what is printed may be UTF-8. */
bool term_is_utf8(void);

#endif
