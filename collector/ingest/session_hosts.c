#include "collector/ingest/session_hosts.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/uuid.h"

#define FORGET_NS (600 * CLK_S)

void session_hosts_fini(struct session_hosts *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        mem_free(h->at[i]);
    }
    mem_free(h->at);
}

static const struct uuid *host_id(const void *hosts, size_t i)
{
    return &((const struct session_hosts *)hosts)->at[i]->id;
}

static uint32_t host_index(const struct session_hosts *h, const struct uuid *id)
{
    return (uint32_t)uuid_search(id, h->n, host_id, h);
}

struct session_entry *session_hosts_find(const struct session_hosts *h, const struct uuid *id)
{
    uint32_t i = host_index(h, id);

    return i < h->n && memcmp(h->at[i]->id.b, id->b, sizeof id->b) == 0 ? h->at[i] : NULL;
}

static bool forget_one(struct session_hosts *h, int64_t mono_ns)
{
    uint32_t oldest = h->n;

    for (uint32_t i = 0; i < h->n; i++) {
        const struct session_entry *e = h->at[i];

        if ((e->standby || (e->connections == 0 && e->called_ns < mono_ns - FORGET_NS)) &&
            (oldest == h->n || e->called_ns < h->at[oldest]->called_ns)) {
            oldest = i;
        }
    }
    if (oldest == h->n) {
        return false;
    }
    mem_free(h->at[oldest]);
    h->n--;
    memmove(h->at + oldest, h->at + oldest + 1, (h->n - oldest) * sizeof *h->at);
    return true;
}

static enum err room(struct session_hosts *h, int64_t mono_ns)
{
    uint32_t cap = h->cap ? h->cap * 2 : 8;
    struct session_entry **grown;

    if (h->n >= h->max && !forget_one(h, mono_ns)) {
        return ERR_FULL;
    }
    if (h->n < h->cap) {
        return ERR_OK;
    }
    grown = mem_realloc_array(h->at, cap, sizeof *grown);
    if (!grown) {
        return ERR_NOMEM;
    }
    h->at = grown;
    h->cap = cap;
    return ERR_OK;
}

static enum err add(struct session_hosts *h, struct session_entry **out, const struct uuid *id,
                    int64_t mono_ns)
{
    struct session_entry *e;
    uint32_t at;
    enum err err = room(h, mono_ns);

    if (err) {
        return err;
    }
    e = mem_zalloc(sizeof *e);
    if (!e) {
        return ERR_NOMEM;
    }
    e->id = *id;
    at = host_index(h, id);
    memmove(h->at + at + 1, h->at + at, (h->n - at) * sizeof *h->at);
    h->at[at] = e;
    h->n++;
    *out = e;
    return ERR_OK;
}

enum err session_hosts_get(struct session_hosts *h, struct session_entry **out,
                           const struct net_identity *who, const struct clock_moment *now)
{
    struct session_entry *e = session_hosts_find(h, &who->host);

    if (!e) {
        enum err err = add(h, &e, &who->host, now->mono_ns);

        if (err) {
            return err;
        }
    }
    e->called_ns = now->mono_ns;
    e->seen.heard_ns = now->utc_ns;
    e->seen.not_before_ns = who->not_before_ns;
    e->seen.not_after_ns = who->not_after_ns;
    (void)snprintf(e->seen.name, sizeof e->seen.name, "%s", who->name);
    *out = e;
    return ERR_OK;
}

void session_hosts_state(const struct session_entry *e, const struct clock_moment *now,
                         struct session_host *out)
{
    *out = e->seen;
    out->connected = e->connections > 0;
    out->clock = host_clocks_now(&e->clocks, now);
    out->clones = clones_count(&e->clones, now->mono_ns);
    if (e->conflict_ns && now->mono_ns - e->conflict_ns < CLONES_FORGET_NS && !out->clones) {
        out->clones = 1; /* whichever it is: one more than there should be */
    }
}
