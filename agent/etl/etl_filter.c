#include "agent/etl/etl_filter.h"

#include <stdlib.h>

#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/os/uuid.h"

/* A GUID as text, braces allowed, into the bytes as stored. */
static bool parse_guid(uint8_t guid[16], const char *text)
{
    static const uint8_t to[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char plain[UUID_TEXT];
    size_t n = strlen(text);
    struct uuid u;

    if (n == UUID_TEXT + 1 && text[0] == '{' && text[n - 1] == '}') {
        text++;
        n -= 2;
    }
    if (n + 1 != sizeof plain) {
        return false;
    }
    memcpy(plain, text, n);
    plain[n] = '\0';
    if (uuid_parse(&u, plain)) {
        return false;
    }
    for (size_t i = 0; i < 16; i++) {
        guid[to[i]] = u.b[i];
    }
    return true;
}

static bool parse_number(uint16_t *v, const char *text)
{
    uint64_t n;

    if (opt_number(&n, text, UINT16_MAX) != ERR_OK) {
        return false;
    }
    *v = (uint16_t)n;
    return true;
}

/* Plain numbers are ms since the start, spans as well; everything with a date is UTC. */
static enum err parse_time(struct etl_filter_time *t, const struct etl_job *job, const char *option,
                           struct errmsg *why)
{
    const char *text = opt_value(job->args, option);
    char *end;
    double ms;

    if (!text) {
        return ERR_OK;
    }
    t->given = true;
    if (strlen(text) > 4 && text[4] == '-') {
        if (clk_parse_when(&t->ns, text, 0) == ERR_OK) {
            return ERR_OK;
        }
    } else {
        t->relative = true;
        ms = strtod(text, &end);
        if (end != text && !*end && ms >= 0 && ms < 1e12) {
            t->ns = (int64_t)(ms * (double)CLK_MS + 0.5);
            return ERR_OK;
        }
        if (clk_parse_span(&t->ns, text) == ERR_OK) {
            return ERR_OK;
        }
    }
    return errmsg_set(why, ERR_USAGE,
                      "--%s: '%s' is neither ms since the start (1500, 2733.175), nor a span (2s), "
                      "nor a time (2026-11-21T09:00:00Z)",
                      option, text);
}

enum err etl_filter_parse(struct etl_filter *p, const struct etl_job *job, struct errmsg *why)
{
    const char *provider = opt_value(job->args, "provider"), *event = opt_value(job->args, "event");
    enum err e;

    *p = (struct etl_filter){.provider = str_make(provider), .event = str_make(event)};
    p->by_guid = provider && parse_guid(p->guid, provider);
    p->by_number = event && parse_number(&p->number, event);
    e = etl_job_id(job, "pid", &p->by_pid, &p->pid, why);
    if (!e) {
        e = etl_job_id(job, "tid", &p->by_tid, &p->tid, why);
    }
    if (!e) {
        e = parse_time(&p->since, job, "since", why);
    }
    if (!e) {
        e = parse_time(&p->until, job, "until", why);
    }
    if (!e && p->since.given && p->until.given && p->since.relative == p->until.relative &&
        p->since.ns > p->until.ns) {
        e = errmsg_set(why, ERR_USAGE, "--until is before --since: no record can be between them");
    }
    return e;
}

bool etl_filter_by_name(const struct etl_filter *p)
{
    return (p->provider.n && !p->by_guid) || (p->event.n && !p->by_number);
}

static int64_t moment(const struct etl_filter_time *t, const struct etl_walk_record *r)
{
    return t->relative ? r->since_ns : r->raw->wall_ns;
}

bool etl_filter_over(const struct etl_filter *p, const struct etl_walk_record *r)
{
    return p->until.given && moment(&p->until, r) > p->until.ns;
}

/* The header's ids count as well as the payload's: who did it, and whom it is about. */
bool etl_filter_matches(const struct etl_filter *p, const struct etl_walk_record *r)
{
    const struct raw_event *raw = r->raw;

    if (p->since.given && moment(&p->since, r) < p->since.ns) {
        return false;
    }
    if (p->by_guid && memcmp(p->guid, raw->guid, sizeof p->guid) != 0) {
        return false;
    }
    if (p->by_number && p->number != (raw->form == RAW_CLASSIC ? raw->opcode : raw->id)) {
        return false;
    }
    if (p->by_pid && raw->pid != p->pid && etl_filter_pid(r) != p->pid) {
        return false;
    }
    return !p->by_tid || raw->tid == p->tid || etl_filter_tid(r) == p->tid;
}

/* "Start", "Process/Start": with and without the task. */
static bool event_matches(struct str pattern, const struct described *is)
{
    char both[256];
    size_t task = is->task.n < 120 ? is->task.n : 120, name = is->name.n < 120 ? is->name.n : 120;

    if (glob_match(pattern, is->name) || (is->task.n && glob_match(pattern, is->task))) {
        return true;
    }
    if (!is->task.n || !is->name.n) {
        return false;
    }
    memcpy(both, is->task.p, task);
    both[task] = '/';
    memcpy(both + task + 1, is->name.p, name);
    return glob_match(pattern, (struct str){both, task + 1 + name});
}

bool etl_filter_matches_name(const struct etl_filter *p, const struct described *is)
{
    if (p->provider.n && !p->by_guid && !glob_match(p->provider, is->provider)) {
        return false;
    }
    return !p->event.n || p->by_number || event_matches(p->event, is);
}

uint32_t etl_filter_pid(const struct etl_walk_record *r)
{
    const struct event *ev = r->ev;

    if (ev) {
        switch (ev->kind) {
        case EV_PROC_START:
        case EV_PROC_STOP:
        case EV_PROC_FOUND:
        case EV_PROC_LAST:
        case EV_PROC_DEFUNCT:
            return ev->u.proc.info.id.pid;
        case EV_THREAD_START:
        case EV_THREAD_STOP:
        case EV_THREAD_FOUND:
        case EV_THREAD_LAST:
        case EV_THREAD_NAME:
            return ev->u.thread.pid;
        case EV_IMAGE_LOAD:
        case EV_IMAGE_UNLOAD:
        case EV_IMAGE_FOUND:
        case EV_IMAGE_LAST:
            return ev->u.image.pid;
        case EV_NET:
            return ev->u.net.pid;
        case EV_STACK:
            return ev->u.stack.pid;
        default:
            break;
        }
    }
    return r->charged ? r->charged->info.id.pid : r->raw->pid;
}

uint32_t etl_filter_tid(const struct etl_walk_record *r)
{
    const struct event *ev = r->ev;

    if (ev) {
        switch (ev->kind) {
        case EV_THREAD_START:
        case EV_THREAD_STOP:
        case EV_THREAD_FOUND:
        case EV_THREAD_LAST:
        case EV_THREAD_NAME:
            return ev->u.thread.tid;
        case EV_CPU_SAMPLE:
            return ev->u.sample.tid;
        case EV_CPU_PMC:
            return ev->u.pmc.tid;
        case EV_CSWITCH:
            return ev->u.cswitch.new_tid;
        case EV_READY:
            return ev->u.ready.tid;
        case EV_HARD_FAULT:
            return ev->u.hard_fault.tid;
        case EV_DISK_READ:
        case EV_DISK_WRITE:
            return ev->u.disk.issuer_tid != EVENT_NO_ID ? ev->u.disk.issuer_tid : r->raw->tid;
        case EV_STACK:
            return ev->u.stack.tid;
        default:
            break;
        }
    }
    return r->raw->tid;
}
