/* What an administrator of this host asks of the agent that runs here: another level for a time,
 * flags of the kernel, providers, stacks. One line of JSON each way:
 *
 *   {"do": "state"}
 *   {"do": "flags", "on": 65536, "off": 16}        EVENT_TRACE_FLAG_…
 *   {"do": "stacks", "on": true}
 *   {"do": "add" | "remove", "provider": "NAME-OR-GUID…"}     as in etw.providers
 *   {"do": "level", "level": 3, "for_ns": "300000000000"}
 *
 *   {"ok": true, "text": "…"}   {"ok": false, "text": "why not"}
 *
 * Who: POSIX: a socket `control` in state_dir, of root or the agent's own user; Windows: a pipe of
 * one name, of the system, administrators and the agent's account, of this host only.
 * What was asked for is forgotten when the agent ends.
 * Bounds:  lines of CONTROL_LINE bytes; one asker at a time, CONTROL_WAIT_NS each.
 * Threads: one of its own; open and close the owner's. */
#ifndef PROCFLEET_AGENT_CONTROL_CONTROL_H
#define PROCFLEET_AGENT_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

#define CONTROL_LINE     4096u
#define CONTROL_PROVIDER 1024
#define CONTROL_WAIT_NS  (5 * INT64_C(1000000000))
#define CONTROL_SPAN_MAX (86400 * INT64_C(1000000000)) /* a day, ns */

struct control_wish {
    enum control_what {
        CONTROL_STATE,
        CONTROL_FLAGS,
        CONTROL_STACKS,
        CONTROL_ADD,
        CONTROL_REMOVE,
        CONTROL_LEVEL,
        CONTROL_WHATS
    } what;
    uint32_t flags_on, flags_off;
    bool on;
    unsigned level;  /* 0 to 4 */
    int64_t span_ns; /* above 0 */
    char provider[CONTROL_PROVIDER];
};

/* -- the agent's side -- */

struct control;

/* Does it, on the thread of the control; `text` says what is so now. Errors: as it likes, with why
 */
typedef enum err (*control_do)(void *ctx, const struct control_wish *wish, struct buf *text,
                               struct errmsg *why);

/* Errors: ERR_BUSY (another agent of this host has the pipe), ERR_RANGE (the path of state_dir is
 * too long for a socket), ERR_ACCESS, ERR_NOMEM, ERR_IO */
NODISCARD enum err control_open(struct control **out, const char *dir, control_do run, void *ctx,
                                struct errmsg *why);
void control_close(struct control *c); /* NULL is allowed; waits for the wish in hand */

/* One line of anybody, n bytes, as a wish. Errors: ERR_INVALID; `why` says which part */
NODISCARD enum err control_read(struct control_wish *out, const char *line, size_t n,
                                struct errmsg *why);

/* -- the asker's side -- */

/* `dir` is the state_dir of the agent. `text`: what is so now, without control characters but for
 * line ends. Errors: ERR_NOTFOUND (no agent
 * listens there), ERR_ACCESS, ERR_TIMEOUT, ERR_CORRUPT, ERR_IO, ERR_NOMEM; ERR_REFUSED (the agent
 * did not: why is its own) */
NODISCARD enum err control_ask(const char *dir, const struct control_wish *wish, struct buf *text,
                               struct errmsg *why);

/* -- names of the kernel's flags -- */

/* "network", or a number; also several with + between them. Errors: ERR_INVALID */
NODISCARD enum err control_flags(uint32_t *out, const char *text, size_t n, struct errmsg *why);
void control_flags_text(struct buf *out, uint32_t flags); /* "process,thread,0x80000" */

#endif
