/* How many records of which kind: by provider, and by provider, id, opcode, version and form. Names
 * are asked for when a kind is new and for some of its first records, until one is known.
 * Bounds: ETL_KINDS_MAX kinds of ETL_KINDS_PROVIDERS_MAX providers; records of further ones are
 * counted together. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_KINDS_H
#define PROCFLEET_AGENT_ETL_ETL_KINDS_H

#include "agent/decode/describe.h"
#include "agent/source/source.h"
#include "common/base/buf.h"
#include "common/text/value_text.h"

#define ETL_KINDS_MAX           8192
#define ETL_KINDS_PROVIDERS_MAX 1024
#define ETL_KINDS_NAME_MAX      80 /* bytes, cut */

/* Classes of the kernel whose records have figures of their own. */
enum etl_kinds_class {
    ETL_KINDS_OTHER,
    ETL_KINDS_PROCESS,
    ETL_KINDS_THREAD,
    ETL_KINDS_IMAGE,
    ETL_KINDS_PERF_INFO,
    ETL_KINDS_DISK_IO,
    ETL_KINDS_PAGE_FAULT,
    ETL_KINDS_FILE_IO,
    ETL_KINDS_TCP_IP,
    ETL_KINDS_UDP_IP,
    ETL_KINDS_STACK_WALK,
    ETL_KINDS_CLASS_COUNT,
};

struct etl_kinds_provider {
    uint8_t guid[16];
    char name[ETL_KINDS_NAME_MAX]; /* empty: unknown */
    uint64_t count;
};

struct etl_kinds_event {
    uint8_t guid[16];
    uint32_t provider; /* index */
    uint16_t id;       /* 0 of classic ones */
    uint8_t opcode, version, form;
    bool event_header; /* counted apart from the kernel's own of the same class */
    uint8_t kernel;    /* enum etl_kinds_class; 0 of EVENT_HEADER records, whatever their class */
    uint8_t by;        /* enum describe_by, of the last record that was asked about */
    uint8_t asked;     /* how often a name was looked for */
    char name[ETL_KINDS_NAME_MAX];
    uint64_t count;
};

struct etl_kinds;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_kinds_create(struct etl_kinds **out);
void etl_kinds_destroy(struct etl_kinds *k); /* NULL is allowed */

/* Counts a record; `d` may be NULL. NULL: there is no room for its kind. */
const struct etl_kinds_event *etl_kinds_count(struct etl_kinds *k, struct describe *d,
                                              const struct raw_event *raw);

/* Records of kinds that had no room. */
uint64_t etl_kinds_dropped(const struct etl_kinds *k);

const struct etl_kinds_provider *etl_kinds_providers(const struct etl_kinds *k, size_t *n);
const struct etl_kinds_event *etl_kinds_events(const struct etl_kinds *k, size_t *n);

/* Pointers to all entries: providers by falling count; events by the provider's GUID as text, id,
 * opcode, version and form. mem_free. Errors: ERR_NOMEM */
NODISCARD enum err etl_kinds_sort_providers(const struct etl_kinds *k,
                                            const struct etl_kinds_provider ***out, size_t *n);
NODISCARD enum err etl_kinds_sort_events(const struct etl_kinds *k,
                                         const struct etl_kinds_event ***out, size_t *n);

/* "task/name", without what is empty or said twice. */
void etl_kinds_title(struct buf *out, const struct described *is);

const char *etl_kinds_form(uint8_t form); /* "classic", "manifest", "wpp" */

/* -- what is left over of a kernel record's payload -- */

/* The class in the figures' words ("process", "disk"); NULL: no figure is kept for such records. */
const char *etl_kinds_class_name(const struct etl_kinds_event *kind);

/* Bytes behind the last fixed field, by the layouts of Microsoft's class descriptions alone: what
 * newer systems append, such as the thread name, counts as left over. An independent look at what
 * the decoders read. 0 too when the payload is short. */
size_t etl_kinds_left_over(const struct etl_kinds_event *kind, const struct raw_event *raw);

#endif
