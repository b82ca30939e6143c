#include "collector/rules/rules_match.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/lab/ended.h"

#define SEED          UINT64_C(0x72756c6573)
#define FACTS_BYTES   ((size_t)64 << 10)
#define SWEEP_NS      (120 * CLK_S)
#define PENDING_MAX   (1u << 17)
#define INSTANCES_MAX (16u * MODEL_PROCESSES_MAX) /* of a host, those that ended lately included */
#define KEYS_ROOM     1024u
#define REFS_MAX      RULES_MAX
#define HOSTS_MAX     (1u << 20)
#define TREE_PASSES   8u
#define ANCESTORS_MAX 32u /* that are asked for at once */
#define REFUSED_NS \
    (600 * CLK_S) /* longer than until everything is told again: a window of the agent */

/* -- subjects -- */

uint64_t rules_match_hash(uint32_t rule, struct str key, uint64_t start, const char *class_text)
{
    const uint64_t numbers[] = {rule, start, key.n};
    uint64_t h = hash_bytes(numbers, sizeof numbers, SEED);

    h = hash_bytes(key.p, key.n, h);
    return class_text ? hash_bytes(class_text, strlen(class_text), h) : h;
}

static bool sub_is(const struct rules_sub *s, uint32_t rule, uint32_t host, struct str key,
                   uint64_t start, const char *class_text)
{
    return s->key && s->rule == rule && s->host == host && s->start == start &&
           str_eq(str_make(s->key), key) &&
           strcmp(s->class_text ? s->class_text : "", class_text ? class_text : "") == 0;
}

static size_t sub_bytes(const struct rules_judge *j, uint32_t rule, bool windows, size_t key_n)
{
    return sizeof(struct rules_sub) + key_n + 32 +
           (windows ? j->n_windows[rule] * sizeof(struct rules_window) : 0);
}

static uint32_t sub_place(struct rules_judge *j)
{
    uint32_t at = j->free_sub;

    if (at != RULES_NONE) {
        j->free_sub = j->subs[at].next;
        return at;
    }
    if (VEC_ROOM(&j->subs, &j->cap_subs, j->n_subs + 1, RULES_SUBJECTS_MAX)) {
        return RULES_NONE;
    }
    return (uint32_t)j->n_subs++;
}

static bool sub_fill(struct rules_judge *j, struct rules_sub *s, struct str key,
                     const char *class_text)
{
    size_t n_windows = j->n_windows[s->rule];

    s->key = mem_strndup(key.p, key.n);
    s->class_text = class_text ? mem_strdup(class_text) : NULL;
    if (s->host != RULES_NONE) {
        s->windows = mem_array(n_windows + (n_windows == 0), sizeof *s->windows);
        for (size_t i = 0; s->windows && i < n_windows; i++) {
            rules_window_init(&s->windows[i]);
        }
    }
    return s->key && (s->class_text || !class_text) && (s->windows || s->host == RULES_NONE);
}

static void sub_release(struct rules_judge *j, uint32_t at)
{
    struct rules_sub *s = &j->subs[at];

    mem_free(s->key);
    mem_free(s->class_text);
    mem_free(s->windows);
    *s = (struct rules_sub){.next = j->free_sub};
    j->free_sub = at;
}

uint32_t rules_match_sub(struct rules_judge *j, uint32_t rule, uint32_t host, struct str key,
                         uint64_t start, const char *class_text)
{
    struct rules_host *h = host != RULES_NONE ? j->hosts[host] : NULL;
    struct map *map = h ? &h->by_key : &j->cross;
    uint32_t *head = h ? &h->heads[rule] : &j->cross_heads[rule], at;
    uint64_t hash = rules_match_hash(rule, key, start, class_text), k, place;
    size_t bytes;

    for (k = hash; (place = map_get(map, k)) != 0; k++) {
        at = (uint32_t)(place - 1);
        if (sub_is(&j->subs[at], rule, host, key, start, class_text)) {
            return at;
        }
        if (!j->subs[at].key || j->subs[at].host != host || j->subs[at].hash != hash) {
            break; /* that one is gone: its key is taken over */
        }
    }
    bytes = sub_bytes(j, rule, h != NULL, key.n);
    at = j->bytes + bytes <= j->conf.memory_max && map_reserve(map) == ERR_OK ? sub_place(j)
                                                                              : RULES_NONE;
    if (at == RULES_NONE) {
        j->counts.refused++;
        if (h) {
            h->refused_ns[rule] = h->step_ns + RULES_STEP_NS;
        }
        return RULES_NONE;
    }
    j->subs[at] = (struct rules_sub){.rule = rule,
                                     .host = host,
                                     .hash = hash,
                                     .start = start,
                                     .truth = EXPR_UNKNOWN,
                                     .reason = RULES_FILLING};
    if (!sub_fill(j, &j->subs[at], key, class_text)) {
        sub_release(j, at);
        j->counts.refused++;
        return RULES_NONE;
    }
    j->subs[at].next = *head;
    *head = at;
    j->bytes += bytes;
    j->n_living++;
    (void)map_put(map, k, at + 1);
    return at;
}

void rules_match_sub_free(struct rules_judge *j, uint32_t at)
{
    struct rules_sub *s = &j->subs[at];
    struct rules_host *h = s->host != RULES_NONE ? j->hosts[s->host] : NULL;
    uint32_t *link = h ? &h->heads[s->rule] : &j->cross_heads[s->rule];

    while (*link != at) {
        link = &j->subs[*link].next;
    }
    *link = s->next;
    j->bytes -= sub_bytes(j, s->rule, h != NULL, strlen(s->key));
    j->n_living--;
    sub_release(j, at);
}

/* -- hosts -- */

static uint64_t id_hash(const struct uuid *id)
{
    return hash_bytes(id->b, sizeof id->b, SEED);
}

struct rules_host *rules_match_host_find(const struct rules_judge *j, const struct uuid *id)
{
    uint64_t place;

    for (uint64_t k = id_hash(id); (place = map_get(&j->by_host, k)) != 0; k++) {
        if (memcmp(j->hosts[place - 1]->id.b, id->b, sizeof id->b) == 0) {
            return j->hosts[place - 1];
        }
    }
    return NULL;
}

void rules_match_host_free(struct rules_judge *j, struct rules_host *h)
{
    (void)j;
    if (!h) {
        return;
    }
    for (size_t i = 0; i < h->n_insts; i++) {
        mem_free(h->insts[i].refs);
    }
    mem_free(h->insts);
    mem_free(h->last);
    mem_free(h->times);
    mem_free(h->heads);
    mem_free(h->applies);
    mem_free(h->refused_ns);
    mem_free(h->pending);
    map_fini(&h->by_id);
    map_fini(&h->by_key);
    arena_fini(&h->memory);
    mem_free(h);
}

static struct rules_host *host_make(struct rules_judge *j, const char *name, const struct uuid *id)
{
    struct rules_host *h = mem_zalloc(sizeof *h);

    if (!h) {
        return NULL;
    }
    h->id = *id;
    h->index = (uint32_t)j->n_hosts;
    (void)snprintf(h->name, sizeof h->name, "%s", name);
    arena_init(&h->memory, FACTS_BYTES);
    h->class_text = "";
    h->times = mem_array(j->n_spans + 1, sizeof *h->times);
    h->heads = mem_array(j->n_rules + 1, sizeof *h->heads);
    h->applies = mem_array(j->n_rules + 1, 1);
    h->refused_ns = mem_array(j->n_rules + 1, sizeof *h->refused_ns);
    if (!h->times || !h->heads || !h->applies || !h->refused_ns) {
        rules_match_host_free(j, h);
        return NULL;
    }
    memset(h->applies, 0, j->n_rules + 1);
    for (size_t i = 0; i < j->n_spans; i++) {
        h->times[i] = (struct rules_time){.span_ns = j->spans[i].span_ns,
                                          .part_ns = j->spans[i].part_ns,
                                          .n_parts = j->spans[i].n_parts};
    }
    for (size_t i = 0; i <= j->n_rules; i++) {
        h->heads[i] = RULES_NONE;
    }
    return h;
}

struct rules_host *rules_match_host(struct rules_judge *j, const char *name, const struct uuid *id)
{
    struct rules_host *h = rules_match_host_find(j, id);
    uint64_t k = id_hash(id);

    if (h) {
        if (strcmp(h->name, name) != 0) {
            (void)snprintf(h->name, sizeof h->name, "%s", name);
        }
        return h;
    }
    if (map_reserve(&j->by_host) || VEC_ROOM(&j->hosts, &j->cap_hosts, j->n_hosts + 1, HOSTS_MAX)) {
        return NULL;
    }
    h = host_make(j, name, id);
    if (!h) {
        return NULL;
    }
    while (map_get(&j->by_host, k)) {
        k++;
    }
    j->hosts[j->n_hosts++] = h;
    (void)map_put(&j->by_host, k, j->n_hosts);
    rules_match_facts(j, (uint32_t)(j->n_hosts - 1), 0);
    return h;
}

bool rules_match_too_many(const struct rules_host *h, uint32_t rule, int64_t step_ns)
{
    return h->refused_ns[rule] && step_ns - h->refused_ns[rule] < REFUSED_NS;
}

/* -- where -- */

struct judged {
    const struct rules_rule *rule;
    const struct rules_host *host;
    const struct proc_info *info;
};

static void where_value(void *ctx, uint32_t slot, struct expr_value *out)
{
    const struct judged *x = ctx;

    if (slot < EXPR_PROCESS_METRIC) {
        expr_process_value(slot, x->info, 0, out);
    } else {
        expr_host_value(slot, x->rule->where_labels, str_make(x->host->name), x->host->facts, out);
    }
}

static enum expr_truth where_run(const struct rules_rule *rule, const struct rules_host *h,
                                 const struct proc_info *info)
{
    struct judged x = {rule, h, info};

    return rule->where ? expr_run(rule->where, where_value, &x) : EXPR_TRUE;
}

/* -- instances -- */

static void inst_forget_refs(struct rules_judge *j, struct rules_inst *x)
{
    for (uint32_t i = 0; i < x->n_refs; i++) {
        j->subs[x->refs[i]].refs--;
    }
    mem_free(x->refs);
    x->refs = NULL;
    x->n_refs = 0;
}

/* A process over all boots. */
static struct proc_id id_of(struct proc_id id, const struct uuid *boot)
{
    return (struct proc_id){id.pid, hash_bytes(boot->b, sizeof boot->b, id.start)};
}

/* By which text the subject of a process is known. */
static struct str key_of(const struct rules_rule *rule, const struct proc_info *info, char *room,
                         const struct uuid *boot, uint64_t *start)
{
    int n;

    *start = 0;
    switch (rule->of) {
    case RULES_PROCESS:
    case RULES_TREE:
        *start = id_of(info->id, boot).start;
        n = snprintf(room, RULES_KEY_MAX, "%.*s %u",
                     (int)utf8_cut(info->name.p, info->name.n, RULES_KEY_MAX - 16), info->name.p,
                     (unsigned)info->id.pid);
        return (struct str){room, n > 0 ? (size_t)n : 0};
    case RULES_IMAGE:
        return (struct str){info->name.p, utf8_cut(info->name.p, info->name.n, RULES_KEY_MAX - 1)};
    case RULES_USER:
        return (struct str){info->user.p, utf8_cut(info->user.p, info->user.n, RULES_KEY_MAX - 1)};
    default:
        return (struct str){"", 0};
    }
}

static struct rules_inst *inst_find(struct rules_host *h, uint32_t pid, uint64_t start,
                                    uint64_t *key)
{
    const uint64_t numbers[] = {pid, start};
    uint64_t place, k = hash_bytes(numbers, sizeof numbers, SEED);

    for (; (place = map_get(&h->by_id, k)) != 0; k++) {
        struct rules_inst *x = &h->insts[place - 1];

        if (x->pid == pid && x->start == start) {
            return x;
        }
    }
    *key = k;
    return NULL;
}

/* The subject of the tree that its parent belongs to; RULES_NONE: none that is known. */
static uint32_t tree_of_parent(struct rules_judge *j, struct rules_host *h, uint32_t rule,
                               const struct uuid *boot, const struct proc_info *info)
{
    struct rules_inst *p;
    struct proc_id id;
    uint64_t key;

    if (!(info->have & INFO_PARENT)) {
        return RULES_NONE;
    }
    id = id_of((struct proc_id){info->parent_pid, info->parent_start}, boot);
    p = inst_find(h, id.pid, id.start, &key);
    for (uint32_t i = 0; p && i < p->n_refs; i++) {
        if (j->subs[p->refs[i]].rule == rule) {
            return p->refs[i];
        }
    }
    return RULES_NONE;
}

static uint32_t inst_subject(struct rules_judge *j, uint32_t host, uint32_t r,
                             const struct uuid *boot, const struct proc_info *info)
{
    const struct rules_rule *rule = rules_types_rule(j, r);
    struct rules_host *h = j->hosts[host];
    char room[RULES_KEY_MAX];
    uint64_t start;
    struct str key;

    if (rule->of == RULES_TREE) {
        uint32_t above = tree_of_parent(j, h, r, boot, info);

        if (above != RULES_NONE) {
            return above;
        }
    }
    if (where_run(rule, h, info) != EXPR_TRUE) {
        return RULES_NONE;
    }
    key = key_of(rule, info, room, boot, &start);
    return rule->of < RULES_HOST && key.n == 0 ? RULES_NONE
                                               : rules_match_sub(j, r, host, key, start, NULL);
}

/* Whether it belongs to others now. */
static bool inst_match(struct rules_judge *j, uint32_t host, uint32_t place,
                       const struct uuid *boot, const struct proc_info *info)
{
    struct rules_host *h = j->hosts[host];
    uint32_t list[REFS_MAX], n = 0, *refs;
    uint64_t refused = j->counts.refused;
    struct rules_inst *x;
    bool same;

    for (uint32_t r = 0; r < j->n_rules; r++) {
        uint32_t sub;

        if (!h->applies[r] || rules_types_total(rules_types_rule(j, r)) ||
            !(j->rule_samples[r] || rules_types_rule(j, r)->of == RULES_TREE)) {
            continue;
        }
        sub = inst_subject(j, host, r, boot, info);
        if (sub != RULES_NONE) {
            j->subs[sub].refs++;
            list[n++] = sub;
        }
    }
    x = &h->insts[place];
    same = n == x->n_refs && (n == 0 || memcmp(x->refs, list, n * sizeof *list) == 0);
    inst_forget_refs(j, x);
    refs = n ? mem_array(n, sizeof *refs) : NULL;
    if (refs) {
        memcpy(refs, list, n * sizeof *refs);
    }
    for (uint32_t i = 0; n && !refs && i < n; i++) {
        j->subs[list[i]].refs--; /* no memory: it is not watched */
    }
    x->refs = refs;
    x->n_refs = refs ? n : 0;
    if (j->counts.refused != refused || (n && !refs)) {
        x->info_hash = 0; /* once more when it is told again */
    }
    return !same;
}

static uint64_t info_hash(const struct proc_info *info)
{
    const uint64_t numbers[] = {info->parent_pid, info->parent_start, info->session_id,
                                info->have & (INFO_PARENT | INFO_SESSION)};
    uint64_t h = hash_bytes(numbers, sizeof numbers, SEED);

    h = hash_bytes(info->name.p, info->name.n, h);
    h = hash_bytes(info->user.p, info->user.n, h);
    h = hash_bytes(info->image.p, info->image.n, h);
    h = hash_bytes(info->command_line.p, info->command_line.n, h);
    return h ? h : 1;
}

/* Room for one more; sweeps first where there are many. */
static enum err inst_room(struct rules_judge *j, struct rules_host *h)
{
    enum err e = map_reserve(&h->by_id);

    e = e ? e : VEC_ROOM(&h->insts, &h->cap_insts, h->n_insts + 1, INSTANCES_MAX);
    return e ? e
             : VEC_ROOM(&h->last, &h->cap_last, (h->n_insts + 1) * j->n_counters + 1,
                        (size_t)INSTANCES_MAX * RULES_METRICS_MAX);
}

static enum err inst_add(struct rules_judge *j, uint32_t host, struct proc_id id, int64_t seen_ns,
                         uint32_t *place, bool *fresh)
{
    struct rules_host *h = j->hosts[host];
    uint64_t key = 0;
    struct rules_inst *x = inst_find(h, id.pid, id.start, &key);
    enum err e;

    *fresh = false;
    if (x) {
        x->seen_ns = seen_ns > x->seen_ns ? seen_ns : x->seen_ns;
        *place = (uint32_t)(x - h->insts);
        return ERR_OK;
    }
    e = inst_room(j, h);
    if (e) {
        return e;
    }
    h->insts[h->n_insts] =
        (struct rules_inst){.pid = id.pid, .start = id.start, .seen_ns = seen_ns};
    *place = (uint32_t)h->n_insts++;
    (void)map_put(&h->by_id, key, h->n_insts);
    j->counts.instances++;
    *fresh = true;
    return ERR_OK;
}

static bool inst_learn(struct rules_judge *j, uint32_t host, uint32_t place,
                       const struct uuid *boot, const struct proc_info *info)
{
    struct rules_inst *x = &j->hosts[host]->insts[place];
    uint64_t hash = info_hash(info);

    if (x->info_hash == hash || info->name.n == 0) {
        return false;
    }
    x->info_hash = hash;
    (void)inst_match(j, host, place, boot, info);
    return true;
}

/* Ancestors of an instance that nothing was told of yet, the topmost first: which tree it belongs
 * to hangs on them. */
static enum err inst_ancestors(struct rules_judge *j, uint32_t host, const struct uuid *boot,
                               const struct proc_info *info)
{
    const struct rules_env *env = &j->conf.env;
    struct rules_host *h = j->hosts[host];
    struct proc_info list[ANCESTORS_MAX];
    size_t n = 0;
    enum err e = ERR_OK;

    while (n < ANCESTORS_MAX && info->have & INFO_PARENT) {
        struct proc_id id = {info->parent_pid, info->parent_start}, known = id_of(id, boot);
        uint64_t key;

        if (inst_find(h, known.pid, known.start, &key) ||
            !env->info(env->ctx, &h->id, boot, id, &list[n])) {
            break;
        }
        info = &list[n++];
    }
    while (!e && n > 0) {
        uint32_t place;
        bool fresh;

        n--;
        e = inst_add(j, host, id_of(list[n].id, boot), h->step_ns, &place, &fresh);
        if (!e && fresh) {
            (void)inst_learn(j, host, place, boot, &list[n]);
        }
    }
    return e;
}

enum err rules_match_inst(struct rules_judge *j, uint32_t host, const struct uuid *boot,
                          struct proc_id id, uint32_t *place)
{
    struct rules_host *h = j->hosts[host];
    const struct rules_env *env = &j->conf.env;
    struct proc_info info;
    bool fresh;
    enum err e = inst_add(j, host, id_of(id, boot), h->step_ns, place, &fresh);

    if (!e && fresh && env->info && env->info(env->ctx, &h->id, boot, id, &info)) {
        e = j->any_tree ? inst_ancestors(j, host, boot, &info) : ERR_OK;
        (void)inst_learn(j, host, *place, boot, &info);
    }
    return e;
}

enum err rules_match_infos(struct rules_judge *j, uint32_t host, const struct batch *b,
                           int64_t seen_ns)
{
    const struct uuid *boot = &b->head.boot;
    bool again = true;
    enum err e = ERR_OK;

    for (unsigned pass = 0; again && pass < (j->any_tree ? TREE_PASSES : 1); pass++) {
        again = false;
        for (size_t i = 0; !e && i < b->n_infos; i++) {
            const struct proc_info *info = &b->infos[i];
            uint32_t place;
            bool fresh;

            e = inst_add(j, host, id_of(info->id, boot), seen_ns, &place, &fresh);
            if (!e && pass == 0) {
                again = inst_learn(j, host, place, boot, info) || again;
            } else if (!e) { /* its parent may be of a tree now */
                again = inst_match(j, host, place, boot, info) || again;
            }
        }
    }
    return e;
}

/* Subjects that are gone leave their keys behind. */
static void keys_sweep(struct rules_judge *j, struct map *keys, const uint32_t *heads)
{
    size_t n = 0;

    for (uint32_t r = 0; r < j->n_rules; r++) {
        for (uint32_t at = heads[r]; at != RULES_NONE; at = j->subs[at].next) {
            n++;
        }
    }
    if (keys->n <= 2 * n + KEYS_ROOM) {
        return;
    }
    map_clear(keys);
    for (uint32_t r = 0; r < j->n_rules; r++) {
        for (uint32_t at = heads[r]; at != RULES_NONE; at = j->subs[at].next) {
            uint64_t k = j->subs[at].hash;

            while (map_get(keys, k)) {
                k++;
            }
            (void)map_put(keys, k, at + 1);
        }
    }
}

void rules_match_sweep_cross(struct rules_judge *j)
{
    keys_sweep(j, &j->cross, j->cross_heads);
}

void rules_match_sweep(struct rules_judge *j, struct rules_host *h)
{
    size_t n = 0;

    map_clear(&h->by_id);
    for (size_t i = 0; i < h->n_insts; i++) {
        uint64_t key = 0;

        if (h->insts[i].seen_ns + SWEEP_NS < h->step_ns) {
            inst_forget_refs(j, &h->insts[i]);
            j->counts.instances--;
            continue;
        }
        if (n != i) {
            h->insts[n] = h->insts[i];
            memcpy(&h->last[n * j->n_counters], &h->last[i * j->n_counters],
                   j->n_counters * sizeof *h->last);
        }
        (void)inst_find(h, h->insts[n].pid, h->insts[n].start, &key);
        n++;
        (void)map_put(&h->by_id, key, n);
    }
    h->n_insts = n;
    keys_sweep(j, &h->by_key, h->heads);
}

/* -- what the host is known by -- */

static void facts_ask(struct rules_judge *j, struct rules_host *h)
{
    const struct rules_env *env = &j->conf.env;
    struct str text;
    char *copy;

    arena_reset(&h->memory);
    h->facts = env->facts ? env->facts(env->ctx, &h->id, h->name, &h->memory) : NULL;
    h->class_text = "";
    if (h->facts && env->host_class && j->any_cross) {
        text = env->host_class(env->ctx, h->facts, &h->memory);
        copy = arena_alloc(&h->memory, text.n + 1);
        if (copy) {
            memcpy(copy, text.p, text.n);
            h->class_text = copy;
        }
    }
}

void rules_match_facts(struct rules_judge *j, uint32_t host, int64_t now_ns)
{
    struct rules_host *h = j->hosts[host];
    bool changed = false;

    h->facts_ns = now_ns;
    facts_ask(j, h);
    for (uint32_t r = 0; r < j->n_rules; r++) {
        const struct rules_rule *rule = rules_types_rule(j, r);
        enum expr_truth t = where_run(rule, h, NULL);
        bool mine = rules_types_cross(rule) ? !j->conf.no_cross : !j->conf.only_cross;
        uint8_t applies = mine && (rule->where_process ? t != EXPR_FALSE : t == EXPR_TRUE);

        changed = changed || applies != h->applies[r];
        h->applies[r] = applies;
        if (applies && rule->of >= RULES_HOST) {
            uint32_t sub = rules_match_sub(j, r, host, (struct str){"", 0}, 0, NULL);

            if (sub != RULES_NONE) {
                j->subs[sub].of_host = true;
            }
        }
    }
    for (size_t i = 0; changed && i < h->n_insts; i++) {
        h->insts[i].info_hash = 0; /* matched again when it is told again, within a window */
    }
}

/* -- events -- */

static bool event_counts(const struct rules_call *call, const struct life_event *ev)
{
    enum ended how;

    if (ev->kind == LIFE_PROCESS_START) {
        return call->source == RULES_STARTS;
    }
    switch (call->source) {
    case RULES_ENDS:
        return true;
    case RULES_FAILED:
        return ended_how(&ev->info, &how) && (how == ENDED_ERROR || how == ENDED_CRASH);
    case RULES_CRASHES:
        return ended_how(&ev->info, &how) && how == ENDED_CRASH;
    default:
        return false;
    }
}

static enum err event_add(struct rules_judge *j, uint32_t host, uint32_t r, const struct uuid *boot,
                          const struct life_event *ev, int64_t step_ns, uint32_t tag)
{
    const struct rules_rule *rule = rules_types_rule(j, r);
    struct rules_host *h = j->hosts[host];
    uint32_t sub = RULES_NONE;

    for (uint8_t i = 0; i < rule->n_calls; i++) {
        if (!j->call_first[r][i] || !event_counts(&rule->calls[i], ev)) {
            continue;
        }
        if (sub == RULES_NONE) {
            sub = rules_types_total(rule) ? h->heads[r] : inst_subject(j, host, r, boot, &ev->info);
        }
        if (sub == RULES_NONE) {
            return ERR_OK;
        }
        if (VEC_ROOM(&h->pending, &h->cap_pending, h->n_pending + 1, PENDING_MAX)) {
            return ERR_FULL;
        }
        j->subs[sub].refs++; /* it stays until that step */
        h->pending[h->n_pending++] = (struct rules_pending){step_ns, sub, i, tag};
    }
    return ERR_OK;
}

enum err rules_match_event(struct rules_judge *j, uint32_t host, const struct uuid *boot,
                           const struct life_event *ev, int64_t step_ns, uint32_t tag)
{
    enum err e = ERR_OK;

    if (ev->kind != LIFE_PROCESS_START && ev->kind != LIFE_PROCESS_STOP) {
        return ERR_OK;
    }
    for (uint32_t r = 0; !e && r < j->n_rules; r++) {
        if (j->hosts[host]->applies[r]) {
            e = event_add(j, host, r, boot, ev, step_ns, tag);
        }
    }
    return e;
}
