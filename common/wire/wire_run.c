#include "common/wire/wire_run.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/wire/wire.h"
#include "proto/query.pb-c.h"

#define PACK_BYTES (16u << 20) /* memory to build a message in */
#define TEXT_MAX   512u        /* of classes and notes */

#define GET_TEXT(out, m, field, max) \
    wire_text_get(&(out)->field, (m)->has_##field, &(m)->field, max)
#define GET_UUID(out, m, field) wire_uuid_get(&(out)->field, (m)->has_##field, &(m)->field)
#define PUT_UUID(m, in, field)                                           \
    do {                                                                 \
        if (run_id_is_set(&(in)->field)) {                               \
            wire_uuid_put(&(m)->has_##field, &(m)->field, &(in)->field); \
        }                                                                \
    } while (0)

/* What every decoded message begins with. */
struct owned {
    struct wire_arena arena;
    union {
        struct wire_run_mark mark;
        struct wire_run run;
        struct wire_runs_ask ask;
        struct wire_runs runs;
        struct wire_run_get get;
        struct wire_run_part part;
    } m;
};

static bool run_id_is_set(const struct uuid *id)
{
    static const struct uuid none;

    return memcmp(id->b, none.b, sizeof none.b) != 0;
}

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

/* -- lists -- */

static enum err run_texts_put(ProtobufCBinaryData **out, size_t *n_out, const struct str *texts,
                              size_t n, size_t max, size_t text_max, struct wire_arena *a)
{
    protobuf_c_boolean has;
    enum err e = ERR_OK;

    if (n > max) {
        return ERR_INVALID;
    }
    *out = wire_arena_array(a, n, sizeof **out);
    if (!*out) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < n; i++) {
        e = wire_text_put(&has, &(*out)[i], texts[i], text_max, a);
    }
    *n_out = n;
    return e;
}

static enum err run_texts_get(const struct str **out, size_t *n_out, ProtobufCBinaryData *texts,
                              size_t n, size_t max, size_t text_max, struct wire_arena *a)
{
    struct str *list;

    if (n > max) {
        return ERR_FULL;
    }
    wire_arena_allow(a, (n + 1) * sizeof *list);
    list = wire_arena_array(a, n, sizeof *list);
    if (!list) {
        return a->bad;
    }
    for (size_t i = 0; i < n; i++) {
        if (!wire_text_get(&list[i], 1, &texts[i], text_max)) {
            return ERR_CORRUPT;
        }
    }
    *out = list;
    *n_out = n;
    return ERR_OK;
}

static enum err run_labels_put(Procfleet__V1__Label ***out, size_t *n_out,
                               const struct wire_label *labels, size_t n, struct wire_arena *a)
{
    Procfleet__V1__Label *items = wire_list(out, n, sizeof *items, a);
    enum err e = n > WIRE_RUN_LABELS ? ERR_INVALID : items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < n; i++) {
        procfleet__v1__label__init(&items[i]);
        e = WIRE_PUT_TEXT(&items[i], key, labels[i].key, WIRE_LABEL_KEY_MAX, a);
        e = e ? e : WIRE_PUT_TEXT(&items[i], value, labels[i].value, WIRE_LABEL_VALUE_MAX, a);
    }
    *n_out = n;
    return e;
}

static enum err run_labels_get(const struct wire_label **out, size_t *n_out,
                               Procfleet__V1__Label **labels, size_t n, struct wire_arena *a)
{
    struct wire_label *list;

    if (n > WIRE_RUN_LABELS) {
        return ERR_FULL;
    }
    wire_arena_allow(a, (n + 1) * sizeof *list);
    list = wire_arena_array(a, n, sizeof *list);
    if (!list) {
        return a->bad;
    }
    for (size_t i = 0; i < n; i++) {
        if (!GET_TEXT(&list[i], labels[i], key, WIRE_LABEL_KEY_MAX) ||
            !GET_TEXT(&list[i], labels[i], value, WIRE_LABEL_VALUE_MAX)) {
            return ERR_CORRUPT;
        }
    }
    *out = list;
    *n_out = n;
    return ERR_OK;
}

/* -- marks -- */

static enum err mark_encode(struct buf *out, const struct wire_run_mark *in, struct wire_arena *a)
{
    Procfleet__V1__RunMark m = PROCFLEET__V1__RUN_MARK__INIT;
    enum err e;

    if (in->ttl_ns < 0) {
        return ERR_INVALID;
    }
    PUT_UUID(&m, in, id);
    PUT_UUID(&m, in, boot);
    PUT_UUID(&m, in, parent);
    WIRE_PUT(&m, when_ns, in->when_ns);
    WIRE_PUT(&m, now_ns, in->now_ns);
    WIRE_PUT(&m, root_pid, in->root_pid);
    WIRE_PUT(&m, root_start, in->root_start);
    WIRE_PUT(&m, ttl_ns, (uint64_t)in->ttl_ns);
    m.has_exit_code = in->has_exit;
    m.exit_code = in->exit_code;
    WIRE_PUT(&m, late, in->late);
    e = WIRE_PUT_TEXT(&m, key, in->key, WIRE_RUN_KEY_MAX, a);
    e = e ? e : WIRE_PUT_TEXT(&m, name, in->name, WIRE_RUN_NAME_MAX, a);
    e = e ? e
          : run_texts_put(&m.hosts, &m.n_hosts, in->hosts, in->n_hosts, WIRE_RUN_PATTERNS,
                          WIRE_RUN_PATTERN_MAX, a);
    e = e ? e : run_labels_put(&m.labels, &m.n_labels, in->labels, in->n_labels, a);
    return e ? e : wire_pack(out, &m);
}

static enum err mark_get(struct wire_run_mark *out, const Procfleet__V1__RunMark *m,
                         struct wire_arena *a)
{
    enum err e;

    if (!GET_UUID(out, m, id) || !GET_UUID(out, m, boot) || !GET_UUID(out, m, parent) ||
        !GET_TEXT(out, m, key, WIRE_RUN_KEY_MAX) || !GET_TEXT(out, m, name, WIRE_RUN_NAME_MAX) ||
        m->ttl_ns > INT64_MAX) {
        return ERR_CORRUPT;
    }
    out->when_ns = m->when_ns;
    out->now_ns = m->now_ns;
    out->root_pid = m->root_pid;
    out->root_start = m->root_start;
    out->ttl_ns = (int64_t)m->ttl_ns;
    out->has_exit = m->has_exit_code != 0;
    out->exit_code = m->exit_code;
    out->late = m->late != 0;
    e = run_texts_get(&out->hosts, &out->n_hosts, m->hosts, m->n_hosts, WIRE_RUN_PATTERNS,
                      WIRE_RUN_PATTERN_MAX, a);
    return e ? e : run_labels_get(&out->labels, &out->n_labels, m->labels, m->n_labels, a);
}

/* -- runs -- */

static enum err run_hosts_put(Procfleet__V1__RunState *m, const struct wire_run *in,
                              struct wire_arena *a)
{
    Procfleet__V1__RunHost *items = wire_list(&m->hosts, in->n_hosts, sizeof *items, a);
    enum err e = in->n_hosts > WIRE_RUN_HOSTS_MAX ? ERR_INVALID : items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n_hosts; i++) {
        const struct wire_run_host *h = &in->hosts[i];

        procfleet__v1__run_host__init(&items[i]);
        wire_uuid_put(&items[i].has_id, &items[i].id, &h->id);
        WIRE_PUT(&items[i], added, h->added);
        WIRE_PUT(&items[i], since_ns, h->since_ns);
        WIRE_PUT(&items[i], until_ns, h->until_ns);
        e = WIRE_PUT_TEXT(&items[i], name, h->name, MODEL_HOST_NAME_MAX, a);
    }
    m->n_hosts = in->n_hosts;
    return e;
}

static enum err run_put(Procfleet__V1__RunState *m, const struct wire_run *in, struct wire_arena *a)
{
    enum err e;

    procfleet__v1__run_state__init(m);
    PUT_UUID(m, in, id);
    PUT_UUID(m, in, parent);
    PUT_UUID(m, in, boot);
    WIRE_PUT(m, number, in->number);
    WIRE_PUT(m, state, in->state);
    WIRE_PUT(m, began_ns, in->began_ns);
    WIRE_PUT(m, ended_ns, in->ended_ns);
    WIRE_PUT(m, ttl_ns, (uint64_t)in->ttl_ns);
    WIRE_PUT(m, error_ns, (uint64_t)in->error_ns);
    m->has_exit_code = in->has_exit;
    m->exit_code = in->exit_code;
    WIRE_PUT(m, late, in->late);
    WIRE_PUT(m, root_pid, in->root_pid);
    WIRE_PUT(m, root_start, in->root_start);
    WIRE_PUT(m, hosts_asked, in->hosts_asked);
    WIRE_PUT(m, hosts_in, in->hosts_in);
    WIRE_PUT(m, revision, in->revision);
    WIRE_PUT(m, file_bytes, in->file_bytes);
    WIRE_PUT(m, coverage, in->coverage);
    e = WIRE_PUT_TEXT(m, name, in->name, WIRE_RUN_NAME_MAX, a);
    e = e ? e : WIRE_PUT_TEXT(m, owner, in->owner, MODEL_HOST_NAME_MAX, a);
    e = e ? e : WIRE_PUT_TEXT(m, classes, in->classes, TEXT_MAX, a);
    e = e ? e : run_labels_put(&m->labels, &m->n_labels, in->labels, in->n_labels, a);
    e = e ? e
          : run_texts_put(&m->asked, &m->n_asked, in->asked, in->n_asked, WIRE_RUN_PATTERNS,
                          WIRE_RUN_PATTERN_MAX, a);
    e = e ? e
          : run_texts_put(&m->notes, &m->n_notes, in->notes, in->n_notes, WIRE_RUN_NOTES, TEXT_MAX,
                          a);
    return e ? e : run_hosts_put(m, in, a);
}

static enum err run_hosts_get(struct wire_run *out, const Procfleet__V1__RunState *m,
                              struct wire_arena *a)
{
    struct wire_run_host *list;

    if (m->n_hosts > WIRE_RUN_HOSTS_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, (m->n_hosts + 1) * sizeof *list);
    list = wire_arena_array(a, m->n_hosts, sizeof *list);
    if (!list) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_hosts; i++) {
        const Procfleet__V1__RunHost *h = m->hosts[i];

        if (!GET_UUID(&list[i], h, id) || !GET_TEXT(&list[i], h, name, MODEL_HOST_NAME_MAX)) {
            return ERR_CORRUPT;
        }
        list[i].added = h->added != 0;
        list[i].since_ns = h->since_ns;
        list[i].until_ns = h->until_ns;
    }
    out->hosts = list;
    out->n_hosts = m->n_hosts;
    return ERR_OK;
}

static enum err run_get(struct wire_run *out, const Procfleet__V1__RunState *m,
                        struct wire_arena *a)
{
    enum err e;

    if (!GET_UUID(out, m, id) || !GET_UUID(out, m, parent) || !GET_UUID(out, m, boot) ||
        !GET_TEXT(out, m, name, WIRE_RUN_NAME_MAX) || !GET_TEXT(out, m, classes, TEXT_MAX) ||
        !GET_TEXT(out, m, owner, MODEL_HOST_NAME_MAX) || m->state >= WIRE_RUN_STATES ||
        m->ttl_ns > INT64_MAX || m->error_ns > INT64_MAX) {
        return ERR_CORRUPT;
    }
    out->number = m->number;
    out->state = (uint8_t)m->state;
    out->began_ns = m->began_ns;
    out->ended_ns = m->ended_ns;
    out->ttl_ns = (int64_t)m->ttl_ns;
    out->error_ns = (int64_t)m->error_ns;
    out->has_exit = m->has_exit_code != 0;
    out->exit_code = m->exit_code;
    out->late = m->late != 0;
    out->root_pid = m->root_pid;
    out->root_start = m->root_start;
    out->hosts_asked = m->hosts_asked;
    out->hosts_in = m->hosts_in;
    out->revision = m->revision;
    out->file_bytes = m->file_bytes;
    out->coverage = m->coverage;
    e = run_labels_get(&out->labels, &out->n_labels, m->labels, m->n_labels, a);
    e = e ? e
          : run_texts_get(&out->asked, &out->n_asked, m->asked, m->n_asked, WIRE_RUN_PATTERNS,
                          WIRE_RUN_PATTERN_MAX, a);
    e = e ? e
          : run_texts_get(&out->notes, &out->n_notes, m->notes, m->n_notes, WIRE_RUN_NOTES,
                          TEXT_MAX, a);
    return e ? e : run_hosts_get(out, m, a);
}

/* -- lists of runs -- */

static enum err ask_encode(struct buf *out, const struct wire_runs_ask *in, struct wire_arena *a)
{
    Procfleet__V1__RunsRequest m = PROCFLEET__V1__RUNS_REQUEST__INIT;
    enum err e = WIRE_PUT_TEXT(&m, name, in->name, WIRE_RUN_SPEC_MAX, a);

    WIRE_PUT(&m, since_ns, in->since_ns);
    WIRE_PUT(&m, until_ns, in->until_ns);
    WIRE_PUT(&m, states, in->states);
    WIRE_PUT(&m, limit, in->limit);
    WIRE_PUT(&m, before, in->before);
    WIRE_PUT(&m, hosts, in->hosts);
    e = e ? e : run_labels_put(&m.labels, &m.n_labels, in->labels, in->n_labels, a);
    return e ? e : wire_pack(out, &m);
}

static enum err ask_get(struct wire_runs_ask *out, const Procfleet__V1__RunsRequest *m,
                        struct wire_arena *a)
{
    if (!GET_TEXT(out, m, name, WIRE_RUN_SPEC_MAX)) {
        return ERR_CORRUPT;
    }
    out->since_ns = m->since_ns;
    out->until_ns = m->until_ns;
    out->states = m->states;
    out->limit = m->limit;
    out->before = m->before;
    out->hosts = m->hosts != 0;
    return run_labels_get(&out->labels, &out->n_labels, m->labels, m->n_labels, a);
}

static enum err runs_encode(struct buf *out, const struct wire_runs *in, struct wire_arena *a)
{
    Procfleet__V1__RunsReply m = PROCFLEET__V1__RUNS_REPLY__INIT;
    Procfleet__V1__RunState *items = wire_list(&m.runs, in->n, sizeof *items, a);
    enum err e = in->n > WIRE_RUN_LIST_MAX ? ERR_INVALID : items ? ERR_OK : a->bad;

    for (size_t i = 0; !e && i < in->n; i++) {
        e = run_put(&items[i], &in->runs[i], a);
    }
    m.n_runs = in->n;
    WIRE_PUT(&m, next, in->next);
    e = e ? e
          : run_texts_put(&m.class_keys, &m.n_class_keys, in->class_keys, in->n_class,
                          WIRE_RUN_CLASS_MAX, WIRE_RUN_NAME_MAX, a);
    return e ? e : wire_pack(out, &m);
}

static enum err runs_get(struct wire_runs *out, const Procfleet__V1__RunsReply *m,
                         struct wire_arena *a)
{
    struct wire_run *list;
    enum err e = ERR_OK;

    if (m->n_runs > WIRE_RUN_LIST_MAX) {
        return ERR_FULL;
    }
    wire_arena_allow(a, (m->n_runs + 1) * sizeof *list);
    list = wire_arena_array(a, m->n_runs, sizeof *list);
    if (!list) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < m->n_runs; i++) {
        e = run_get(&list[i], m->runs[i], a);
    }
    *out = (struct wire_runs){.n = m->n_runs, .runs = list, .next = m->next};
    return e ? e
             : run_texts_get(&out->class_keys, &out->n_class, m->class_keys, m->n_class_keys,
                             WIRE_RUN_CLASS_MAX, WIRE_RUN_NAME_MAX, a);
}

/* -- files -- */

static enum err fetch_encode(struct buf *out, const struct wire_run_get *in, struct wire_arena *a)
{
    Procfleet__V1__RunGetRequest m = PROCFLEET__V1__RUN_GET_REQUEST__INIT;
    enum err e = WIRE_PUT_TEXT(&m, name, in->name, WIRE_RUN_SPEC_MAX, a);

    WIRE_PUT(&m, offset, in->offset);
    WIRE_PUT(&m, revision, in->revision);
    WIRE_PUT(&m, since_ns, in->since_ns);
    WIRE_PUT(&m, until_ns, in->until_ns);
    e = e ? e
          : run_texts_put(&m.hosts, &m.n_hosts, in->hosts, in->n_hosts, WIRE_RUN_PATTERNS,
                          WIRE_RUN_PATTERN_MAX, a);
    return e ? e : wire_pack(out, &m);
}

static enum err fetch_get(struct wire_run_get *out, const Procfleet__V1__RunGetRequest *m,
                          struct wire_arena *a)
{
    out->offset = m->offset;
    out->revision = m->revision;
    out->since_ns = m->since_ns;
    out->until_ns = m->until_ns;
    if (!GET_TEXT(out, m, name, WIRE_RUN_SPEC_MAX)) {
        return ERR_CORRUPT;
    }
    return run_texts_get(&out->hosts, &out->n_hosts, m->hosts, m->n_hosts, WIRE_RUN_PATTERNS,
                         WIRE_RUN_PATTERN_MAX, a);
}

static enum err part_encode(struct buf *out, const struct wire_run_part *in, struct wire_arena *a)
{
    Procfleet__V1__RunPart m = PROCFLEET__V1__RUN_PART__INIT;
    enum err e = WIRE_PUT_TEXT(&m, name, in->name, WIRE_RUN_NAME_MAX, a);

    if (in->data.n > WIRE_RUN_PART_MAX) {
        return ERR_INVALID;
    }
    PUT_UUID(&m, in, id);
    WIRE_PUT(&m, offset, in->offset);
    WIRE_PUT(&m, total, in->total);
    WIRE_PUT(&m, hash, in->hash);
    WIRE_PUT(&m, revision, in->revision);
    m.has_data = in->data.n != 0;
    m.data.data = (uint8_t *)(uintptr_t)in->data.p;
    m.data.len = in->data.n;
    return e ? e : wire_pack(out, &m);
}

static enum err part_get(struct wire_run_part *out, const Procfleet__V1__RunPart *m)
{
    if (!GET_UUID(out, m, id) || !GET_TEXT(out, m, name, WIRE_RUN_NAME_MAX)) {
        return ERR_CORRUPT;
    }
    if (m->data.len > WIRE_RUN_PART_MAX || m->total > WIRE_RUN_FILE_MAX || m->offset > m->total ||
        m->data.len > m->total - m->offset) {
        return ERR_FULL;
    }
    out->offset = m->offset;
    out->total = m->total;
    out->hash = m->hash;
    out->revision = m->revision;
    out->data = (struct str){m->data.len ? (const char *)m->data.data : "", m->data.len};
    return ERR_OK;
}

/* -- all of them -- */

enum err wire_run_encode(struct buf *out, enum wire_run_kind kind, const void *in)
{
    Procfleet__V1__RunState state;
    struct wire_arena a;
    enum err e = ERR_INVALID;

    wire_arena_init(&a, PACK_BYTES);
    switch (kind) {
    case WIRE_RUN_MARK:
        e = mark_encode(out, in, &a);
        break;
    case WIRE_RUN_RUN:
        e = run_put(&state, in, &a);
        e = e ? e : wire_pack(out, &state);
        break;
    case WIRE_RUN_ASK:
        e = ask_encode(out, in, &a);
        break;
    case WIRE_RUN_LIST:
        e = runs_encode(out, in, &a);
        break;
    case WIRE_RUN_FETCH:
        e = fetch_encode(out, in, &a);
        break;
    case WIRE_RUN_PART:
        e = part_encode(out, in, &a);
        break;
    }
    wire_arena_fini(&a);
    return e;
}

static enum err owned_get(struct owned *o, enum wire_run_kind kind, const void *message)
{
    switch (kind) {
    case WIRE_RUN_MARK:
        return mark_get(&o->m.mark, message, &o->arena);
    case WIRE_RUN_RUN:
        return run_get(&o->m.run, message, &o->arena);
    case WIRE_RUN_ASK:
        return ask_get(&o->m.ask, message, &o->arena);
    case WIRE_RUN_LIST:
        return runs_get(&o->m.runs, message, &o->arena);
    case WIRE_RUN_FETCH:
        return fetch_get(&o->m.get, message, &o->arena);
    default:
        return part_get(&o->m.part, message);
    }
}

enum err wire_run_decode(void *out, enum wire_run_kind kind, const void *p, size_t n)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        [WIRE_RUN_MARK] = &procfleet__v1__run_mark__descriptor,
        [WIRE_RUN_RUN] = &procfleet__v1__run_state__descriptor,
        [WIRE_RUN_ASK] = &procfleet__v1__runs_request__descriptor,
        [WIRE_RUN_LIST] = &procfleet__v1__runs_reply__descriptor,
        [WIRE_RUN_FETCH] = &procfleet__v1__run_get_request__descriptor,
        [WIRE_RUN_PART] = &procfleet__v1__run_part__descriptor,
    };
    struct owned *o = mem_zalloc(sizeof *o);
    void *message;
    void *m;
    enum err e;

    assert(kind < sizeof types / sizeof *types);
    if (!o) {
        return ERR_NOMEM;
    }
    wire_arena_init(&o->arena, 0);
    e = wire_unpack(&message, &o->arena, types[kind], p, n);
    if (!e) {
        e = owned_get(o, kind, message);
    }
    m = &o->m;
    if (e) {
        wire_run_free(m);
        return e;
    }
    memcpy(out, &m, sizeof m);
    return ERR_OK;
}

void wire_run_free(void *m)
{
    struct owned *o = m ? (struct owned *)((char *)m - offsetof(struct owned, m)) : NULL;

    if (o) {
        wire_arena_fini(&o->arena);
        mem_free(o);
    }
}
