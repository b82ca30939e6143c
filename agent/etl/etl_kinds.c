#include "agent/etl/etl_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_record.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define SLOTS          16384 /* a power of two above ETL_KINDS_MAX */
#define PROVIDER_SLOTS 2048
#define ASK_MAX        8 /* times a name is looked for */

struct etl_kinds {
    struct etl_kinds_event *events; /* grows */
    size_t n_events, cap_events;
    struct etl_kinds_provider *providers;
    size_t n_providers, cap_providers;
    uint16_t slots[SLOTS]; /* index + 1; 0 = free */
    uint16_t provider_slots[PROVIDER_SLOTS];
    struct etl_kinds_event *last;
    uint64_t untold;
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

static bool same(const struct etl_kinds_event *e, const struct etl_kinds_event *key,
                 const uint8_t guid[16])
{
    return e->id == key->id && e->opcode == key->opcode && e->version == key->version &&
           e->form == key->form && e->event_header == key->event_header &&
           memcmp(e->guid, guid, 16) == 0;
}

static bool grow(void **p, size_t n, size_t *cap, size_t max, size_t size)
{
    size_t want = *cap ? *cap * 2 : 64;
    void *bigger;

    if (n < *cap) {
        return true;
    }
    want = want < max ? want : max;
    if (n >= want) {
        return false;
    }
    bigger = mem_realloc_array(*p, want, size);
    if (!bigger) {
        return false;
    }
    *p = bigger;
    *cap = want;
    return true;
}

/* Index of the provider, new or known; ETL_KINDS_PROVIDERS_MAX when there is no room. */
static uint32_t provider_of(struct etl_kinds *k, const uint8_t guid[16])
{
    size_t at = (size_t)hash_bytes(guid, 16, k->seed) & (PROVIDER_SLOTS - 1);

    for (; k->provider_slots[at]; at = (at + 1) & (PROVIDER_SLOTS - 1)) {
        uint32_t i = k->provider_slots[at] - 1u;

        if (memcmp(k->providers[i].guid, guid, 16) == 0) {
            return i;
        }
    }
    if (!grow((void **)&k->providers, k->n_providers, &k->cap_providers, ETL_KINDS_PROVIDERS_MAX,
              sizeof *k->providers)) {
        return ETL_KINDS_PROVIDERS_MAX;
    }
    memset(&k->providers[k->n_providers], 0, sizeof *k->providers);
    memcpy(k->providers[k->n_providers].guid, guid, 16);
    k->provider_slots[at] = (uint16_t)(++k->n_providers);
    return (uint32_t)(k->n_providers - 1);
}

static struct etl_kinds_event *add(struct etl_kinds *k, size_t at,
                                   const struct etl_kinds_event *key, const struct raw_event *raw)
{
    uint32_t provider = provider_of(k, raw->guid);
    struct etl_kinds_event *e;

    if (provider == ETL_KINDS_PROVIDERS_MAX ||
        !grow((void **)&k->events, k->n_events, &k->cap_events, ETL_KINDS_MAX, sizeof *k->events)) {
        return NULL;
    }
    e = &k->events[k->n_events];
    *e = *key;
    memcpy(e->guid, raw->guid, 16);
    e->provider = provider;
    e->kernel = kernel_class(raw);
    k->slots[at] = (uint16_t)(++k->n_events);
    return e;
}

static struct etl_kinds_event *find(struct etl_kinds *k, const struct raw_event *raw)
{
    struct etl_kinds_event key = key_of(raw);
    uint64_t number =
        (uint64_t)key.id << 24 | (uint64_t)key.opcode << 16 | (uint64_t)key.version << 8 | key.form;
    size_t at;

    if (k->last && same(k->last, &key, raw->guid)) {
        return k->last;
    }
    at = (size_t)hash_bytes(raw->guid, 16, k->seed + number) & (SLOTS - 1);
    for (; k->slots[at]; at = (at + 1) & (SLOTS - 1)) {
        struct etl_kinds_event *e = &k->events[k->slots[at] - 1];

        if (same(e, &key, raw->guid)) {
            return e;
        }
    }
    return add(k, at, &key, raw);
}

/* -- counting -- */

static void copy_name(char name[ETL_KINDS_NAME_MAX], struct str from)
{
    size_t n = from.n < ETL_KINDS_NAME_MAX - 1 ? from.n : ETL_KINDS_NAME_MAX - 1;

    while (n < from.n && n > 0 && ((uint8_t)from.p[n] & 0xC0) == 0x80) {
        n--; /* not within a character */
    }
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
    struct etl_kinds_event *e = find(k, raw);

    if (!e) {
        k->untold++;
        return NULL;
    }
    k->last = e;
    e->count++;
    k->providers[e->provider].count++;
    if (d && !e->name[0] && e->asked < ASK_MAX) {
        ask_name(k, e, d, raw);
    }
    return e;
}

uint64_t etl_kinds_untold(const struct etl_kinds *k)
{
    return k->untold;
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
    int order = strcmp(etl_kinds_guid(ta, a->guid), etl_kinds_guid(tb, b->guid));

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

const char *etl_kinds_guid(char text[UUID_TEXT], const uint8_t guid[16])
{
    static const uint8_t from[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    struct uuid u;

    for (size_t i = 0; i < 16; i++) {
        u.b[i] = guid[from[i]];
    }
    return uuid_format(text, &u);
}

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
