#include "common/expr/expr_process.h"

#include <stdio.h>

#include "common/base/clk.h"
#include "common/lab/ended.h"

enum slot {
    SLOT_NAME,
    SLOT_IMAGE,
    SLOT_USER,
    SLOT_COMMAND,
    SLOT_PID,
    SLOT_PARENT,
    SLOT_EXIT,
    SLOT_ENDED,
    SLOT_LIFE,
    SLOT_AGE,
    SLOT_SESSION,
    SLOTS
};

static const struct {
    const char *name;
    enum expr_type type;
    struct expr_dim dim;
} fields[SLOTS] = {
    [SLOT_NAME] = {"name", EXPR_TYPE_TEXT, {0}},
    [SLOT_IMAGE] = {"image", EXPR_TYPE_TEXT, {0}},
    [SLOT_USER] = {"user", EXPR_TYPE_TEXT, {0}},
    [SLOT_COMMAND] = {"command", EXPR_TYPE_TEXT, {0}},
    [SLOT_PID] = {"pid", EXPR_TYPE_NUMBER, {0}},
    [SLOT_PARENT] = {"parent", EXPR_TYPE_NUMBER, {0}},
    [SLOT_EXIT] = {"exit", EXPR_TYPE_NUMBER, {0}},
    [SLOT_ENDED] = {"ended", EXPR_TYPE_TEXT, {0}},
    [SLOT_LIFE] = {"life", EXPR_TYPE_NUMBER, {.time = 1}},
    [SLOT_AGE] = {"age", EXPR_TYPE_NUMBER, {.time = 1}},
    [SLOT_SESSION] = {"session", EXPR_TYPE_NUMBER, {0}},
};

static struct expr_dim metric_dim(const struct metric *m)
{
    switch (m->unit) {
    case UNIT_NS:
        return EXPR_TIME;
    case UNIT_BYTES:
        return EXPR_BYTES;
    case UNIT_PERMILLE:
        return EXPR_SHARE;
    default:
        return EXPR_PLAIN;
    }
}

bool expr_process_field(struct str name, struct expr_field *out)
{
    char text[64];
    const struct metric *m;

    for (uint32_t i = 0; i < SLOTS; i++) {
        if (str_eq(str_make(fields[i].name), name)) {
            *out = (struct expr_field){i, fields[i].type, fields[i].dim,
                                       i == SLOT_ENDED ? ended_words : NULL};
            return true;
        }
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)(name.n < sizeof text ? name.n : 0), name.p);
    m = metric_by_name(text);
    if (!m || !(m->column || m->id == M_CPU_PERCENT)) {
        return false;
    }
    *out = (struct expr_field){EXPR_PROCESS_METRIC + m->id, EXPR_TYPE_NUMBER, metric_dim(m), NULL};
    return true;
}

const char *expr_process_closest(struct str name)
{
    char text[64];

    if (!name.n || name.n >= sizeof text) {
        return NULL;
    }
    for (size_t i = 0; i < SLOTS; i++) { /* exit_code, parent_pid, command_line */
        size_t n = strlen(fields[i].name);

        if (name.n >= 3 && memcmp(fields[i].name, name.p, n < name.n ? n : name.n) == 0) {
            return fields[i].name;
        }
    }
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    return metric_closest(text);
}

/* -- values -- */

static void put_text(struct expr_value *out, bool known, struct str s)
{
    if (known) {
        *out = expr_text(s);
    }
}

static void put_number(struct expr_value *out, bool known, int64_t v)
{
    if (known) {
        *out = expr_number(v);
    }
}

static void put_span(struct expr_value *out, const struct proc_info *info, bool known,
                     int64_t end_ns)
{
    int64_t ns = clk_sub(end_ns, info->create_ns);

    put_number(out, known && (info->have & INFO_CREATE_TIME), ns > 0 ? ns : 0);
}

static void put_ended(struct expr_value *out, const struct proc_info *info)
{
    enum ended how;

    if (ended_how(info, &how)) {
        *out = expr_text(str_make(ended_words[how]));
    }
}

void expr_process_value(uint32_t slot, const struct proc_info *info, int64_t now_ns,
                        struct expr_value *out)
{
    *out = (struct expr_value){0};
    if (!info) {
        return;
    }
    switch ((enum slot)slot) {
    case SLOT_NAME:
        put_text(out, info->name.n > 0, info->name);
        break;
    case SLOT_IMAGE:
        put_text(out, info->image.n > 0, info->image);
        break;
    case SLOT_USER:
        put_text(out, info->user.n > 0, info->user);
        break;
    case SLOT_COMMAND:
        put_text(out, info->have & INFO_COMMAND_LINE_KNOWN || info->command_line.n > 0,
                 info->command_line);
        break;
    case SLOT_PID:
        put_number(out, true, info->id.pid);
        break;
    case SLOT_PARENT:
        put_number(out, info->have & INFO_PARENT, info->parent_pid);
        break;
    case SLOT_EXIT:
        put_number(out, info->have & INFO_EXIT_CODE, info->exit_code);
        break;
    case SLOT_ENDED:
        put_ended(out, info);
        break;
    case SLOT_LIFE:
        put_span(out, info, info->have & INFO_EXIT_TIME, info->exit_ns);
        break;
    case SLOT_AGE:
        put_span(out, info, now_ns != 0, now_ns);
        break;
    case SLOT_SESSION:
        put_number(out, info->have & INFO_SESSION, info->session_id);
        break;
    default:
        break;
    }
}
