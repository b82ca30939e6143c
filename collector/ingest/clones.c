#include "collector/ingest/clones.h"

#include <string.h>

static bool same(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

/* c->n: there is none. */
static size_t machine_index(const struct clones *c, const struct uuid *boot)
{
    size_t i = 0;

    while (i < c->n && !same(&c->machines[i].boot, boot)) {
        i++;
    }
    return i;
}

static struct clones_machine *machine_find(struct clones *c, const struct uuid *boot)
{
    size_t i = machine_index(c, boot);

    return i < c->n ? &c->machines[i] : NULL;
}

static bool is_past(const struct clones_machine *m, int64_t now_ns)
{
    return m->heard_ns <= now_ns - CLONES_FORGET_NS;
}

static struct clones_machine *machine_add(struct clones *c, const struct uuid *boot,
                                          int64_t since_ns)
{
    struct clones_machine *m = &c->machines[0];

    if (c->n < CLONES_MACHINES) {
        m = &c->machines[c->n++];
    } else {
        for (size_t i = 1; i < c->n; i++) {
            m = c->machines[i].heard_ns < m->heard_ns ? &c->machines[i] : m;
        }
    }
    *m = (struct clones_machine){.boot = *boot, .since_ns = since_ns, .heard_ns = since_ns};
    return m;
}

static void forget_past(struct clones *c, int64_t now_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (!is_past(&c->machines[i], now_ns)) {
            c->machines[kept++] = c->machines[i];
        }
    }
    c->n = kept;
}

/* Refuses what came after the caller and is alive beside it. */
static enum clones_verdict refuse_later(struct clones *c, const struct clones_machine *m,
                                        int64_t now_ns)
{
    enum clones_verdict verdict = CLONES_FINE;

    for (size_t i = 0; i < c->n; i++) {
        struct clones_machine *x = &c->machines[i];

        if (x != m && !x->refused && x->since_ns > m->since_ns &&
            now_ns - x->since_ns >= CLONES_GRACE_NS) {
            x->refused = true;
            verdict = CLONES_FOUND;
        }
    }
    return verdict;
}

/* Whether a machine that is not refused was heard of lately. */
static bool has_owner(const struct clones *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (!c->machines[i].refused) {
            return true;
        }
    }
    return false;
}

static enum clones_verdict heard(struct clones *c, struct clones_machine *m, int64_t now_ns)
{
    m->heard_ns = now_ns;
    if (m->refused && has_owner(c)) {
        return CLONES_REFUSED;
    }
    m->refused = false;
    return refuse_later(c, m, now_ns);
}

void clones_remember(struct clones *c, const struct uuid *boot, int64_t since_ns, int64_t now_ns)
{
    if (c->n == 0 && since_ns > now_ns - CLONES_FORGET_NS) {
        machine_add(c, boot, since_ns);
    }
}

/* The connection is of this boot from now on. */
static void bind(struct clones *c, uint32_t connection, const struct uuid *boot)
{
    clones_gone(c, connection);
    c->n_connections += c->n_connections < CLONES_CONNECTIONS;
    memmove(c->connections + 1, c->connections, (c->n_connections - 1) * sizeof *c->connections);
    c->connections[0] = (struct clones_connection){connection, *boot};
}

enum clones_verdict clones_hello(struct clones *c, uint32_t connection, const struct uuid *boot,
                                 int64_t now_ns)
{
    struct clones_machine *m;

    forget_past(c, now_ns);
    bind(c, connection, boot);
    m = machine_find(c, boot);
    if (!m) {
        m = machine_add(c, boot, now_ns);
    }
    return heard(c, m, now_ns);
}

bool clones_boot(const struct clones *c, uint32_t connection, struct uuid *boot)
{
    for (size_t i = 0; i < c->n_connections; i++) {
        if (c->connections[i].id == connection) {
            *boot = c->connections[i].boot;
            return true;
        }
    }
    return false;
}

enum clones_verdict clones_call(struct clones *c, uint32_t connection, int64_t now_ns)
{
    struct clones_machine *m = NULL;
    struct uuid boot;

    if (clones_boot(c, connection, &boot)) {
        forget_past(c, now_ns);
        m = machine_find(c, &boot);
    }
    return m ? heard(c, m, now_ns) : CLONES_FINE;
}

void clones_gone(struct clones *c, uint32_t connection)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->n_connections; i++) {
        if (c->connections[i].id != connection) {
            c->connections[kept++] = c->connections[i];
        }
    }
    c->n_connections = kept;
}

static bool is_connected(const struct clones *c, const struct clones_machine *m)
{
    for (size_t i = 0; i < c->n_connections; i++) {
        if (same(&c->connections[i].boot, &m->boot)) {
            return true;
        }
    }
    return false;
}

bool clones_wait(const struct clones *c, uint32_t connection, int64_t now_ns)
{
    struct uuid boot;
    size_t m = clones_boot(c, connection, &boot) ? machine_index(c, &boot) : c->n;

    for (size_t i = 0; m < c->n && i < c->n; i++) {
        const struct clones_machine *x = &c->machines[i];

        if (x->since_ns < c->machines[m].since_ns && !x->refused && is_connected(c, x) &&
            now_ns - x->heard_ns < CLONES_ALIVE_NS) {
            return true;
        }
    }
    return false;
}

unsigned clones_count(const struct clones *c, int64_t now_ns)
{
    unsigned n = 0;

    for (size_t i = 0; i < c->n; i++) {
        n += c->machines[i].refused && !is_past(&c->machines[i], now_ns);
    }
    return n;
}
