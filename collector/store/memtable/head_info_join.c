/* What two sources say of one process instance. */
#include "collector/store/memtable/head_info.h"

#include "collector/store/memtable/head_cut.h"

static void join_exit(struct proc_info *known, const struct proc_info *news)
{
    bool exact = (news->have & INFO_EXIT_TIME) && !(news->have & INFO_EXIT_INFERRED);
    bool was_exact = (known->have & INFO_EXIT_TIME) && !(known->have & INFO_EXIT_INFERRED);

    if ((news->have & INFO_EXIT_TIME) && (exact || !was_exact)) {
        known->exit_ns = news->exit_ns;
        known->have &= ~(uint32_t)INFO_EXIT_INFERRED;
        known->have |= INFO_EXIT_TIME | (news->have & INFO_EXIT_INFERRED);
    }
    if (news->have & INFO_EXIT_CODE) {
        known->exit_code = news->exit_code;
    }
    known->have |= news->have & (INFO_EXIT_CODE | INFO_EXITED | INFO_FINAL_TOTALS);
}

static void join_text(struct proc_info *known, const struct proc_info *news, bool newer)
{
    const uint32_t line = INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN;

    if (news->name.n && (newer || !known->name.n)) {
        known->name = news->name;
    }
    if (news->image.n && (newer || !known->image.n) &&
        !head_cut_is_end_of(news->image, known->image)) {
        known->image = news->image;
    }
    if (news->user.n && (newer || !known->user.n)) {
        known->user = news->user;
    }
    if ((news->have & INFO_COMMAND_LINE_KNOWN) &&
        (newer || !(known->have & INFO_COMMAND_LINE_KNOWN)) &&
        !((news->have & INFO_COMMAND_LINE_CUT) &&
          head_cut_is_of(news->command_line, known->command_line))) {
        known->command_line = news->command_line;
        known->have = (known->have & ~line) | (news->have & line);
    }
}

bool head_info_is_last(const struct life_event *ev)
{
    return ev->kind == LIFE_PROCESS_STOP;
}

int64_t head_info_when(const struct life_event *ev, int64_t t1_ns)
{
    return !head_info_is_last(ev) && ev->wall_ns < t1_ns ? ev->wall_ns : t1_ns;
}

void head_info_join(struct proc_info *known, const struct proc_info *news, bool newer)
{
    const uint32_t rest = INFO_PARENT | INFO_SESSION | INFO_CREATE_TIME;

    if (news->origin && (!known->origin || news->origin < known->origin)) {
        known->origin = news->origin; /* the list goes from sure to inferred */
    }
    if (news->cpu_origin && (newer || !known->cpu_origin)) {
        known->cpu_origin = news->cpu_origin;
    }
    if ((news->have & INFO_PARENT) && !(known->have & INFO_PARENT)) {
        known->parent_pid = news->parent_pid;
    }
    if (news->parent_start && !known->parent_start) {
        known->parent_start = news->parent_start;
    }
    if ((news->have & INFO_SESSION) && !(known->have & INFO_SESSION)) {
        known->session_id = news->session_id;
    }
    if ((news->have & INFO_CREATE_TIME) && !(known->have & INFO_CREATE_TIME)) {
        known->create_ns = news->create_ns;
    }
    known->have |= news->have & rest;
    join_exit(known, news);
    join_text(known, news, newer);
}

bool head_info_same(const struct proc_info *a, const struct proc_info *b)
{
    return proc_id_eq(a->id, b->id) && a->have == b->have && a->origin == b->origin &&
           a->cpu_origin == b->cpu_origin && a->parent_pid == b->parent_pid &&
           a->parent_start == b->parent_start && a->session_id == b->session_id &&
           a->exit_code == b->exit_code && a->create_ns == b->create_ns &&
           a->exit_ns == b->exit_ns && str_eq(a->name, b->name) && str_eq(a->image, b->image) &&
           str_eq(a->command_line, b->command_line) && str_eq(a->user, b->user);
}
