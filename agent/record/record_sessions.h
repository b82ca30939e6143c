/* The two sessions of a recording, which the system writes into files of their own: chosen by the
 * build. They have fixed names: one recording at a time on a host.
 * Threads: the owner's; sessions outlive a program that is killed, record_sessions_end ends them.
 */
#ifndef PROCFLEET_AGENT_RECORD_RECORD_SESSIONS_H
#define PROCFLEET_AGENT_RECORD_RECORD_SESSIONS_H

#include "agent/record/record_profile.h"

struct record_files {
    const char *kernel, *user; /* paths, UTF-8; nothing is there yet */
    uint32_t max_mib;          /* of each; 0 = RECORD_WHOLE_MIB, then it records no more */
    uint32_t ring_mib;         /* above 0: in memory, written at the end */
    bool stacks;
};

#define RECORD_WHOLE_MIB 4096u
#define RECORD_RING_MAX  2048u /* MiB */

struct record_result {
    uint64_t events_lost, buffers_lost; /* of both */
    char refused[512];                  /* what the system did not take, "" = nothing */
    uint64_t images, schemas; /* whose identity, or look, was written into the user file */
};

/* Starts both, calls `wait`, and ends them when it returns. Errors: ERR_UNSUPPORTED (this system
 * has none; why says what there is instead), ERR_BUSY (one is under way, or was left behind),
 * ERR_EXISTS (a file is there), those of etw_ctl_start */
NODISCARD enum err record_sessions_run(const struct record_plan *plan,
                                       const struct record_files *files, void (*wait)(void *ctx),
                                       void *ctx, struct record_result *out, struct errmsg *why);

/* Ends what a killed recording has left behind; its files are whole. Errors: ERR_UNSUPPORTED,
 * ERR_NOTFOUND (there is nothing), those of etw_ctl_stop */
NODISCARD enum err record_sessions_end(struct errmsg *why);

#endif
