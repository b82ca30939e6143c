/* How many records of which kind: by provider, and by provider, id, opcode, version and form. Names
 * are asked for when a kind is new and for some of its first records, until one is known.
 * Bounds: KINDS_MAX kinds of KINDS_PROVIDERS_MAX providers; records of further ones are counted
 * together. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_KINDS_H
#define PROCFLEET_AGENT_ETL_KINDS_H

#include "agent/decode/describe.h"
#include "agent/source/source.h"
#include "common/base/buf.h"

#define KINDS_MAX           8192
#define KINDS_PROVIDERS_MAX 1024
#define KINDS_NAME_MAX      80 /* bytes, cut */

/* Classes of the kernel whose records have figures of their own. */
enum kinds_class {
    KINDS_OTHER,
    KINDS_PROCESS,
    KINDS_THREAD,
    KINDS_IMAGE,
    KINDS_PERF_INFO,
    KINDS_DISK_IO,
    KINDS_PAGE_FAULT,
    KINDS_FILE_IO,
    KINDS_TCP_IP,
    KINDS_UDP_IP,
    KINDS_STACK_WALK,
    KINDS_CLASS_COUNT,
};

struct kinds_provider {
    uint8_t guid[16];
    char name[KINDS_NAME_MAX]; /* empty: unknown */
    uint64_t count;
};

struct kinds_event {
    uint8_t guid[16];
    uint32_t provider; /* index */
    uint16_t id;       /* 0 of classic ones */
    uint8_t opcode, version, form;
    bool event_header; /* told apart from the kernel's own of the same class */
    uint8_t kernel;    /* enum kinds_class; 0 of EVENT_HEADER records, whatever their class */
    uint8_t by;        /* enum describe_by, of the last record that was asked about */
    uint8_t asked;     /* how often a name was looked for */
    char name[KINDS_NAME_MAX];
    uint64_t count;
};

struct kinds;

/* Errors: ERR_NOMEM */
NODISCARD enum err kinds_create(struct kinds **out);
void kinds_destroy(struct kinds *k); /* NULL is allowed */

/* Counts a record; `d` may be NULL. NULL: there is no room for its kind. */
const struct kinds_event *kinds_count(struct kinds *k, struct describe *d,
                                      const struct raw_event *raw);

/* Records of kinds that had no room. */
uint64_t kinds_untold(const struct kinds *k);

const struct kinds_provider *kinds_providers(const struct kinds *k, size_t *n);
const struct kinds_event *kinds_events(const struct kinds *k, size_t *n);

/* Pointers to all entries: providers by falling count; events by the provider's GUID as text, id,
 * opcode, version and form. mem_free. Errors: ERR_NOMEM */
NODISCARD enum err kinds_sort_providers(const struct kinds *k, const struct kinds_provider ***out,
                                        size_t *n);
NODISCARD enum err kinds_sort_events(const struct kinds *k, const struct kinds_event ***out,
                                     size_t *n);

/* GUID as text, from the bytes as stored. */
const char *kinds_guid(char text[UUID_TEXT], const uint8_t guid[16]);

/* "task/name", without what is empty or said twice. */
void kinds_title(struct buf *out, const struct described *is);

const char *kinds_form(uint8_t form); /* "classic", "manifest", "wpp" */

#endif
