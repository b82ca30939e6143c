/* How lines of an asker come to the agent of the same host and answers go back: chosen by the build
 * (control_pipe_linux.c, control_pipe_win32.c). For control.c only. */
#ifndef PROCFLEET_AGENT_CONTROL_CONTROL_PIPE_H
#define PROCFLEET_AGENT_CONTROL_CONTROL_PIPE_H

#include "common/base/buf.h"
#include "common/base/err.h"

struct control_pipe;

/* Errors: as control_open */
NODISCARD enum err control_pipe_open(struct control_pipe **out, const char *dir,
                                     struct errmsg *why);

/* Until stop: each asker's line (without its end, n bytes) is answered. Who sends no line in time,
 * one that is too long, or may not ask, is closed. */
void control_pipe_serve(struct control_pipe *p,
                        void (*answer)(void *ctx, const char *line, size_t n, struct buf *out),
                        void *ctx);
void control_pipe_stop(struct control_pipe *p);  /* any thread */
void control_pipe_close(struct control_pipe *p); /* NULL is allowed; serve must have returned */

/* Sends the line (with its end) and reads one. Errors: as control_ask */
NODISCARD enum err control_pipe_ask(const char *dir, const char *line, size_t n, struct buf *out,
                                    struct errmsg *why);

#endif
