/* Who is reported: processes by number, by name, and those of the system itself. Pure: an answer
 * rests on what is known of the process at that moment (number, name, parent, image and command
 * line) and on nothing else, so it stays the same until one of these becomes known or changes.
 *   only     nobody else, where it names anybody: a process is meant by its number or its name
 *   except   not these; stronger than `only`
 *   system   not the kernel's own: Idle, System, Secure System, Registry, Memory Compression on
 *            Windows; kernel threads on Linux
 * For `except` a process has two names: its own, and the one it was called by. Names are patterns
 * (common/base/glob.h) for the name without its folder, in either case. Whoever has no name yet, or
 * one that may be cut, is held back while a name could say no.
 * Bounds:  WHO_PIDS_MAX numbers and WHO_NAMES_MAX patterns in each of only and except.
 * Threads: read-only once made. */
#ifndef PROCFLEET_AGENT_PRIVACY_WHO_H
#define PROCFLEET_AGENT_PRIVACY_WHO_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/model/model.h"

#define WHO_PIDS_MAX  1024
#define WHO_NAMES_MAX 256

struct who_list {
    const uint32_t *pids;
    size_t n_pids;
    const char *const *names;
    size_t n_names;
};

/* All zero: everybody. */
struct who_conf {
    struct who_list only, except;
    bool except_system;
};

struct who;

/* Copies what it is given. Errors: ERR_NOMEM, ERR_FULL (a limit above), ERR_INVALID (a
 * pattern that fits no name) */
NODISCARD enum err who_create(struct who **out, const struct who_conf *conf);
void who_destroy(struct who *w); /* NULL is allowed */

bool who_wants(const struct who *w, const struct proc_info *info);

/* Whether a pattern could fit any name. Errors: ERR_INVALID (it is empty, or has a folder) */
NODISCARD enum err who_check_name(const char *pattern);

/* "4711". Errors: ERR_INVALID */
NODISCARD enum err who_parse_pid(uint32_t *out, const char *text);

#endif
