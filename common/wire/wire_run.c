#include "common/wire/wire_run.h"

#include <assert.h>

#include "common/wire/wire_table.h"
#include "proto/query.pb-c.h"

#define PACK_BYTES (16u << 20) /* memory to build a message in */
#define TEXT_MAX   512u        /* of classes and notes */

/* Lists of a decoded message: none takes more than it did in the message, of at most 8 MiB. */
#define LIST_BYTES (12u << 20)

/* -- rules of texts -- */

static bool run_char_ok(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool wire_run_name_ok(struct str name)
{
    bool ok = name.n >= 1 && name.n <= WIRE_RUN_NAME_MAX;

    for (size_t i = 0; ok && i < name.n; i++) {
        ok = run_char_ok(name.p[i]);
    }
    return ok;
}

bool wire_run_label_ok(const struct wire_label *l)
{
    bool ok = l->key.n >= 1 && l->key.n <= WIRE_LABEL_KEY_MAX && l->key.p[0] >= 'a' &&
              l->key.p[0] <= 'z' && l->value.n <= WIRE_LABEL_VALUE_MAX &&
              wire_text_ok(l->value.p, l->value.n, WIRE_LABEL_VALUE_MAX);

    for (size_t i = 0; ok && i < l->key.n; i++) {
        ok = run_char_ok(l->key.p[i]) && (l->key.p[i] < 'A' || l->key.p[i] > 'Z');
    }
    for (size_t i = 0; ok && i < l->value.n; i++) {
        ok = (unsigned char)l->value.p[i] >= 0x20 && l->value.p[i] != 0x7f;
    }
    return ok;
}

/* -- tables -- */

#define OF struct wire_label, Procfleet__V1__Label
static const struct wire_field label_fields[] = {
    WIRE_TEXT(key, WIRE_LABEL_KEY_MAX),
    WIRE_TEXT(value, WIRE_LABEL_VALUE_MAX),
    WIRE_BY_HAND(assigned), /* runs' labels are not */
    WIRE_END,
};
#undef OF
static const struct wire_table label_table = WIRE_TABLE(wire_label, label, label_fields);

static bool mark_is_sound(const void *ours)
{
    const struct wire_run_mark *m = ours;

    return m->ttl_ns >= 0;
}

#define OF struct wire_run_mark, Procfleet__V1__RunMark
static const struct wire_field mark_fields[] = {
    WIRE_ID(id),
    WIRE_TEXT(key, WIRE_RUN_KEY_MAX),
    WIRE_TEXT(name, WIRE_RUN_NAME_MAX),
    WIRE_TEXTS(hosts, n_hosts, WIRE_RUN_PATTERNS, WIRE_RUN_PATTERN_MAX),
    WIRE_LIST(labels, n_labels, WIRE_RUN_LABELS, &label_table),
    WIRE_NUM(when_ns),
    WIRE_ID(boot),
    WIRE_NUM(root_pid),
    WIRE_NUM(ttl_ns),
    WIRE_ID(parent),
    WIRE_NUM_IF(exit_code, has_exit),
    WIRE_NUM(late),
    WIRE_NUM(root_start),
    WIRE_NUM(now_ns),
    WIRE_END,
};
#undef OF
static const struct wire_table mark_table =
    WIRE_TABLE(wire_run_mark, run_mark, mark_fields, .sound = mark_is_sound);

#define OF struct wire_run_host, Procfleet__V1__RunHost
static const struct wire_field host_fields[] = {
    WIRE_UUID(id),      WIRE_TEXT(name, MODEL_HOST_NAME_MAX),
    WIRE_NUM(added),    WIRE_NUM(since_ns),
    WIRE_NUM(until_ns), WIRE_END,
};
#undef OF
static const struct wire_table host_table = WIRE_TABLE(wire_run_host, run_host, host_fields);

static enum err run_get(void *ours, const void *message, struct wire_arena *a)
{
    const struct wire_run *r = ours;

    (void)message;
    (void)a;
    return r->state < WIRE_RUN_STATES ? ERR_OK : ERR_CORRUPT;
}

#define OF struct wire_run, Procfleet__V1__RunState
static const struct wire_field run_fields[] = {
    WIRE_ID(id),
    WIRE_NUM(number),
    WIRE_TEXT(name, WIRE_RUN_NAME_MAX),
    WIRE_TEXT(owner, MODEL_HOST_NAME_MAX),
    WIRE_NUM(state), /* one of enum wire_run_state */
    WIRE_NUM(began_ns),
    WIRE_NUM(ended_ns),
    WIRE_NUM(ttl_ns),
    WIRE_NUM_IF(exit_code, has_exit),
    WIRE_ID(parent),
    WIRE_ID(boot),
    WIRE_NUM(root_pid),
    WIRE_NUM(root_start),
    WIRE_LIST(labels, n_labels, WIRE_RUN_LABELS, &label_table),
    WIRE_TEXTS(asked, n_asked, WIRE_RUN_PATTERNS, WIRE_RUN_PATTERN_MAX),
    WIRE_LIST(hosts, n_hosts, WIRE_RUN_HOSTS_MAX, &host_table),
    WIRE_NUM(hosts_asked),
    WIRE_NUM(hosts_in),
    WIRE_NUM(revision),
    WIRE_NUM(file_bytes),
    WIRE_NUM(error_ns),
    WIRE_NUM(coverage),
    WIRE_TEXT(classes, TEXT_MAX),
    WIRE_NUM(late),
    WIRE_TEXTS(notes, n_notes, WIRE_RUN_NOTES, TEXT_MAX),
    WIRE_END,
};
#undef OF
static const struct wire_table run_table =
    WIRE_TABLE(wire_run, run_state, run_fields, .get = run_get);

#define OF struct wire_runs_ask, Procfleet__V1__RunsRequest
static const struct wire_field ask_fields[] = {
    WIRE_TEXT(name, WIRE_RUN_SPEC_MAX),
    WIRE_LIST(labels, n_labels, WIRE_RUN_LABELS, &label_table),
    WIRE_NUM(since_ns),
    WIRE_NUM(until_ns),
    WIRE_NUM(states),
    WIRE_NUM(limit),
    WIRE_NUM(before),
    WIRE_NUM(hosts),
    WIRE_END,
};
#undef OF
static const struct wire_table ask_table = WIRE_TABLE(wire_runs_ask, runs_request, ask_fields);

#define OF struct wire_runs, Procfleet__V1__RunsReply
static const struct wire_field runs_fields[] = {
    WIRE_LIST(runs, n, WIRE_RUN_LIST_MAX, &run_table),
    WIRE_NUM(next),
    WIRE_TEXTS(class_keys, n_class, WIRE_RUN_CLASS_MAX, WIRE_RUN_NAME_MAX),
    WIRE_END,
};
#undef OF
static const struct wire_table runs_table = WIRE_TABLE(wire_runs, runs_reply, runs_fields);

#define OF struct wire_run_get, Procfleet__V1__RunGetRequest
static const struct wire_field get_fields[] = {
    WIRE_TEXT(name, WIRE_RUN_SPEC_MAX),
    WIRE_NUM(offset),
    WIRE_NUM(revision),
    WIRE_TEXTS(hosts, n_hosts, WIRE_RUN_PATTERNS, WIRE_RUN_PATTERN_MAX),
    WIRE_NUM(since_ns),
    WIRE_NUM(until_ns),
    WIRE_END,
};
#undef OF
static const struct wire_table get_table = WIRE_TABLE(wire_run_get, run_get_request, get_fields);

static enum err part_get(void *ours, const void *message, struct wire_arena *a)
{
    const struct wire_run_part *p = ours;

    (void)message;
    (void)a;
    return p->total <= WIRE_RUN_FILE_MAX && p->offset <= p->total &&
                   p->data.n <= p->total - p->offset
               ? ERR_OK
               : ERR_FULL;
}

#define OF struct wire_run_part, Procfleet__V1__RunPart
static const struct wire_field part_fields[] = {
    WIRE_ID(id),
    WIRE_TEXT(name, WIRE_RUN_NAME_MAX),
    WIRE_NUM(offset),
    WIRE_NUM(total), /* at most WIRE_RUN_FILE_MAX; offset and data lie in it */
    WIRE_BYTES(data, WIRE_RUN_PART_MAX),
    WIRE_NUM(hash),
    WIRE_NUM(revision),
    WIRE_END,
};
#undef OF
static const struct wire_table part_table =
    WIRE_TABLE(wire_run_part, run_part, part_fields, .get = part_get);

const struct wire_table *const wire_run_tables[] = {
    [WIRE_RUN_MARK] = &mark_table, [WIRE_RUN_RUN] = &run_table,   [WIRE_RUN_ASK] = &ask_table,
    [WIRE_RUN_LIST] = &runs_table, [WIRE_RUN_FETCH] = &get_table, [WIRE_RUN_PART] = &part_table,
};

enum err wire_run_encode(struct buf *out, enum wire_run_kind kind, const void *in)
{
    assert(kind <= WIRE_RUN_PART);
    return wire_table_encode(out, in, wire_run_tables[kind], PACK_BYTES);
}

enum err wire_run_decode(void *out, enum wire_run_kind kind, const void *p, size_t n)
{
    assert(kind <= WIRE_RUN_PART);
    return wire_table_owned(out, wire_run_tables[kind], 0, LIST_BYTES, p, n);
}

void wire_run_free(void *m)
{
    wire_table_free(m);
}
