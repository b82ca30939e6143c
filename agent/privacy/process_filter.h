/* Who is reported: processes by number, by name, and those of the system itself. Pure: an answer
 * rests on what is known of the process at that moment (number, name, parent, image and command
 * line) and on nothing else, so it stays the same until one of these becomes known or changes.
 *   only     nobody else, where it names anybody: a process is meant by its number or its name
 *   except   not these; stronger than `only`
 *   system   not the kernel's own: Idle, System, Secure System, Registry, Memory Compression on
 *            Windows; kernel threads on Linux
 * For `except` a process has up to three names: its own, the one it was called by, and that of the
 * script that it runs. Names are patterns
 * (common/base/glob.h) for the name without its folder, in either case. Whoever has no name yet, or
 * one that may be cut, is held back while a name could say no.
 * Bounds:  PROCESS_FILTER_PIDS_MAX numbers and PROCESS_FILTER_NAMES_MAX patterns in each of only
 * and except. Threads: read-only once made. */
#ifndef PROCFLEET_AGENT_PRIVACY_PROCESS_FILTER_H
#define PROCFLEET_AGENT_PRIVACY_PROCESS_FILTER_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/model/model.h"

#define PROCESS_FILTER_PIDS_MAX  1024
#define PROCESS_FILTER_NAMES_MAX 256

struct process_filter_list {
    const uint32_t *pids;
    size_t n_pids;
    const char *const *names;
    size_t n_names;
};

/* All zero: everybody. */
struct process_filter_conf {
    struct process_filter_list only, except;
    bool except_system;
};

struct process_filter;

/* Copies what it is given. Errors: ERR_NOMEM, ERR_FULL (a limit above), ERR_INVALID (a
 * pattern that fits no name) */
NODISCARD enum err process_filter_create(struct process_filter **out,
                                         const struct process_filter_conf *conf);
void process_filter_destroy(struct process_filter *w); /* NULL is allowed */

bool process_filter_wants(const struct process_filter *w, const struct proc_info *info);

/* Whether a pattern could fit any name. Errors: ERR_INVALID (it is empty, or has a folder) */
NODISCARD enum err process_filter_check_name(const char *pattern);

/* "4711". Errors: ERR_INVALID */
NODISCARD enum err process_filter_parse_pid(uint32_t *out, const char *text);

#endif
