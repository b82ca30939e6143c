#include "agent/etl/etl_range.h"

#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_fields.h"
#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/glob.h"

#define MARK_OPCODE 34
#define MARK        "mark:"

/* Plain numbers are ms since the start, spans as well; everything with a date is UTC. */
enum err etl_range_moment(struct etl_range_time *t, const struct etl_job *job, const char *option,
                          struct errmsg *why)
{
    const char *text = opt_value(job->args, option);
    char *end;
    double ms;

    t->given = text != NULL;
    t->mark = str_make("");
    if (!text) {
        return ERR_OK;
    }
    if (strncmp(text, MARK, sizeof MARK - 1) == 0 && text[sizeof MARK - 1]) {
        t->mark = str_make(text + sizeof MARK - 1);
        return ERR_OK;
    }
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
                      "nor a time (2026-11-21T09:00:00Z), nor a mark (mark:NAME)",
                      option, text);
}

enum err etl_range_parse(struct etl_range *out, const struct etl_job *job, struct errmsg *why)
{
    enum err e = etl_range_moment(&out->since, job, "since", why);

    out->name = str_make(opt_value(job->args, "name"));
    if (!e) {
        e = etl_job_id(job, "pid", &out->by_pid, &out->pid, why);
    }
    if (!e) {
        e = etl_range_moment(&out->until, job, "until", why);
    }
    if (!e && out->since.given && out->until.given && !out->since.mark.n && !out->until.mark.n &&
        out->since.relative == out->until.relative && out->until.ns < out->since.ns) {
        e = errmsg_set(why, ERR_USAGE, "--until is before --since: no record can be between them");
    }
    return e;
}

void etl_range_begin(struct etl_range *r)
{
    r->since.seen = r->until.seen = false;
    r->zero_ns = 0;
}

static int64_t moment(const struct etl_range_time *t, const struct etl_walk_record *rec)
{
    return t->relative ? rec->since_ns : rec->raw->wall_ns;
}

/* Marks that are waited for. The record of the later one is still between both. */
static bool see_marks(struct etl_range *r, struct etl_walk *w, const struct etl_walk_record *rec)
{
    bool since = r->since.mark.n && !r->since.seen, until = r->until.mark.n && !r->until.seen;
    struct str text;

    if ((!since && !until) || !etl_range_mark(w, rec->raw, &text)) {
        return false;
    }
    if (since && glob_match(r->since.mark, text)) {
        r->since.seen = true;
        r->zero_ns = rec->since_ns;
    } else if (until && glob_match(r->until.mark, text)) {
        r->until.seen = true;
        return true;
    }
    return false;
}

bool etl_range_takes(struct etl_range *r, struct etl_walk *w, const struct etl_walk_record *rec)
{
    bool last = see_marks(r, w, rec);

    if (r->until.given && !last &&
        (r->until.mark.n ? r->until.seen : moment(&r->until, rec) > r->until.ns)) {
        if (!r->goes_on) {
            etl_walk_stop(w);
        }
        return false;
    }
    if (!r->since.given) {
        return true;
    }
    return r->since.mark.n ? r->since.seen : moment(&r->since, rec) >= r->since.ns;
}

static bool range_part(void *ctx, struct etl_walk *w, const struct etl_walk_record *rec,
                       int64_t *late_ns)
{
    struct etl_range *r = ctx;
    bool takes = etl_range_takes(r, w, rec);
    const struct etl_range_time *t = takes ? &r->since : &r->until;

    if (t->given && !t->mark.n) {
        *late_ns = clk_sub(moment(t, rec), t->ns);
    } else if (t->mark.n && !takes) { /* the mark was the last one */
        *late_ns = clk_sub(rec->raw->wall_ns, w->reached_ns);
    }
    return takes;
}

void etl_range_limit(struct etl_range *r, struct etl_walk_conf *conf)
{
    etl_range_begin(r);
    if (r->since.given || r->until.given) {
        conf->part = range_part;
        conf->part_ctx = r;
        conf->names |= r->since.mark.n || r->until.mark.n; /* those of providers */
    }
}

bool etl_range_lived(const struct etl_range *r, const struct etl_walk *w, const struct instance *p)
{
    int64_t begin = p->info.have & INFO_CREATE_TIME ? p->info.create_ns : p->life.first_wall_ns;

    if (!r->since.given && !r->until.given) {
        return true;
    }
    return w->in_part && begin <= w->reached_ns &&
           (!(p->info.have & INFO_EXITED) || p->info.exit_ns >= w->part_from_ns);
}

bool etl_range_process(const struct etl_range *r, uint32_t pid, const struct instance *p)
{
    if (r->by_pid && pid != r->pid) {
        return false;
    }
    return !r->name.n || (p && glob_match(r->name, p->info.name));
}

/* -- marks -- */

static bool is_own_mark(struct etl_walk *w, const struct raw_event *raw)
{
    struct described is;

    if (!w->describe || raw->form != RAW_MANIFEST || !raw->ext_n) {
        return false;
    }
    describe_name(w->describe, raw, &is);
    return str_eq(is.provider, str_make("procfleet")) && str_eq(is.name, str_make("Mark"));
}

bool etl_range_mark(struct etl_walk *w, const struct raw_event *raw, struct str *text)
{
    static const uint8_t perf_info[16] = ETW_CLASS_PERF_INFO;
    static struct etl_fields fields; /* one walk at a time */

    if (raw->form == RAW_CLASSIC && raw->opcode == MARK_OPCODE &&
        memcmp(raw->guid, perf_info, sizeof perf_info) == 0) {
        const uint8_t *nul = raw->payload_n ? memchr(raw->payload, 0, raw->payload_n) : NULL;

        *text = (struct str){(const char *)raw->payload,
                             nul ? (size_t)(nul - raw->payload) : raw->payload_n};
        return true;
    }
    if (!is_own_mark(w, raw) || etl_fields_read(&fields, w, raw) != ERR_OK) {
        return false;
    }
    *text = etl_fields_text(&fields, "text");
    return true;
}
