#include "agent/doctor/doctor_proof.h"

#include <stdlib.h>
#include <string.h>

#include "agent/source/windows/snap_layout.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/sid.h"

#define REPORT   "please report it with the system's build; see docs/windows.md, Unverified"
#define SKEW_MAX (50 * CLK_MS) /* what the agent allows between a start's stamp and its time */
#define WRITTEN  (8u << 20)
/* Codes of the system. */
#define DENIED        5u
#define NO_SLOT       1450u
#define STATUS_DENIED 0xc0000022u

#define SAY(d, check, sound, ...)                                                        \
    check_result_report(d->all, check, (sound) ? CHECK_RESULT_OK : CHECK_RESULT_WARNING, \
                        (sound) ? "" : REPORT, __VA_ARGS__)

/* -- tables: hostile bytes -- */

static uint32_t proof_u32(const uint8_t *p, size_t at)
{
    struct cur c = cur_make(p + at, 4);

    return cur_u32le(&c);
}

static uint64_t proof_u64(const uint8_t *p, size_t at)
{
    struct cur c = cur_make(p + at, 8);

    return cur_u64le(&c);
}

#define PROCESS_AT(field)   offsetof(struct snap_process, field)
#define THREAD_AT(field)    offsetof(struct snap_thread_record, field)
#define EXTENSION_AT(field) offsetof(struct snap_extension, field)

struct proof_entry {
    const uint8_t *p;
    size_t n, behind; /* bytes; where its threads end */
    size_t threads;
    bool named;
    size_t name; /* where it stands, if named */
};

/* The entry at *at, and where the next one is; *at = n behind the last. */
static enum err proof_next(struct proof_entry *out, const uint8_t *p, size_t n, uint64_t base,
                           bool full, size_t *at)
{
    size_t bytes = full ? sizeof(struct snap_full_thread) : sizeof(struct snap_thread_record);
    struct proof_entry e = {.p = p + *at};
    uint64_t name;
    uint32_t next;

    if (n - *at < sizeof(struct snap_process)) {
        return ERR_CORRUPT;
    }
    next = proof_u32(e.p, PROCESS_AT(NextEntryOffset));
    if (next && (next < sizeof(struct snap_process) || next > n - *at)) {
        return ERR_CORRUPT;
    }
    e.n = next ? next : n - *at;
    e.threads = proof_u32(e.p, PROCESS_AT(NumberOfThreads));
    if (e.threads > (e.n - sizeof(struct snap_process)) / bytes) {
        return ERR_CORRUPT;
    }
    e.behind = sizeof(struct snap_process) + e.threads * bytes;
    name = proof_u64(e.p, PROCESS_AT(ImageName.Buffer)) - base - *at;
    e.named = proof_u64(e.p, PROCESS_AT(ImageName.Buffer)) != 0 && name >= e.behind && name < e.n;
    e.name = e.named ? (size_t)name : 0;
    *at = next ? *at + next : n;
    *out = e;
    return ERR_OK;
}

static bool proof_has(const struct proof_entry *e, size_t bytes)
{
    return e->named && e->name - e->behind >= bytes;
}

static bool proof_sid(const struct proof_entry *e)
{
    size_t n = e->n - e->behind, at;
    char text[SID_TEXT_SIZE];

    if (!proof_has(e, EXTENSION_AT(UserSidOffset) + 4)) {
        return false;
    }
    at = proof_u32(e->p + e->behind, EXTENSION_AT(UserSidOffset));
    return at >= EXTENSION_AT(UserSidOffset) + 4 && at < n &&
           sid_text(text, sizeof text, e->p + e->behind + at, n - at) > 0;
}

static void proof_own(struct doctor_proof_table *out, const struct proof_entry *e, bool full)
{
    size_t bytes = full ? sizeof(struct snap_full_thread) : sizeof(struct snap_thread_record);
    const uint8_t *x = e->p + e->behind;

    out->own_private = proof_u64(e->p, PROCESS_AT(PrivatePageCount));
    for (size_t i = 0; i < e->threads; i++) {
        out->thread_switches +=
            proof_u32(e->p + sizeof(struct snap_process) + i * bytes, THREAD_AT(ContextSwitches));
    }
    if (proof_has(e, EXTENSION_AT(ContextSwitches) + 8)) {
        out->own_switches = proof_u64(x, EXTENSION_AT(ContextSwitches));
        out->disk_after = proof_u64(x, EXTENSION_AT(DiskCounters.BytesWritten));
    }
}

enum err doctor_proof_read(struct doctor_proof_table *out, const uint8_t *p, size_t n,
                           uint64_t base, bool full, uint32_t own)
{
    struct doctor_proof_table t = *out;
    struct proof_entry e;
    size_t at = 0;

    t.bytes = n;
    t.processes = t.named = t.sids = 0;
    t.gap_least = t.gap_most = t.own_switches = t.thread_switches = 0;
    t.cpu_ns = 0;
    while (at < n || n == 0) {
        if (n == 0 || proof_next(&e, p, n, base, full, &at) != ERR_OK) {
            return ERR_CORRUPT;
        }
        t.processes++;
        t.sids += proof_sid(&e);
        t.cpu_ns += (int64_t)((proof_u64(e.p, PROCESS_AT(UserTime)) +
                               proof_u64(e.p, PROCESS_AT(KernelTime))) *
                              100);
        if (e.named) {
            uint64_t gap = e.name - e.behind;

            t.gap_least = t.named == 0 || gap < t.gap_least ? gap : t.gap_least;
            t.gap_most = gap > t.gap_most ? gap : t.gap_most;
            t.named++;
        }
        if (proof_u64(e.p, PROCESS_AT(UniqueProcessId)) == own) {
            proof_own(&t, &e, full);
        }
    }
    *out = t;
    return ERR_OK;
}

bool doctor_proof_find(struct doctor_proof_entry *out, const uint8_t *p, size_t n, uint64_t base,
                       uint32_t pid)
{
    struct proof_entry e;
    size_t at = 0;

    while (at < n && proof_next(&e, p, n, base, false, &at) == ERR_OK) {
        if (proof_u64(e.p, PROCESS_AT(UniqueProcessId)) == pid) {
            out->created = proof_u64(e.p, PROCESS_AT(CreateTime));
            out->sequence = proof_has(&e, sizeof(struct snap_extension))
                                ? proof_u64(e.p + e.behind, EXTENSION_AT(ProcessSequenceNumber))
                                : 0;
            return true;
        }
    }
    return false;
}

static int proof_by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void doctor_proof_spread(struct doctor_proof_spread *out, int64_t *ns, unsigned n)
{
    *out = (struct doctor_proof_spread){.n = n};
    if (n > 0) {
        qsort(ns, n, sizeof *ns, proof_by_size);
        out->least = ns[0];
        out->median = ns[n / 2];
        out->most = ns[n - 1];
    }
}

/* -- what follows -- */

static long long us(int64_t ns)
{
    return (long long)(ns / CLK_US);
}

static const char *yes(bool b)
{
    return b ? "yes" : "no";
}

static void tell_session(struct doctor *d, const struct doctor_proof *p)
{
    SAY(d, "fact.guid", p->guid_query && p->guid_list,
        "our session's identifier came back from its query: %s, from the list of all: %s",
        yes(p->guid_query), yes(p->guid_list));
    SAY(d, "fact.update",
        p->updated && p->flags_got == p->flags_asked && p->buffers_got == p->buffers_asked &&
            p->mode_got == p->mode_asked,
        "after it was made to grow: flags %#x (asked %#x), at most %u buffers (asked %u), mode %#x "
        "(asked %#x)",
        p->flags_got, p->flags_asked, p->buffers_got, p->buffers_asked, p->mode_got, p->mode_asked);
    for (size_t i = 0; i < DOCTOR_PROOF_FLAGS; i++) {
        const struct doctor_proof_flag *f = &p->flags[i];

        if (f->tried) {
            SAY(d, "fact.flags", f->taken && (f->seen > 0 || f->rare),
                "%s (%#x) alone: %s, %llu records of class %s beside the rundown", f->name, f->flag,
                f->taken ? "taken" : "refused", (unsigned long long)f->seen, f->class);
        }
    }
}

static void tell_bursts(struct doctor *d, const struct doctor_proof *p)
{
    for (size_t i = 0; i < DOCTOR_PROOF_BURSTS; i++) {
        const struct doctor_proof_burst *b = &p->bursts[i];

        if (b->started > 0) {
            SAY(d, "fact.burst", b->seen == b->started,
                "%u buffers at least, flushed each %u ms: %u of %u starts told, %llu events and "
                "%llu buffers lost, %u buffers of %u KiB at the end",
                b->min_buffers, b->flush_ms ? b->flush_ms : 1000, b->seen, b->started,
                (unsigned long long)b->events_lost, (unsigned long long)b->buffers_lost, b->buffers,
                b->buffer_kb);
        }
    }
    if (p->with_reader.tried && p->without_reader.tried) {
        SAY(d, "fact.start_loss",
            p->with_reader.events_lost == 0 && p->with_reader.buffers_lost == 0,
            "rundown with a reader: %llu images, %llu events and %llu buffers lost; before one: "
            "%llu images, %llu and %llu",
            (unsigned long long)p->with_reader.images,
            (unsigned long long)p->with_reader.events_lost,
            (unsigned long long)p->with_reader.buffers_lost,
            (unsigned long long)p->without_reader.images,
            (unsigned long long)p->without_reader.events_lost,
            (unsigned long long)p->without_reader.buffers_lost);
    }
}

static void tell_identity(struct doctor *d, const struct doctor_proof *p)
{
    if (p->children == 0) {
        return;
    }
    SAY(d, "fact.identity", p->times_equal == p->children,
        "of %u children the time of creation was equal in table, handle and event: %u", p->children,
        p->times_equal);
    SAY(d, "fact.sequence", p->sequences > 0 && p->sequences_equal == p->sequences,
        "%u of them had a sequence number in table and event, equal: %u", p->sequences,
        p->sequences_equal);
    if (p->skew.n > 0) {
        SAY(d, "fact.skew", p->skew.least > -SKEW_MAX && p->skew.most < SKEW_MAX,
            "a start's stamp minus its time of creation: %lld to %lld us, median %lld",
            us(p->skew.least), us(p->skew.most), us(p->skew.median));
    }
    SAY(d, "fact.pair", p->both == p->children,
        "starts in both streams: %u, classic only: %u, manifest only: %u; the manifest's came "
        "%lld to %lld us after the classic one, median %lld",
        p->both, p->classic_only, p->manifest_only, us(p->pair.least), us(p->pair.most),
        us(p->pair.median));
}

static void tell_negative(struct doctor *d, const struct doctor_proof_negative *n)
{
    if (n->second_tried) {
        SAY(d, "fact.second", n->second_refused,
            "who asks for the sessions while another one has them is refused: %s",
            yes(n->second_refused));
    }
    if (n->foreign_tried) {
        SAY(d, "fact.foreign", n->foreign == ERR_EXISTS && n->foreign_kept,
            "beside a session of our name that is another's ours: %s; that one stood afterwards: "
            "%s",
            n->foreign ? err_text(n->foreign) : "started", yes(n->foreign_kept));
    }
    if (n->slots > 0) {
        SAY(d, "fact.slots", n->slots_code == NO_SLOT && n->full == ERR_FULL,
            "%u system loggers could be started beside the others, then code %u; ours then: %s",
            n->slots, n->slots_code, n->full ? n->full_why : "started");
    }
    if (n->less_tried) {
        SAY(d, "fact.refused", n->less_start == DENIED && n->less_table == STATUS_DENIED,
            "without groups and privileges: code %u of starting a session, %#x of the table of "
            "class 148",
            n->less_start, n->less_table);
    }
}

/* A container takes flags and tells nothing of them. */
static void tell_kind(struct doctor *d, const struct doctor_proof_kind *k)
{
    if (k->asked) {
        SAY(d, "fact.kind", k->container == 0,
            "%s; container: %u; language %#x, administrators are \"%s\", code pages %u and %u; "
            "FIPS policy: %s; constrained language mode: %s",
            k->installation[0] ? k->installation : "of a kind it does not tell", k->container,
            k->language, k->administrators, k->ansi, k->oem, yes(k->fips), yes(k->lockdown));
    }
}

static void tell_account(struct doctor *d, const struct doctor_proof *p)
{
    if (!p->account) {
        return;
    }
    check_result_report(d->all, "fact.account", CHECK_RESULT_OK, "",
                        "%s, elevated: %s, privileges: %s, local groups: %s; a kernel flag: %s%u; "
                        "access list of the system trace provider: code %u, %u bytes",
                        d->anonymous ? "(covered)" : p->user, yes(p->elevated), p->privileges,
                        p->groups, p->sessions ? "code " : "not tried, ", p->flags_code,
                        p->provider_code, p->provider_bytes);
}

static void tell_table(struct doctor *d, const struct doctor_proof_table *t)
{
    if (t->status != 0) {
        check_result_report(d->all, "fact.table", CHECK_RESULT_SKIPPED, "",
                            "class %u is refused with %#x", t->class, t->status);
        return;
    }
    SAY(d, "fact.table", t->processes > 0 && t->gap_least >= sizeof(struct snap_extension),
        "class %u: %u processes in %llu bytes, %llu to %llu bytes between threads and name (the "
        "extension takes %u), a user's SID in %u",
        t->class, t->processes, (unsigned long long)t->bytes, (unsigned long long)t->gap_least,
        (unsigned long long)t->gap_most, (unsigned)sizeof(struct snap_extension), t->sids);
    SAY(d, "fact.own",
        t->own_switches >= t->thread_switches && t->own_switches > 0 &&
            t->disk_after - t->disk_before >= WRITTEN,
        "class %u of this program: switches %llu in the extension, %llu in its threads; private "
        "bytes %llu, asked otherwise %llu; %llu bytes more on disk after a write of %u",
        t->class, (unsigned long long)t->own_switches, (unsigned long long)t->thread_switches,
        (unsigned long long)t->own_private, (unsigned long long)t->private_asked,
        (unsigned long long)(t->disk_after - t->disk_before), WRITTEN);
    if (t->wall_ns > 0) {
        check_result_report(d->all, "fact.time", CHECK_RESULT_OK, "",
                            "class %u: CPU times of all, idle included, grew by %lld ms in %lld ms",
                            t->class, (long long)(t->cpu_ns / CLK_MS),
                            (long long)(t->wall_ns / CLK_MS));
    }
}

static void tell_host(struct doctor *d, const struct doctor_proof *p)
{
    for (size_t i = 0; i < DOCTOR_PROOF_TIMERS; i++) {
        const struct doctor_proof_spread *s = &p->timers[i].took;

        if (s->n > 0) {
            SAY(d, "fact.timer", s->median < 2 * p->timers[i].asked_ns + 2 * CLK_MS,
                "a wait of %lld ms takes %lld to %lld us, median %lld",
                (long long)(p->timers[i].asked_ns / CLK_MS), us(s->least), us(s->most),
                us(s->median));
        }
    }
    if (p->renames > 0) {
        SAY(d, "fact.rename", p->renames_failed == 0,
            "of %u files that replaced another one at once %u failed", p->renames,
            p->renames_failed);
    }
    if (p->drift_over_ns > 0) {
        SAY(d, "fact.clock", llabs(p->drift_ns) < 10 * CLK_MS,
            "the time of day went %lld us further than the counter in %lld ms", us(p->drift_ns),
            (long long)(p->drift_over_ns / CLK_MS));
    }
}

void doctor_proof_tell(struct doctor *d, const struct doctor_proof *p)
{
    if (p->sessions) {
        tell_session(d, p);
        tell_bursts(d, p);
        tell_identity(d, p);
        tell_negative(d, &p->negative);
    } else {
        check_result_report(
            d->all, "fact.proof", CHECK_RESULT_SKIPPED, "",
            "not applicable here: guid, update, flags, burst, start_loss, identity, "
            "sequence, skew, pair, second, foreign, slots and refused need a trace session: %s",
            p->why.text);
    }
    tell_account(d, p);
    tell_kind(d, &p->kind);
    for (size_t i = 0; i < DOCTOR_PROOF_TABLES; i++) {
        if (p->tables[i].class) {
            tell_table(d, &p->tables[i]);
        }
    }
    tell_host(d, p);
}
