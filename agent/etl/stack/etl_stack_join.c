/* A user's half goes to the tree under the event's base, a kernel's under that. Where the kernel's
 * half is known first, it stands in a tree of its own, under the node `kernel`, until its base is
 * known.
 *
 *   waiting   a ring of events; slots are found by time and thread
 *   keys      what a key stands for now: the things held for its definition, in a list
 *   held      an event, or several alike, without the frames of a key: of a user's key with the
 *             kernel's half (none, a node, a key), or of a kernel's key
 *
 *   later     weights that are told later: the node they are for, once it is known
 *
 * A key is given up when it is defined and nothing held refers to it. */
#include "agent/etl/stack/etl_stack_join.h"

#include <assert.h>
#include <string.h>

#include "common/base/cur.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define LATEST      64 /* events that are looked at for the latest of a thread */
#define ALIKE       16 /* held things that are compared with a new one */
#define KERNEL_KEY  0x80000000u
#define CLOSED      UINT64_MAX
#define NUMBERS_MAX (4 * ETL_STACK_KEYS)
#define HEADS       (2 * ETL_STACK_WAITING)

struct waiting {
    struct etl_stack_event ev;
    uint32_t kernel;     /* 0 none, a node, or KERNEL_KEY + key */
    uint32_t user;       /* 0 none, or key + 1 */
    uint32_t next, prev; /* of the same head, slot + 1: many may have one time and thread */
    bool used;
};

struct later {
    uint64_t weight;
    uint32_t node;    /* 0: not known yet */
    uint32_t holders; /* 0: it is free, and `node` is the next one that is, + 1 */
};

struct held {
    uint32_t base, kernel, next, count, pid, later;
    int64_t wall_ns;
    uint64_t ip, weight;
};

struct key {
    uint64_t number;
    uint32_t list; /* held + 1 */
    uint32_t node; /* a kernel's that is defined */
    uint32_t refs; /* of held things and of those waiting */
    uint32_t next_free;
    bool open, defined;
};

struct etl_stack_join {
    struct etl_stack_join_conf conf;
    struct etl_stack_join_stats stats;
    struct waiting *ring;
    uint32_t *heads;
    size_t at;
    struct key *keys;
    struct held *held;
    size_t n_keys, cap_keys, n_held, cap_held;
    struct later *later;
    size_t n_later, cap_later;
    uint32_t free_key, free_held, free_later; /* index + 1 */
    struct map numbers;                       /* key's number → its index + 1, or CLOSED */
    uint32_t kernel;                          /* node above the kernel's halves */
    uint32_t path[ETL_STACK_DEPTH];
};

enum err etl_stack_join_create(struct etl_stack_join **out, const struct etl_stack_join_conf *conf)
{
    struct etl_stack_join *j = mem_zalloc(sizeof *j);

    if (!j) {
        return ERR_NOMEM;
    }
    j->conf = *conf;
    j->ring = mem_array(ETL_STACK_WAITING, sizeof *j->ring);
    j->heads = mem_array(HEADS, sizeof *j->heads);
    if (!j->ring || !j->heads) {
        etl_stack_join_destroy(j);
        return ERR_NOMEM;
    }
    j->kernel = etl_stack_tree_child(
        conf->tree, 0, etl_stack_tree_frame(conf->tree, ETL_STACK_TEXT, 0, UINT64_MAX - 1));
    *out = j;
    return ERR_OK;
}

void etl_stack_join_destroy(struct etl_stack_join *j)
{
    if (j) {
        mem_free(j->ring);
        mem_free(j->heads);
        mem_free(j->keys);
        mem_free(j->held);
        mem_free(j->later);
        map_fini(&j->numbers);
        mem_free(j);
    }
}

const struct etl_stack_join_stats *etl_stack_join_stats(const struct etl_stack_join *j)
{
    return &j->stats;
}

/* -- paths -- */

static uint64_t address_at(const struct etl_stack_part *part, size_t i)
{
    return part->pointer_size == 8 ? cur_at64le(part->p + 8 * i) : cur_at32le(part->p + 4 * i);
}

/* The node of addresses [from, to) under `node`, whose innermost is the first. */
static uint32_t path_add(struct etl_stack_join *j, uint32_t node, uint32_t pid, int64_t wall_ns,
                         const struct etl_stack_part *part, size_t from, size_t to)
{
    if (to - from > ETL_STACK_DEPTH) {
        j->stats.cut++;
        to = from + ETL_STACK_DEPTH; /* without the outermost */
    }
    while (to > from) {
        to--;
        node = etl_stack_tree_child(j->conf.tree, node,
                                    j->conf.frame(j->conf.ctx, pid, address_at(part, to), wall_ns));
    }
    return node;
}

static size_t kernel_part(const struct etl_stack_join *j, const struct etl_stack_part *part)
{
    size_t n = 0;

    while (n < part->n && j->conf.is_kernel(j->conf.ctx, address_at(part, n), part->pointer_size)) {
        n++;
    }
    return n;
}

/* The kernel's half that ends at `from`, once more under `base`. */
static uint32_t path_copy(struct etl_stack_join *j, uint32_t base, uint32_t from)
{
    const struct etl_stack_tree *t = j->conf.tree;
    size_t n = 0;

    for (; from != j->kernel && n < ETL_STACK_DEPTH; from = t->nodes[from].parent) {
        j->path[n++] = t->nodes[from].frame;
    }
    while (n > 0) {
        base = etl_stack_tree_child(j->conf.tree, base, j->path[--n]);
    }
    return base;
}

/* -- weights that are told later -- */

uint32_t etl_stack_join_later(struct etl_stack_join *j)
{
    uint32_t i = j->free_later;

    if (i) {
        j->free_later = j->later[i - 1].node;
    } else if (VEC_ROOM(&j->later, &j->cap_later, j->n_later + 1, ETL_STACK_LATER) == ERR_OK) {
        i = (uint32_t)++j->n_later;
    } else {
        return 0;
    }
    j->later[i - 1] = (struct later){.holders = 1};
    return i;
}

void etl_stack_join_keep(struct etl_stack_join *j, uint32_t later)
{
    j->later[later - 1].holders++;
}

void etl_stack_join_weigh(struct etl_stack_join *j, uint32_t later, uint64_t weight)
{
    j->later[later - 1].weight += weight;
}

void etl_stack_join_release(struct etl_stack_join *j, uint32_t later)
{
    struct later *l = &j->later[later - 1];

    assert(l->holders > 0);
    if (--l->holders > 0) {
        return;
    }
    if (l->weight && l->node) {
        etl_stack_tree_add(j->conf.tree, l->node, l->weight, 1);
    }
    l->node = j->free_later;
    j->free_later = later;
}

/* -- what is complete -- */

static void count_at(struct etl_stack_join *j, uint32_t node, const struct held *h)
{
    struct etl_stack_tree *t = j->conf.tree;

    if (h->ip) { /* the stack was walked a little later: it may have gone on */
        uint32_t at = j->conf.frame(j->conf.ctx, h->pid, h->ip, h->wall_ns);

        node = t->nodes[node].frame == at ? node : etl_stack_tree_child(t, node, at);
    }
    if (h->later) {
        j->later[h->later - 1].node = node;
        etl_stack_join_release(j, h->later);
    } else {
        etl_stack_tree_add(t, node, h->weight, h->count);
    }
}

/* -- keys -- */

static uint32_t key_take(struct etl_stack_join *j)
{
    uint32_t i = j->free_key;

    if (i) {
        j->free_key = j->keys[i - 1].next_free;
        return i;
    }
    if (VEC_ROOM(&j->keys, &j->cap_keys, j->n_keys + 1, ETL_STACK_KEYS)) {
        return 0;
    }
    return (uint32_t)++j->n_keys;
}

static void key_leave(struct etl_stack_join *j, uint32_t index)
{
    struct key *k = &j->keys[index];

    assert(k->refs > 0);
    if (--k->refs == 0 && !k->open) {
        k->next_free = j->free_key;
        j->free_key = index + 1;
    }
}

/* A recording chooses them: as they are, they could all fall into one place of the map. */
static uint64_t number_key(const struct etl_stack_join *j, uint64_t number)
{
    return number * (j->conf.tree->seed | 1);
}

/* Room for one more number: those of closed keys are forgotten when there are too many. */
static bool numbers_room(struct etl_stack_join *j)
{
    if (j->numbers.n >= NUMBERS_MAX) {
        map_clear(&j->numbers);
        for (size_t i = 0; i < j->n_keys; i++) {
            if (j->keys[i].open) {
                (void)map_put(&j->numbers, number_key(j, j->keys[i].number), i + 1);
            }
        }
    }
    return map_reserve(&j->numbers) == ERR_OK;
}

/* The key that has this number now. Index + 1; 0: no room. Kernel's and user's have numbers of
 * their own: both are addresses of memory of the kernel. */
static uint32_t key_of(struct etl_stack_join *j, uint64_t number)
{
    uint64_t place = map_get(&j->numbers, number_key(j, number));
    uint32_t i;

    if (place && place != CLOSED) {
        return (uint32_t)place;
    }
    i = numbers_room(j) ? key_take(j) : 0;
    if (i) {
        j->keys[i - 1] = (struct key){.number = number, .open = true};
        (void)map_put(&j->numbers, number_key(j, number), i);
    }
    return i;
}

/* -- what is held -- */

static bool is_alike(const struct held *a, const struct held *b)
{
    return a->base == b->base && a->kernel == b->kernel && a->ip == b->ip && a->pid == b->pid &&
           !a->later && !b->later;
}

static void kernel_leave(struct etl_stack_join *j, uint32_t kernel)
{
    if (kernel & KERNEL_KEY) {
        key_leave(j, kernel & ~KERNEL_KEY);
    }
}

/* Holds it for the key, whose reference it takes over, as that of h->kernel. False: no room. */
static bool hold(struct etl_stack_join *j, uint32_t key, const struct held *h)
{
    struct key *k = &j->keys[key];
    uint32_t i = k->list;

    for (unsigned tries = 0; i && tries < ALIKE; i = j->held[i - 1].next, tries++) {
        if (is_alike(&j->held[i - 1], h)) {
            j->held[i - 1].weight += h->weight;
            j->held[i - 1].count += h->count;
            kernel_leave(j, h->kernel);
            key_leave(j, key);
            return true;
        }
    }
    i = j->free_held;
    if (i) {
        j->free_held = j->held[i - 1].next;
    } else if (VEC_ROOM(&j->held, &j->cap_held, j->n_held + 1, ETL_STACK_HELD) == ERR_OK) {
        i = (uint32_t)++j->n_held;
    } else {
        return false;
    }
    j->held[i - 1] = *h;
    j->held[i - 1].next = k->list;
    k->list = i;
    return true;
}

/* The user's half, if any, is in h->base; the kernel's is not. Takes over its reference. */
static void finish(struct etl_stack_join *j, struct held *h)
{
    uint32_t kernel = h->kernel, index = kernel & ~KERNEL_KEY;

    h->kernel = 0;
    if (!kernel) {
        count_at(j, h->base, h);
    } else if (!(kernel & KERNEL_KEY)) {
        count_at(j, path_copy(j, h->base, kernel), h);
    } else if (j->keys[index].defined) {
        uint32_t node = j->keys[index].node;

        key_leave(j, index);
        count_at(j, path_copy(j, h->base, node), h);
    } else if (!hold(j, index, h)) {
        key_leave(j, index);
        j->stats.no_room++;
        count_at(j, etl_stack_tree_child(j->conf.tree, h->base, j->conf.not_recorded), h);
    }
}

/* An event leaves the ring. */
static void settle(struct etl_stack_join *j, struct waiting *w)
{
    struct held h = {.base = w->ev.base,
                     .kernel = w->kernel,
                     .count = 1,
                     .pid = w->ev.pid,
                     .later = w->ev.later,
                     .wall_ns = w->ev.wall_ns,
                     .ip = w->ev.ip,
                     .weight = w->ev.weight};

    w->used = false;
    if (w->user && !hold(j, w->user - 1, &h)) {
        key_leave(j, w->user - 1);
        w->user = 0;
        j->stats.no_room++;
        h.base = etl_stack_tree_child(j->conf.tree, h.base, j->conf.not_recorded);
        finish(j, &h);
    } else if (!w->user) {
        finish(j, &h);
    }
}

/* -- the ring -- */

static uint32_t *head_of(struct etl_stack_join *j, int64_t ticks, uint32_t tid, uint32_t cpu)
{
    uint64_t key = (uint64_t)ticks ^ (uint64_t)tid << 40 ^ (tid ? 0 : (uint64_t)cpu << 32);

    key *= j->conf.tree->seed | 1;
    return &j->heads[(key ^ key >> 32) % HEADS];
}

static bool is_of(const struct waiting *w, int64_t ticks, uint32_t tid, uint32_t cpu)
{
    return w->ev.ticks == ticks && w->ev.tid == tid && (tid || w->ev.cpu == cpu);
}

/* One that is used. */
static void unlink_slot(struct etl_stack_join *j, struct waiting *w)
{
    uint32_t *to =
        w->prev ? &j->ring[w->prev - 1].next : head_of(j, w->ev.ticks, w->ev.tid, w->ev.cpu);

    *to = w->next;
    if (w->next) {
        j->ring[w->next - 1].prev = w->prev;
    }
}

/* What waits in a slot that is wanted, or at the end. */
static void expel(struct etl_stack_join *j, struct waiting *w)
{
    if (!w->used) {
        return;
    }
    unlink_slot(j, w);
    if (!w->kernel && !w->user) { /* nothing came */
        w->ev.base = etl_stack_tree_child(j->conf.tree, w->ev.base, j->conf.no_stack);
    }
    settle(j, w);
}

void etl_stack_join_event(struct etl_stack_join *j, const struct etl_stack_event *ev)
{
    struct waiting *w = &j->ring[j->at];
    uint32_t *head = head_of(j, ev->ticks, ev->tid, ev->cpu);

    expel(j, w);
    if (ev->later) {
        etl_stack_join_keep(j, ev->later);
    }
    *w = (struct waiting){.ev = *ev, .next = *head, .used = true};
    if (*head) {
        j->ring[*head - 1].prev = (uint32_t)j->at + 1;
    }
    *head = (uint32_t)j->at + 1;
    j->at = (j->at + 1) % ETL_STACK_WAITING;
    j->stats.events++;
}

static struct waiting *find(struct etl_stack_join *j, int64_t ticks, uint32_t tid, uint32_t cpu)
{
    uint32_t i = *head_of(j, ticks, tid, cpu);

    while (i && !is_of(&j->ring[i - 1], ticks, tid, cpu)) {
        i = j->ring[i - 1].next;
    }
    return i ? &j->ring[i - 1] : NULL;
}

static void take_part(struct etl_stack_join *j, struct waiting *w,
                      const struct etl_stack_part *part)
{
    size_t kernel = kernel_part(j, part);

    if ((kernel && w->kernel) || (kernel == 0 && part->n == 0)) {
        j->stats.surplus++;
        return;
    }
    j->stats.parts++;
    j->stats.joined += !w->kernel;
    if (kernel) {
        w->kernel = path_add(j, j->kernel, 0, w->ev.wall_ns, part, 0, kernel);
    }
    if (kernel < part->n) { /* it is complete */
        unlink_slot(j, w);
        w->ev.base = path_add(j, w->ev.base, w->ev.pid, w->ev.wall_ns, part, kernel, part->n);
        settle(j, w);
    }
}

void etl_stack_join_part(struct etl_stack_join *j, int64_t ticks, uint32_t tid, uint32_t cpu,
                         const struct etl_stack_part *part)
{
    struct waiting *w = find(j, ticks, tid, cpu);

    if (w) {
        take_part(j, w, part);
    }
}

void etl_stack_join_latest(struct etl_stack_join *j, uint32_t tid,
                           const struct etl_stack_part *part)
{
    for (size_t n = 1; n <= LATEST; n++) {
        struct waiting *w = &j->ring[(j->at + ETL_STACK_WAITING - n) % ETL_STACK_WAITING];

        if (w->ev.tid == tid) {
            if (w->used) {
                take_part(j, w, part);
            }
            return;
        }
    }
}

void etl_stack_join_key(struct etl_stack_join *j, int64_t ticks, uint32_t tid, uint32_t cpu,
                        uint64_t number, bool user)
{
    struct waiting *w = find(j, ticks, tid, cpu);
    uint32_t key;

    if (!w) {
        return;
    }
    if (!user && w->kernel) {
        j->stats.surplus++;
        return;
    }
    key = key_of(j, number);
    if (!key) {
        j->stats.no_room++;
        return;
    }
    j->stats.parts++;
    j->stats.joined += !w->kernel;
    j->keys[key - 1].refs++;
    if (user) {
        w->user = key;
        unlink_slot(j, w);
        settle(j, w);
    } else {
        w->kernel = KERNEL_KEY | (key - 1);
    }
}

/* -- definitions -- */

/* Whose key it was: the things held know by what they miss. part  NULL: it is never defined */
static void define(struct etl_stack_join *j, uint32_t index, const struct etl_stack_part *part,
                   int64_t wall_ns)
{
    size_t kernel = part ? kernel_part(j, part) : 0;
    bool user = part && kernel < part->n;
    uint32_t i = j->keys[index].list;

    j->keys[index].list = 0;
    j->keys[index].open = false;
    j->keys[index].defined = true;
    j->keys[index].node = j->kernel;
    if (part && !user) {
        j->keys[index].node = path_add(j, j->kernel, 0, wall_ns, part, 0, part->n);
    } else if (!part) {
        j->keys[index].node = etl_stack_tree_child(j->conf.tree, j->kernel, j->conf.not_recorded);
    }
    j->keys[index].refs++; /* it stays while the list is walked */
    while (i) {
        struct held h = j->held[i - 1];
        uint32_t next = h.next;

        j->held[i - 1].next = j->free_held;
        j->free_held = i;
        i = next;
        if (user) {
            h.base = path_add(j, h.base, h.pid, h.wall_ns, part, kernel, part->n);
        } else {
            h.base = path_copy(j, h.base, j->keys[index].node);
        }
        if (!part) {
            j->stats.undefined += h.count;
        }
        finish(j, &h);
        key_leave(j, index);
    }
    key_leave(j, index);
}

void etl_stack_join_define(struct etl_stack_join *j, uint64_t number, int64_t wall_ns,
                           const struct etl_stack_part *part)
{
    uint64_t key = number_key(j, number), place = map_get(&j->numbers, key);

    if (place && place != CLOSED) {
        (void)map_put(&j->numbers, key, CLOSED);
        define(j, (uint32_t)place - 1, part, wall_ns);
    }
}

void etl_stack_join_end(struct etl_stack_join *j)
{
    for (size_t n = 0; n < ETL_STACK_WAITING; n++) {
        expel(j, &j->ring[(j->at + n) % ETL_STACK_WAITING]);
    }
    for (size_t i = 0; i < j->n_keys; i++) {
        if (j->keys[i].open) {
            define(j, (uint32_t)i, NULL, 0);
        }
    }
}
