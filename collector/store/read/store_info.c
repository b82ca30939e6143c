/* What is known of instances, by the head and by the catalogue. The head knows what is newest and
 * forgets the dead; the catalogue has what is sealed. Where both know one, what they say is joined.
 */
#include "collector/store/memtable/head_info.h"
#include "collector/store/read/store_lookup.h"
#include "collector/store/read/store_unread.h"
#include "collector/store/read/store_view.h"

uint32_t store_info_local_unlisted(const struct store_view *v)
{
    return v->unlisted;
}

static void unlisted(const struct store_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                     enum err e)
{
    struct store_view *own = (struct store_view *)v; /* it is one thread's at a time */

    own->unlisted++;
    store_view_unread(v, host, NULL, STORE_UNREAD_CATALOGUE, since_ns, until_ns, e);
}

/* Whether the head knows an instance only by events of its threads, images or providers, which have
 * no more than its name: after a start, what is sealed knows the rest. */
static bool is_known_by_name(const struct proc_info *info)
{
    return !info->origin && !(info->have & (INFO_CREATE_TIME | INFO_EXITED));
}

static bool known_sealed(const struct store_view *v, size_t host, const struct uuid *boot,
                         struct proc_id id, bool brief, struct proc_info *out)
{
    const struct head_seen *seen = head_view_host(v->head, host);
    bool found;
    enum err e;

    if (!v->lookup) {
        return false;
    }
    if (!v->catalogue) { /* it could not be opened: told once */
        if (!v->unlisted) {
            unlisted(v, host, 0, 0, ERR_NOTFOUND);
        }
        return false;
    }
    found = store_lookup_find(v->lookup, v->catalogue, &seen->id, boot, id, brief, out);
    e = store_lookup_unread(v->lookup);
    if (e) {
        unlisted(v, host, 0, 0, e);
    }
    return found;
}

bool store_info_local(const struct store_view *v, size_t host, const struct uuid *boot,
                      struct proc_id id, bool brief, struct proc_info *out)
{
    struct proc_info sealed;

    if (!head_infos_find(head_view_host(v->head, host)->infos, boot, id, out)) {
        return known_sealed(v, host, boot, id, brief, out);
    }
    if (is_known_by_name(out) && known_sealed(v, host, boot, out->id, brief, &sealed)) {
        head_info_join(&sealed, out, true);
        *out = sealed;
    }
    return true;
}

void store_info_local_want(const struct store_view *v, size_t host, const struct proc_key *keys,
                           size_t n)
{
    const struct head_seen *seen = head_view_host(v->head, host);
    struct proc_key missing[64];
    struct proc_info info;
    size_t n_missing = 0;

    for (size_t i = 0; i < n && v->lookup && v->catalogue; i++) {
        bool found = head_infos_find(seen->infos, &keys[i].boot, keys[i].id, &info);

        if (!found || is_known_by_name(&info)) {
            missing[n_missing++] = (struct proc_key){found ? info.id : keys[i].id, keys[i].boot};
        }
        if (n_missing == sizeof missing / sizeof *missing || (n_missing && i + 1 == n)) {
            store_lookup_want(v->lookup, v->catalogue, &seen->id, missing, n_missing);
            n_missing = 0;
        }
    }
}

void store_info_local_range(const struct store_view *v, int64_t since_ns, int64_t until_ns)
{
    if (v->lookup) {
        store_lookup_range(v->lookup, since_ns, until_ns);
    }
}

/* -- every instance -- */

struct every {
    const struct head_seen *seen;
    const struct store_instances *ask;
    enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info);
    void *ctx;
    struct head_infos_place at; /* the head's next one */
    enum err bad;               /* each gave it */
    int64_t rebooted_ns;        /* from when on there are no processes of an earlier boot */
};

static int compare(const struct uuid *boot_a, struct proc_id a, const struct uuid *boot_b,
                   struct proc_id b)
{
    int d = memcmp(boot_a->b, boot_b->b, sizeof boot_a->b);

    if (d == 0 && a.pid != b.pid) {
        d = a.pid < b.pid ? -1 : 1;
    }
    if (d == 0 && a.start != b.start) {
        d = a.start < b.start ? -1 : 1;
    }
    return d;
}

static bool asked_for(const struct every *x, struct proc_id id)
{
    return !x->ask->has_pid ||
           (id.pid == x->ask->pid && (!x->ask->start || id.start == x->ask->start));
}

static bool is_newest_boot(const struct every *x, const struct uuid *boot)
{
    return memcmp(boot->b, x->seen->boot.b, sizeof boot->b) == 0;
}

/* As far as the info itself says. */
static bool in_range(const struct every *x, const struct proc_info *info)
{
    bool ended = (info->have & INFO_EXITED) && (info->have & INFO_EXIT_TIME);

    return (!ended || info->exit_ns >= x->ask->since_ns) &&
           (!(info->have & INFO_CREATE_TIME) || info->create_ns < x->ask->until_ns);
}

static enum err give_head(struct every *x, const struct uuid *boot, const struct proc_info *info)
{
    bool running = !(info->have & INFO_EXITED);

    if (!asked_for(x, info->id) || !in_range(x, info) ||
        (running && !is_newest_boot(x, boot) && x->ask->since_ns >= x->rebooted_ns)) {
        return ERR_OK;
    }
    return x->each(x->ctx, boot, info);
}

/* Those of the head that come before this one; NULL: all that are left. When the head has it too,
 * *has_same is set, and *same to what it knows. */
static enum err give_up_to(struct every *x, const struct uuid *boot, const struct proc_info *to,
                           struct proc_info *same, bool *has_same)
{
    const struct uuid *its;
    struct proc_info info;
    enum err e = ERR_OK;

    *has_same = false;
    while (!e && head_infos_peek(x->seen->infos, &x->at, &its, &info)) {
        int d = to ? compare(its, info.id, boot, to->id) : -1;

        if (d > 0) {
            break;
        }
        x->at.i++;
        if (d == 0) {
            *same = info;
            *has_same = true;
            break;
        }
        e = give_head(x, its, &info);
    }
    return e;
}

static enum err from_catalogue(void *ctx, const struct uuid *boot, const struct proc_info *info,
                               int64_t seen_ns)
{
    struct proc_info joined = *info, same;
    struct every *x = ctx;
    bool has_same;
    enum err e = give_up_to(x, boot, info, &same, &has_same);

    (void)seen_ns;
    if (!e && has_same) {
        head_info_join(&joined, &same, true);
    }
    if (!e && in_range(x, &joined)) {
        e = x->each(x->ctx, boot, &joined);
    }
    x->bad = e;
    return e;
}

/* The earliest creation in the newest boot. */
static int64_t newest_boot_began(const struct head_seen *seen)
{
    struct head_infos_place at = {0};
    int64_t began_ns = INT64_MAX;
    const struct uuid *boot;
    struct proc_info info;

    for (; head_infos_peek(seen->infos, &at, &boot, &info); at.i++) {
        if (memcmp(boot->b, seen->boot.b, sizeof boot->b) == 0 && (info.have & INFO_CREATE_TIME) &&
            info.create_ns > 0 && info.create_ns < began_ns) {
            began_ns = info.create_ns;
        }
    }
    return began_ns;
}

enum err store_info_local_each(
    const struct store_view *v, size_t host, const struct store_instances *ask,
    enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info), void *ctx)
{
    struct every x = {.seen = head_view_host(v->head, host), .ask = ask, .each = each, .ctx = ctx};
    const struct catalogue_ask sealed = {.host = &x.seen->id,
                                         .has_pid = ask->has_pid,
                                         .pid = ask->pid,
                                         .start = ask->start,
                                         .since_ns = ask->since_ns,
                                         .until_ns = ask->until_ns,
                                         .brief = ask->brief};
    struct proc_info same;
    bool has_same;
    enum err e;

    x.rebooted_ns = newest_boot_began(x.seen);
    if (v->catalogue) { /* a damaged day is made anew; the head and the other days still answer */
        e = catalogue_find(v->catalogue, &sealed, from_catalogue, &x);
    } else {
        e = ERR_NOTFOUND;
    }
    if (x.bad) {
        return x.bad;
    }
    if (store_unread_is(e)) {
        unlisted(v, host, ask->since_ns, ask->until_ns, e);
        e = ERR_OK;
    }
    return e ? e : give_up_to(&x, NULL, NULL, &same, &has_same);
}
