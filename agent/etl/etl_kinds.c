#include "agent/etl/etl_kinds.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_record.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define ASK_MAX 8 /* times a name is looked for */

struct etl_kinds {
    struct etl_kinds_event *events; /* grows */
    size_t n_events, cap_events;
    struct etl_kinds_provider *providers;
    size_t n_providers, cap_providers;
    struct map by_key, by_guid; /* hash → index + 1, of an event and of a provider */
    struct etl_kinds_event *last;
    uint64_t dropped;
    uint64_t seed; /* secret: a recording chooses its GUIDs */
};

static const struct {
    uint8_t guid[16];
    uint8_t class;
} kernel_classes[] = {
    {ETW_CLASS_PROCESS, ETL_KINDS_PROCESS}, {ETW_CLASS_THREAD, ETL_KINDS_THREAD},
    {ETW_CLASS_IMAGE, ETL_KINDS_IMAGE},     {ETW_CLASS_PERF_INFO, ETL_KINDS_PERF_INFO},
    {ETW_CLASS_DISK_IO, ETL_KINDS_DISK_IO}, {ETW_CLASS_PAGE_FAULT, ETL_KINDS_PAGE_FAULT},
    {ETW_CLASS_FILE_IO, ETL_KINDS_FILE_IO}, {ETW_CLASS_TCP_IP, ETL_KINDS_TCP_IP},
    {ETW_CLASS_UDP_IP, ETL_KINDS_UDP_IP},   {ETW_CLASS_STACK_WALK, ETL_KINDS_STACK_WALK},
};

enum err etl_kinds_create(struct etl_kinds **out)
{
    struct etl_kinds *k = mem_zalloc(sizeof *k);

    if (!k) {
        return ERR_NOMEM;
    }
    err_ignore(os_random(&k->seed, sizeof k->seed)); /* without it only slower */
    *out = k;
    return ERR_OK;
}

void etl_kinds_destroy(struct etl_kinds *k)
{
    if (k) {
        map_fini(&k->by_key);
        map_fini(&k->by_guid);
        mem_free(k->events);
        mem_free(k->providers);
        mem_free(k);
    }
}

/* -- look-up -- */

static bool event_header(const struct raw_event *raw)
{
    return raw->header == ETL_EVENT32 || raw->header == ETL_EVENT64;
}

static uint8_t kernel_class(const struct raw_event *raw)
{
    if (raw->form != RAW_CLASSIC || event_header(raw)) {
        return ETL_KINDS_OTHER;
    }
    for (size_t i = 0; i < sizeof kernel_classes / sizeof kernel_classes[0]; i++) {
        if (memcmp(kernel_classes[i].guid, raw->guid, 16) == 0) {
            return kernel_classes[i].class;
        }
    }
    return ETL_KINDS_OTHER;
}

static struct etl_kinds_event key_of(const struct raw_event *raw)
{
    struct etl_kinds_event e = {.id = raw->form == RAW_CLASSIC ? 0 : raw->id,
                                .opcode = raw->form == RAW_MESSAGE ? 0 : raw->opcode,
                                .version = raw->form == RAW_MESSAGE ? 0 : raw->version,
                                .form = raw->form,
                                .event_header = event_header(raw)};

    return e;
}

static bool event_is(const struct etl_kinds_event *e, const struct etl_kinds_event *key,
                     const uint8_t guid[16])
{
    return e->id == key->id && e->opcode == key->opcode && e->version == key->version &&
           e->form == key->form && e->event_header == key->event_header &&
           memcmp(e->guid, guid, 16) == 0;
}

/* Index of the provider, new or known; ETL_KINDS_PROVIDERS_MAX when there is no room. */
static uint32_t provider_of(struct etl_kinds *k, const uint8_t guid[16])
{
    uint64_t hash = hash_bytes(guid, 16, k->seed), at;

    for (; (at = map_get(&k->by_guid, hash)) != 0; hash++) {
        if (memcmp(k->providers[at - 1].guid, guid, 16) == 0) {
            return (uint32_t)at - 1;
        }
    }
    if (VEC_ROOM(&k->providers, &k->cap_providers, k->n_providers + 1, ETL_KINDS_PROVIDERS_MAX) ||
        map_reserve(&k->by_guid)) {
        return ETL_KINDS_PROVIDERS_MAX;
    }
    k->providers[k->n_providers] = (struct etl_kinds_provider){0};
    memcpy(k->providers[k->n_providers].guid, guid, 16);
    (void)map_put(&k->by_guid, hash, ++k->n_providers);
    return (uint32_t)(k->n_providers - 1);
}

/* hash  a free key of the map */
static struct etl_kinds_event *event_add(struct etl_kinds *k, uint64_t hash,
                                         const struct etl_kinds_event *key,
                                         const struct raw_event *raw)
{
    uint32_t provider = provider_of(k, raw->guid);
    struct etl_kinds_event *e;

    if (provider == ETL_KINDS_PROVIDERS_MAX ||
        map_reserve(&k->by_key) || /* first: `last` points into the events that move */
        VEC_ROOM(&k->events, &k->cap_events, k->n_events + 1, ETL_KINDS_MAX)) {
        return NULL;
    }
    e = &k->events[k->n_events];
    *e = *key;
    memcpy(e->guid, raw->guid, 16);
    e->provider = provider;
    e->kernel = kernel_class(raw);
    (void)map_put(&k->by_key, hash, ++k->n_events);
    return e;
}

static struct etl_kinds_event *event_of(struct etl_kinds *k, const struct raw_event *raw)
{
    struct etl_kinds_event key = key_of(raw);
    uint64_t number =
        (uint64_t)key.id << 24 | (uint64_t)key.opcode << 16 | (uint64_t)key.version << 8 | key.form;
    uint64_t hash, at;

    if (k->last && event_is(k->last, &key, raw->guid)) {
        return k->last;
    }
    hash = hash_bytes(raw->guid, 16, k->seed + number);
    for (; (at = map_get(&k->by_key, hash)) != 0; hash++) {
        if (event_is(&k->events[at - 1], &key, raw->guid)) {
            return &k->events[at - 1];
        }
    }
    return event_add(k, hash, &key, raw);
}

/* -- counting -- */

static void copy_name(char name[ETL_KINDS_NAME_MAX], struct str from)
{
    size_t n = utf8_cut(from.p, from.n, ETL_KINDS_NAME_MAX - 1);

    if (n) {
        memcpy(name, from.p, n);
    }
    name[n] = '\0';
}

static void ask_name(struct etl_kinds *k, struct etl_kinds_event *e, struct describe *d,
                     const struct raw_event *raw)
{
    struct etl_kinds_provider *p = &k->providers[e->provider];
    struct described is = {0};
    struct buf both;

    e->asked++;
    describe_name(d, raw, &is);
    e->by = (uint8_t)is.by;
    if (is.provider.n && !p->name[0]) {
        copy_name(p->name, is.provider);
    }
    buf_init(&both, 4 * MODEL_TEXT_MAX);
    etl_kinds_title(&both, &is);
    copy_name(e->name, (struct str){(const char *)both.p, both.n});
    buf_fini(&both);
}

const struct etl_kinds_event *etl_kinds_count(struct etl_kinds *k, struct describe *d,
                                              const struct raw_event *raw)
{
    struct etl_kinds_event *e = event_of(k, raw);

    if (!e) {
        k->dropped++;
        return NULL;
    }
    assert(e->provider < k->n_providers);
    k->last = e;
    e->count++;
    k->providers[e->provider].count++;
    if (d && !e->name[0] && e->asked < ASK_MAX) {
        ask_name(k, e, d, raw);
    }
    return e;
}

uint64_t etl_kinds_dropped(const struct etl_kinds *k)
{
    return k->dropped;
}

const struct etl_kinds_provider *etl_kinds_providers(const struct etl_kinds *k, size_t *n)
{
    *n = k->n_providers;
    return k->providers;
}

const struct etl_kinds_event *etl_kinds_events(const struct etl_kinds *k, size_t *n)
{
    *n = k->n_events;
    return k->events;
}

/* -- order -- */

static int by_count(const void *pa, const void *pb)
{
    const struct etl_kinds_provider *a = *(const struct etl_kinds_provider *const *)pa;
    const struct etl_kinds_provider *b = *(const struct etl_kinds_provider *const *)pb;

    if (a->count != b->count) {
        return a->count < b->count ? 1 : -1;
    }
    return memcmp(a->guid, b->guid, 16);
}

enum err etl_kinds_sort_providers(const struct etl_kinds *k, const struct etl_kinds_provider ***out,
                                  size_t *n)
{
    const struct etl_kinds_provider **all = mem_array(k->n_providers + 1, sizeof *all);

    if (!all) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < k->n_providers; i++) {
        all[i] = &k->providers[i];
    }
    qsort(all, k->n_providers, sizeof *all, by_count);
    *out = all;
    *n = k->n_providers;
    return ERR_OK;
}

static int by_kind(const void *pa, const void *pb)
{
    const struct etl_kinds_event *a = *(const struct etl_kinds_event *const *)pa;
    const struct etl_kinds_event *b = *(const struct etl_kinds_event *const *)pb;
    char ta[UUID_TEXT], tb[UUID_TEXT];
    int order = strcmp(value_text_guid(ta, a->guid), value_text_guid(tb, b->guid));

    order = order ? order : (int)a->id - (int)b->id;
    order = order ? order : (int)a->opcode - (int)b->opcode;
    order = order ? order : (int)a->version - (int)b->version;
    return order ? order : (int)a->form - (int)b->form;
}

enum err etl_kinds_sort_events(const struct etl_kinds *k, const struct etl_kinds_event ***out,
                               size_t *n)
{
    const struct etl_kinds_event **all = mem_array(k->n_events + 1, sizeof *all);

    if (!all) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < k->n_events; i++) {
        all[i] = &k->events[i];
    }
    qsort(all, k->n_events, sizeof *all, by_kind);
    *out = all;
    *n = k->n_events;
    return ERR_OK;
}

/* -- texts -- */

void etl_kinds_title(struct buf *out, const struct described *is)
{
    if (is->task.n) {
        buf_put(out, is->task.p, is->task.n);
    }
    if (is->name.n && !str_eq(is->name, is->task)) {
        buf_put_str(out, is->task.n ? "/" : "");
        buf_put(out, is->name.p, is->name.n);
    }
}

const char *etl_kinds_form(uint8_t form)
{
    return form == RAW_CLASSIC ? "classic" : form == RAW_MANIFEST ? "manifest" : "wpp";
}

#define SID_SUB_MAX 15

const char *etl_kinds_class_name(const struct etl_kinds_event *kind)
{
    uint8_t op = kind->opcode;

    switch (kind->kernel) {
    case ETL_KINDS_PROCESS:
        return (op >= 1 && op <= 4) || op == 39 ? "process" : NULL;
    case ETL_KINDS_THREAD:
        return op >= 1 && op <= 4 ? "thread" : op == 36 ? "cswitch" : NULL;
    case ETL_KINDS_IMAGE:
        return op == 10 || (op >= 2 && op <= 4) ? "image" : NULL;
    case ETL_KINDS_PERF_INFO:
        return op == 46 ? "sample" : NULL;
    case ETL_KINDS_DISK_IO:
        return op == 10 || op == 11 ? "disk" : NULL;
    case ETL_KINDS_PAGE_FAULT:
        return op == 32 ? "hardfault" : op >= 10 && op <= 15 ? "softfault" : NULL;
    case ETL_KINDS_TCP_IP:
        return op == 10 || op == 11 || op == 26 || op == 27 ? "tcp" : NULL;
    case ETL_KINDS_UDP_IP:
        return op == 10 || op == 11 || op == 26 || op == 27 ? "udp" : NULL;
    default:
        return NULL;
    }
}

static void skip_sid(struct cur *c, unsigned pointer_size)
{
    struct cur at = *c;
    uint8_t n;

    if (cur_u32le(&at) == 0) {
        cur_skip(c, 4);
        return;
    }
    cur_skip(c, 2u * pointer_size);
    (void)cur_u8(c);
    n = cur_u8(c);
    cur_skip(c, n <= SID_SUB_MAX ? 6u + 4u * n : cur_left(c) + 1);
}

/* key, pid, parent, session, exit status, page directory (3), flags (4), SID, image, command line
 * (2), package and application (4) */
static void skip_process(struct cur *c, unsigned version, unsigned p)
{
    size_t n;

    cur_skip(c, version == 0 ? 2u * p : p + 16u);
    cur_skip(c, (version >= 3 ? p : 0u) + (version >= 4 ? 4u : 0u));
    skip_sid(c, p);
    (void)cur_cstr(c, &n);
    for (unsigned i = version >= 4 ? 3 : version >= 2 ? 1 : 0; i > 0; i--) {
        (void)cur_wstr(c, &n);
    }
}

static void skip_thread(struct cur *c, const struct raw_event *raw)
{
    unsigned p = raw->pointer_size;

    cur_skip(c, 8);
    if (raw->version == 1 && raw->opcode == 1) {
        cur_skip(c, 6u * p + 1);
    } else if (raw->version >= 2) {
        cur_skip(c, 7u * p + 4u + (raw->version >= 3 ? 4u : 0u));
    }
}

static void skip_image(struct cur *c, unsigned version, unsigned p)
{
    size_t n;

    cur_skip(c, version == 0 ? p + 4u : 2u * p + 4u);
    cur_skip(c, version >= 2 ? 12u + p + 16u : 0u);
    (void)cur_wstr(c, &n);
}

/* pid, size, two addresses, two ports; TCP send: times, sequence, connection */
static size_t net_size(const struct etl_kinds_event *kind, unsigned p)
{
    size_t base = 8u + (kind->opcode >= 26 ? 32u : 8u) + 4u;
    bool sent = kind->opcode == 10 || kind->opcode == 26;

    return base + 4u + p + (kind->kernel == ETL_KINDS_TCP_IP && sent ? 8u : 0u);
}

static size_t fixed_size(const struct etl_kinds_event *kind, const struct raw_event *raw)
{
    unsigned p = raw->pointer_size;

    switch (kind->kernel) {
    case ETL_KINDS_THREAD:
        return 24;
    case ETL_KINDS_PERF_INFO:
        return p + 8u;
    case ETL_KINDS_DISK_IO:
        return 32u + 2u * p + (raw->version >= 3 ? 4u : 0u);
    case ETL_KINDS_PAGE_FAULT:
        return kind->opcode == 32 ? 24u + 2u * p : 2u * p;
    default:
        return net_size(kind, p);
    }
}

size_t etl_kinds_left_over(const struct etl_kinds_event *kind, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);

    switch (kind->kernel) {
    case ETL_KINDS_PROCESS:
        skip_process(&c, raw->version, raw->pointer_size);
        break;
    case ETL_KINDS_THREAD:
        if (kind->opcode == 36) {
            cur_skip(&c, fixed_size(kind, raw));
        } else {
            skip_thread(&c, raw);
        }
        break;
    case ETL_KINDS_IMAGE:
        skip_image(&c, raw->version, raw->pointer_size);
        break;
    default:
        cur_skip(&c, fixed_size(kind, raw));
        break;
    }
    return c.bad ? 0 : cur_left(&c);
}
