#include "agent/source/windows/etw_session.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/windows/etw_owner.h"
#include "common/base/clk.h"

#define SAY_NS       (60 * CLK_S) /* so long after it was lost, loss is in the way */
#define LAST_NS      (CLK_S / 2)  /* for what a stopped session still delivers */
#define LAST_STEP_NS (2 * CLK_MS)

#define LEVEL_INFO 4

/* ---- start ---- */

static void set_why(struct etw_session *s, const struct errmsg *why)
{
    (void)snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, why->text);
}

static enum err set_flags(struct etw_session *s, struct errmsg *why)
{
    enum err e = etw_ctl_flags(s->ctl, s->conf.session.flags, why);

    atomic_store(&s->flags_on, etw_ctl_flags_on(s->ctl));
    return e;
}

/* Of a session of high rates, beside its flags. */
static void configure_high(struct etw_session *s, const struct etw_live_conf *conf)
{
    struct errmsg why = {""};

    if (!(s->conf.session.flags & ETW_FLAG_PROFILE)) {
        etw_ctl_sampling_end(s->ctl);
    } else if (etw_ctl_sampling(s->ctl, conf->samples_per_s, &why)) {
        set_why(s, &why);
    } else {
        atomic_store(&s->sample_ns, CLK_S / conf->samples_per_s);
    }
}

/* Whether the provider tells when processes start: its event 1. */
static bool tells_starts(const struct source_provider *p)
{
    static const uint8_t kernel_process[16] = ETW_PROVIDER_KERNEL_PROCESS;
    bool passes = p->n_ids == 0;

    for (size_t i = 0; i < p->n_ids; i++) {
        passes = passes || p->ids[i] == 1;
    }
    return memcmp(p->guid, kernel_process, sizeof kernel_process) == 0 && passes &&
           p->level >= LEVEL_INFO && (p->any & ETW_KEYWORD_PROCESS) &&
           !(p->all & ~ETW_KEYWORD_PROCESS);
}

static enum err enable(struct etw_session *s, const struct source_provider *p, struct errmsg *why)
{
    enum err e = etw_ctl_enable(s->ctl, p, why);

    if (!e && tells_starts(p)) {
        s->starts_told = true;
    }
    return e;
}

/* What is refused is counted by the session and said; the rest goes on. */
static void configure(struct etw_session *s, const struct etw_live_conf *conf)
{
    struct errmsg why = {""};

    if (s->stacks && etw_ctl_stacks(s->ctl, true, &why)) {
        set_why(s, &why);
    }
    if (set_flags(s, &why)) {
        set_why(s, &why);
    }
    if (s->conf.high) {
        configure_high(s, conf);
    }
    s->starts_told = false;
    for (size_t i = 0; i < s->conf.n_providers; i++) {
        if (enable(s, &s->conf.providers[i], &why)) {
            set_why(s, &why);
        }
    }
}

static enum err start_and_open(struct etw_session *s, struct errmsg *why)
{
    enum err e;

    if (atomic_load(s->trusted)) {
        etw_ctl_trust(s->ctl);
    }
    e = etw_ctl_start(s->ctl, why);
    if (e) {
        return e;
    }
    e = etw_session_open_trace(s, why);
    if (e) {
        err_ignore(etw_ctl_stop(s->ctl, NULL));
    }
    return e;
}

/* Who is refused owns nothing: an agent that may have the sessions would wait for it in vain. */
static enum err start(struct etw_session *s, struct errmsg *why)
{
    bool takes = s->owner && !*s->owner;
    enum err e = takes ? etw_owner_take(s->owner, why) : ERR_OK;

    if (e) {
        return e;
    }
    e = start_and_open(s, why);
    if (e && takes) {
        etw_owner_give(*s->owner);
        *s->owner = NULL;
    }
    if (e) {
        return e;
    }
    etw_ctl_trust(s->ctl);
    s->before = (struct etw_totals){0};
    if (s->conf.session.attach) {
        err_ignore(etw_ctl_query(s->ctl, &s->before, NULL));
    }
    s->still.since_ns = os_mono_ns();
    s->still.probed = false;
    return ERR_OK;
}

enum err etw_session_start(struct etw_session *s, const struct etw_live_conf *conf,
                           struct errmsg *why)
{
    struct errmsg refused = {""};
    enum err e = start(s, &refused);

    set_why(s, &refused);
    if (e) {
        return errmsg_set(why, e, "%s", refused.text);
    }
    configure(s, conf);
    return ERR_OK;
}

enum err etw_session_init(struct etw_session *s, const struct etw_api *api,
                          const struct etw_live_session *conf, size_t ring_bytes,
                          struct errmsg *why)
{
    struct ring_conf ring = {.bytes = ring_bytes};
    enum err e;

    s->api = api;
    s->conf = *conf;
    s->idle = conf->high;
    e = etw_ctl_open(&s->ctl, api, &s->conf.session, why);
    if (e) {
        return e;
    }
    e = ring_create(&s->ring, &ring);
    return e ? errmsg_set(why, e, "ring_bytes of session %s: %s", conf->session.name, err_text(e))
             : ERR_OK;
}

void etw_session_fini(struct etw_session *s)
{
    if (s->ctl) {
        err_ignore(etw_ctl_stop(s->ctl, NULL));
    }
    etw_session_join(s);
    ring_destroy(s->ring);
    etw_ctl_close(s->ctl);
    s->ring = NULL;
    s->ctl = NULL;
}

/* ---- the control thread ---- */

static void publish(struct etw_session *s)
{
    atomic_store(&s->events_lost, s->events_base + s->last.events_lost);
    atomic_store(&s->buffers_lost, s->buffers_base + s->last.buffers_lost);
}

/* What it counted until now stays counted. */
static void end_life(struct etw_session *s)
{
    s->events_base += s->last.events_lost;
    s->buffers_base += s->last.buffers_lost;
    s->last = (struct etw_totals){0};
}

/* A session that stands although nobody reads it any more is stopped, so that the next start finds
 * its name free. */
static void lose(struct etw_session *s, const struct etw_live_conf *conf, const char *cause,
                 int64_t now_ns)
{
    etw_session_join(s);
    err_ignore(etw_ctl_stop(s->ctl, NULL));
    end_life(s);
    (void)snprintf(s->why, sizeof s->why, "session %.200s was lost: %s", s->conf.session.name,
                   cause);
    s->down = true;
    s->tries = 0;
    s->next_try_ns = now_ns + conf->retry_ns;
    atomic_fetch_add(&s->losses, 1);
}

static bool try_start(struct etw_session *s, const struct etw_live_conf *conf)
{
    struct errmsg why = {""};

    if (etw_session_start(s, conf, &why) == ERR_OK && etw_session_read(s) == ERR_OK) {
        return true;
    }
    etw_session_join(s);
    err_ignore(etw_ctl_stop(s->ctl, NULL));
    return false;
}

static void try_again(struct etw_session *s, const struct etw_live_conf *conf, int64_t now_ns)
{
    if (now_ns < s->next_try_ns) {
        return;
    }
    if (try_start(s, conf)) {
        s->down = false;
        atomic_fetch_add(&s->restarts, 1);
        return;
    }
    atomic_fetch_add(&s->restarts_failed, 1);
    s->tries++;
    s->next_try_ns = now_ns + (s->tries < conf->retry_fast ? conf->retry_ns : conf->pause_ns);
}

/* What a foreign session lost before it was read is not ours; less than then: it is a new one. */
static void leave_out_before(struct etw_session *s, struct etw_totals *t)
{
    if (t->events_lost < s->before.events_lost || t->buffers_lost < s->before.buffers_lost) {
        s->before = (struct etw_totals){0};
    }
    t->events_lost -= s->before.events_lost;
    t->buffers_lost -= s->before.buffers_lost;
}

/* more: it has lost something since it was asked last. */
static enum err ask(struct etw_session *s, bool *more)
{
    struct etw_totals totals;
    enum err e = etw_ctl_query(s->ctl, &totals, NULL);

    if (e) {
        return e;
    }
    leave_out_before(s, &totals);
    atomic_store(&s->events_settled, s->events_base + s->last.events_lost);
    atomic_store(&s->buffers_settled, s->buffers_base + s->last.buffers_lost);
    *more = totals.events_lost > s->last.events_lost || totals.buffers_lost > s->last.buffers_lost;
    s->last = totals;
    publish(s);
    return ERR_OK;
}

static uint64_t dropped(const struct etw_session *s)
{
    struct ring_stats ring;
    uint64_t sum = 0;

    ring_stats(s->ring, &ring);
    for (size_t i = 0; i < RING_KIND_COUNT; i++) {
        sum += ring.dropped[i];
    }
    return sum;
}

static void nothing(void *arg)
{
    (void)arg;
}

/* Something that the session must tell of has happened: where it tells of threads, one of ours. */
static bool provoke(const struct etw_session *s, uint64_t starts)
{
    uint32_t on = etw_ctl_flags_on(s->ctl);
    struct os_thread *t;

    if (!(on & ETW_FLAG_THREAD)) {
        return (s->starts_told || (on & ETW_FLAG_PROCESS)) && starts > s->still.starts;
    }
    if (os_thread_start(&t, "etw-heartbeat", nothing, NULL)) {
        return false;
    }
    os_thread_join(t);
    return true;
}

/* True: it hands on nothing although it must. The flush brings what waits in its buffers until the
 * next look. */
static bool silent(struct etw_session *s, const struct etw_live_conf *conf, uint64_t starts,
                   int64_t now_ns)
{
    uint64_t came = atomic_load(&s->seen.came);

    if (came != s->still.came || s->last.buffers_written != s->still.written) {
        s->still.came = came;
        s->still.written = s->last.buffers_written;
        s->still.starts = starts;
        s->still.since_ns = now_ns;
        s->still.probed = false;
        return false;
    }
    if (s->conf.session.attach || now_ns - s->still.since_ns < conf->heartbeat_ns) {
        return false;
    }
    if (s->still.probed) {
        return now_ns - s->still.probed_ns >= conf->heartbeat_ns / 10;
    }
    s->still.probed = provoke(s, starts) && etw_ctl_flush(s->ctl, NULL) == ERR_OK;
    s->still.probed_ns = now_ns;
    return false;
}

static void watch(struct etw_session *s, const struct etw_live_conf *conf, uint64_t starts,
                  int64_t now_ns)
{
    bool more = false;

    if (ask(s, &more) == ERR_LOST) {
        lose(s, conf, "another program stopped it", now_ns);
    } else if (atomic_load(&s->returned)) {
        lose(s, conf, "the system ended its delivery", now_ns);
    } else if (silent(s, conf, starts, now_ns)) {
        lose(s, conf, "it hands on nothing any more", now_ns);
    } else if (more) {
        s->lost_until_ns = now_ns + SAY_NS;
        err_ignore(etw_ctl_grow(s->ctl, NULL)); /* at the limit: the level must fall */
    }
}

void etw_session_watch(struct etw_session *s, const struct etw_live_conf *conf, uint64_t starts,
                       int64_t now_ns)
{
    uint64_t full = dropped(s);

    if (full > s->dropped) {
        s->full_until_ns = now_ns + SAY_NS;
    }
    s->dropped = full;
    if (s->idle) {
        return;
    }
    if (s->down) {
        try_again(s, conf, now_ns);
    } else {
        watch(s, conf, starts, now_ns);
    }
}

void etw_session_tell(const struct etw_session *s, char *text, int64_t now_ns)
{
    const char *name = s->conf.session.name;

    text[0] = '\0';
    if (s->why[0]) {
        memcpy(text, s->why, sizeof s->why);
    } else if (now_ns < s->full_until_ns) {
        (void)snprintf(text, ETW_SESSION_WHY,
                       "session %.120s: records come faster than they are taken, its ring "
                       "overflows; raise etw.ring_bytes or lower sampler.level_max",
                       name);
    } else if (now_ns < s->lost_until_ns && s->conf.session.attach) {
        (void)snprintf(text, ETW_SESSION_WHY,
                       "session %.120s: the system loses events for want of buffers; whoever "
                       "starts it must give it more",
                       name);
    } else if (now_ns < s->lost_until_ns) {
        (void)snprintf(text, ETW_SESSION_WHY,
                       "session %.120s: the system loses events for want of buffers; raise "
                       "etw.%smax_buffers or etw.pool_limit_mib",
                       name, s->conf.high ? "hi." : "");
    }
}

void etw_session_stop(struct etw_session *s)
{
    bool more;

    if (!s->down && !s->idle) {
        err_ignore(ask(s, &more));
    }
    err_ignore(etw_ctl_stop(s->ctl, NULL));
}

/* ---- live changes ---- */

/* To the end of what it still delivers. */
static void rest(struct etw_session *s)
{
    int64_t until_ns = os_mono_ns() + LAST_NS;

    etw_session_stop(s);
    while (s->consumer && !atomic_load(&s->returned) && os_mono_ns() < until_ns) {
        os_sleep_ns(LAST_STEP_NS);
    }
    etw_session_join(s);
    end_life(s);
    s->idle = true;
    s->down = false;
    s->why[0] = '\0';
}

void etw_session_want(struct etw_session *s, const struct etw_live_conf *conf, uint32_t flags,
                      int64_t now_ns)
{
    struct errmsg why = {""};

    if (!flags) {
        if (!s->idle) {
            rest(s);
        }
        return;
    }
    s->conf.session.flags = flags;
    if (s->idle) {
        s->idle = false;
        s->down = !try_start(s, conf);
        s->tries = 0;
        s->next_try_ns = now_ns + conf->retry_ns;
    } else if (!s->down) {
        s->why[0] = '\0';
        if (set_flags(s, &why)) {
            set_why(s, &why);
        }
        configure_high(s, conf);
    }
}

enum err etw_session_flags(struct etw_session *s, uint32_t flags, struct errmsg *why)
{
    s->conf.session.flags = flags;
    return s->down ? ERR_OK : set_flags(s, why);
}

enum err etw_session_stacks(struct etw_session *s, bool on, struct errmsg *why)
{
    s->stacks = on;
    return s->down || s->idle ? ERR_OK : etw_ctl_stacks(s->ctl, on, why);
}

static size_t find(const struct etw_session *s, const uint8_t guid[16])
{
    size_t i = 0;

    while (i < s->conf.n_providers && memcmp(s->conf.providers[i].guid, guid, 16) != 0) {
        i++;
    }
    return i;
}

enum err etw_session_add(struct etw_session *s, const struct source_provider *p, struct errmsg *why)
{
    size_t i = find(s, p->guid);
    enum err e;

    if (i == ETW_LIVE_PROVIDERS) {
        return errmsg_set(why, ERR_FULL, "session %s has %d providers already",
                          s->conf.session.name, ETW_LIVE_PROVIDERS);
    }
    e = s->down ? ERR_OK : enable(s, p, why);
    if (e) {
        return e;
    }
    s->conf.providers[i] = *p;
    s->conf.n_providers += i == s->conf.n_providers;
    return ERR_OK;
}

enum err etw_session_remove(struct etw_session *s, const uint8_t guid[16], struct errmsg *why)
{
    size_t i = find(s, guid);
    struct source_provider *p = &s->conf.providers[i];

    if (i == s->conf.n_providers) {
        return errmsg_set(why, ERR_NOTFOUND, "session %s has no such provider",
                          s->conf.session.name);
    }
    s->starts_told = s->starts_told && !tells_starts(p);
    s->conf.n_providers--;
    memmove(p, p + 1, (s->conf.n_providers - i) * sizeof *p);
    return s->down ? ERR_OK : etw_ctl_disable(s->ctl, guid, why);
}
