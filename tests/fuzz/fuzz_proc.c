/* Texts of procfs and packets of netlink: no input may do more than be refused. */
#include <string.h>

#include "agent/source/linux/proc_net.h"
#include "agent/source/linux/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void try_texts(const char *p, size_t n)
{
    char out[300];
    struct proc_stat st;
    struct proc_status status;
    struct proc_io io;
    struct proc_turns turns;
    bool cut;

    if (proc_text_stat(&st, p, n) == ERR_OK && st.name_n <= sizeof st.name) {
        (void)proc_text_worker(st.name, st.name_n);
    }
    err_ignore(proc_text_status(&status, p, n));
    err_ignore(proc_text_io(&io, p, n));
    err_ignore(proc_text_schedstat(&turns, p, n));
    if (proc_text_utf8(out, sizeof out, p, n) > sizeof out ||
        proc_text_args(out, sizeof out, p, n, &cut) > sizeof out) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct cur packet = cur_make(p, n);
    struct proc_net_msg msg;

    try_texts((const char *)p, n);
    while (proc_net_next(&packet, &msg) == ERR_OK) {
        struct proc_net_event ev;
        struct proc_net_task task;
        uint16_t family;
        int error;

        err_ignore(proc_net_event(&ev, &msg));
        err_ignore(proc_net_task(&task, &msg));
        err_ignore(proc_net_family(&family, &msg));
        err_ignore(proc_net_result(&error, &msg));
    }
    return 0;
}
