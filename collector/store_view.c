#include "collector/store.h"

#include "collector/store_impl.h"
#include "common/mem.h"

void store_span(const struct batch *b, int64_t now_ns, int64_t *t0_ns, int64_t *t1_ns)
{
    head_span(b, now_ns, t0_ns, t1_ns);
}

struct store_view {
    struct head_state *state;
    struct store_host hosts[];
};

static void fill(struct store_host *out, const struct head_seen *seen)
{
    *out = (struct store_host){
        .id = seen->id,
        .boot = seen->boot,
        .name = seen->name,
        .source = seen->source,
        .flags = seen->flags,
        .cpus = seen->cpus,
        .first_ns = seen->first_ns,
        .last_ns = seen->last_ns,
        .received_ns = seen->received_ns,
        .batches = seen->batches,
        .duplicates = atomic_load(&seen->counts->duplicates),
        .gaps = atomic_load(&seen->counts->gaps),
        .lost_events = seen->lost_events,
    };
}

enum err store_view_open(struct store_view **out, struct store *s)
{
    struct head_state *state = head_view(store_head(s));
    size_t n = head_view_hosts(state);
    struct store_view *v = mem_alloc(sizeof *v + n * sizeof v->hosts[0]);

    if (!v) {
        head_view_release(state);
        return ERR_NOMEM;
    }
    v->state = state;
    for (size_t i = 0; i < n; i++) {
        fill(&v->hosts[i], head_view_host(state, i));
    }
    *out = v;
    return ERR_OK;
}

void store_view_close(struct store_view *v)
{
    if (v) {
        head_view_release(v->state);
        mem_free(v);
    }
}

size_t store_view_hosts(const struct store_view *v)
{
    return head_view_hosts(v->state);
}

const struct store_host *store_view_host(const struct store_view *v, size_t i)
{
    return &v->hosts[i];
}

enum err store_scan(const struct store_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                    enum err (*each)(void *ctx, const struct batch *b), void *ctx)
{
    const struct head_batch **list;
    size_t n;
    enum err e = head_view_batches(v->state, host, since_ns, until_ns, &list, &n);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < n && !e; i++) {
        struct batch *b;

        e = wire_batch_decode(&b, list[i]->bytes, list[i]->n);
        if (!e) {
            e = each(ctx, b);
            wire_batch_free(b);
        }
    }
    mem_free(list);
    return e;
}

const struct proc_info *store_info(const struct store_view *v, size_t host, const struct uuid *boot,
                                   struct proc_id id)
{
    return head_infos_find(head_view_host(v->state, host)->infos, boot, id);
}

const struct proc_info *store_info_latest(const struct store_view *v, size_t host, uint32_t pid)
{
    return head_infos_latest(head_view_host(v->state, host)->infos, pid);
}
