/* A page of a host's process instances: up to HEAD_PAGE of one boot, by pid and start, packed into
 * one piece of memory. A page never changes but for the times of last hearing, which are its
 * owner's: what changes is a new page. Texts are numbers in the host's pool (head_text.h).
 * Private to head_info.c and its tests. Threads: any reads; the owner makes new ones. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_PAGE_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_PAGE_H

#include <stdatomic.h>

#include "collector/store/memtable/head_text.h"

#define HEAD_PAGE       64u
#define HEAD_RECORD_MAX 64u /* bytes */

/* What the records of a page count from: the closer, the shorter they are. */
struct head_page_base {
    struct uuid boot;
    uint64_t start;
    int64_t create_ns; /* without the part that follows from the start */
};

struct head_page {
    atomic_uint refs;
    uint32_t n;
    struct head_page_base base;
    uint32_t pid[]; /* n, and one more when they are odd; then the owner's n times at which they
                       were last heard of, n ends of records, and the records */
};

static inline int64_t *head_page_seen_ns(const struct head_page *p)
{
    return (int64_t *)(p->pid + p->n + (p->n & 1));
}

/* A page in the making. */
struct head_draft {
    struct head_page_base base;
    uint32_t n, bytes;
    int64_t seen_ns[HEAD_PAGE];
    uint32_t pid[HEAD_PAGE];
    uint16_t end[HEAD_PAGE];
    uint8_t records[HEAD_PAGE * HEAD_RECORD_MAX];
};

static inline struct head_page *head_page_ref(struct head_page *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void head_page_unref(struct head_page *p); /* NULL is allowed */

size_t head_page_bytes(const struct head_page *p);

/* Below, at or above: the page's i-th instance, beside this one of its boot. */
int head_page_compare(const struct head_page *p, uint32_t i, struct proc_id id);

/* The first instance of the page not below id; p->n: all are. */
uint32_t head_page_find(const struct head_page *p, struct proc_id id);

/* The page where the instance is or belongs: the last one that does not begin above it. 0 when all
 * do. */
size_t head_pages_find(struct head_page *const *pages, size_t n, const struct uuid *boot,
                       struct proc_id id);

/* All of the i-th instance. Text is that of the blocks. */
void head_page_get(const struct head_page *p, uint32_t i, struct head_text_block *const *blocks,
                   struct proc_info *out);

/* The same with the numbers of its texts. */
struct head_known {
    struct proc_info info;
    uint32_t about; /* of the record that has the other three */
    uint32_t name, image, user, line;
};
void head_page_known(const struct head_page *p, uint32_t i, struct head_text_block *const *blocks,
                     struct head_known *out);

/* -- making; a draft has room as long as n < HEAD_PAGE -- */

/* Empty, of a boot whose pages none is near: info is one that will be in it. */
void head_page_draft_init(struct head_draft *d, const struct uuid *boot,
                          const struct proc_info *info);
/* Empty, beside this page. */
void head_page_draft_beside(struct head_draft *d, const struct head_page *p);

/* Behind what it has: n instances of the page that it is beside, from the i-th on. */
void head_page_draft_copy(struct head_draft *d, const struct head_page *p, uint32_t i, uint32_t n);
/* Nothing but n instances of the page from the i-th on, at least 1, counted from the i-th. */
void head_page_draft_anew(struct head_draft *d, const struct head_page *p, uint32_t i, uint32_t n);
/* Behind what it has.
 * now  its `info` is to be added; its numbers are set
 * was  one of the same pool that may have the same texts, which saves looking for them; all zero:
 *      none
 * Errors: those of head_texts_get (the draft is as it was) */
NODISCARD enum err head_page_draft_add(struct head_draft *d, struct head_texts *texts,
                                       struct head_known *now, const struct head_known *was,
                                       int64_t seen_ns);

/* With one reference, the caller's. Errors: ERR_NOMEM */
NODISCARD enum err head_page_draft_finish(const struct head_draft *d, struct head_page **out);

/* Bytes of the pool that may be of no use any more: of command lines, and of the rest. */
struct head_dropped {
    uint64_t lines, about;
};
/* Adds what may be of no use when `was` is gone (is: NULL) or became *is: no less than what is. */
void head_page_dropped(struct head_dropped *sum, const struct head_known *was,
                       const struct proc_info *is, struct head_text_block *const *blocks);

#endif
