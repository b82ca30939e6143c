#include "common/model/ledger.h"

enum {
    IN = LEDGER_IN,
    OUT = LEDGER_OUT,
    HELD = LEDGER_HELD,
    DROPPED = LEDGER_DROPPED,
    LOST = LEDGER_LOST,
    WHY = LEDGER_WHY,
};

/* A text and its length, which is asked for more often than the text. */
#define T(text)               \
    {                         \
        text, sizeof text - 1 \
    }

static const struct ledger_kind kinds[] = {
    {T("agent"), T("killed"), LOST, LEDGER_TICKS, true, true},
    {T("agent"), T("power_lost"), LOST, LEDGER_TICKS, true, true},
    {T("etw"), T("session_lost"), LOST, LEDGER_TIMES, true, true}, /* unheard until it is back */
    {T("etw"), T(""), WHY, LEDGER_TIMES, false, false},
    {T("snap"), T(""), WHY, LEDGER_TIMES, false, false},
    {T("trust"), T(""), WHY, LEDGER_TIMES, false, false},
    {T("source"), T("in"), IN, LEDGER_EVENTS, false, false},
    {T("source"), T("out"), OUT, LEDGER_EVENTS, false, false},
    {T("source"), T("held"), HELD, LEDGER_EVENTS, false, false},
    {T("source"), T("skipped"), DROPPED, LEDGER_EVENTS, false, false},   /* no decoder */
    {T("source"), T("ring_full"), DROPPED, LEDGER_EVENTS, false, false}, /* reported as lost too */
    {T("source"), T("lost_events"), LOST, LEDGER_EVENTS, true, false},
    {T("source"), T("lost_buffers"), LOST, LEDGER_BUFFERS, true, true},
    {T("source"), T("damaged"), LOST, LEDGER_EVENTS, true, true},
    {T("table"), T("in"), IN, LEDGER_ROWS, false, false},
    {T("table"), T("out"), OUT, LEDGER_ROWS, false, false},
    {T("table"), T("ended"), DROPPED, LEDGER_ROWS, false, false}, /* before the table was done */
    {T("table"), T("capped"), LOST, LEDGER_ROWS, true, false},
    {T("table"), T("late"), LOST, LEDGER_TICKS, false, false}, /* ticks left out */
    {T("decode"), T("in"), IN, LEDGER_EVENTS, false, false},
    {T("decode"), T("out"), OUT, LEDGER_EVENTS, false, false},
    {T("decode"), T("unknown"), DROPPED, LEDGER_EVENTS, false, false},
    {T("decode"), T("filtered"), DROPPED, LEDGER_EVENTS, false, false},
    {T("decode"), T("short"), DROPPED, LEDGER_EVENTS, true, false},
    /* Events of chosen providers. What was refused of them is no loss of anything else, so it makes
     * no other answer partial: who asks for such events is told. */
    {T("forward"), T("in"), IN, LEDGER_EVENTS, false, false},
    {T("forward"), T("out"), OUT, LEDGER_EVENTS, false, false},
    {T("forward"), T("rate"), DROPPED, LEDGER_EVENTS, false, false},
    {T("forward"), T("size"), DROPPED, LEDGER_EVENTS, false, false},
    {T("forward"), T("filtered"), DROPPED, LEDGER_EVENTS, false, false},
    {T("forward"), T("no_schema"), DROPPED, LEDGER_EVENTS, false, false},
    {T("forward"), T("undecodable"), DROPPED, LEDGER_EVENTS, false, false},
    {T("forward"), T("held"), HELD, LEDGER_EVENTS, false, false},
    {T("forward"), T("refused"), DROPPED, LEDGER_EVENTS, false, false}, /* by the collector */
    {T("forward"), T("unknown"), WHY, LEDGER_EVENTS, false, false},
    {T("aggregate"), T("in"), IN, LEDGER_EVENTS, false, false},
    {T("aggregate"), T("out"), OUT, LEDGER_EVENTS, false, false},
    {T("aggregate"), T("no_process"), DROPPED, LEDGER_EVENTS, false, false}, /* of none known */
    {T("aggregate"), T("lost_marks"), WHY, LEDGER_TIMES, false, false},
    {T("aggregate"), T("disk_unmatched"), WHY, LEDGER_EVENTS, false, false},
    {T("instances"), T("in"), IN, LEDGER_TIMES, false, false},
    {T("instances"), T("out"), OUT, LEDGER_TIMES, false, false},
    {T("instances"), T("held"), HELD, LEDGER_TIMES, false, false},
    {T("instances"), T("unattributed"), WHY, LEDGER_EVENTS, false, false},
    {T("instances"), T("full"), LOST, LEDGER_TIMES, true, false},
    {T("instances"), T("threads_full"), LOST, LEDGER_TIMES, true, false},
    {T("instances"), T("text_full"), LOST, LEDGER_TIMES, true, false},
    {T("instances"), T("no_memory"), LOST, LEDGER_TIMES, true, false},
    {T("lifecycle"), T("unpaired"), WHY, LEDGER_EVENTS, false, false}, /* attributes are absent */
    {T("sampler"), T("in"), IN, LEDGER_ROWS, false, false},
    {T("sampler"), T("out"), OUT, LEDGER_ROWS, false, false},
    {T("sampler"), T("filtered"), DROPPED, LEDGER_ROWS, false, false},
    {T("sampler"), T("capped"), DROPPED, LEDGER_ROWS, true, false},
    {T("sampler"), T("no_memory"), DROPPED, LEDGER_ROWS, true, false},
    {T("filter"), T(""), WHY, LEDGER_RECORDS, false, false},
    {T("level"), T(""), WHY, LEDGER_TIMES, false, false},
    {T("batch"), T("in"), IN, LEDGER_RECORDS, false, false},
    {T("batch"), T("out"), OUT, LEDGER_RECORDS, false, false},
    {T("batch"), T("held"), HELD, LEDGER_RECORDS, false, false},
    {T("batch"), T("no_memory"), DROPPED, LEDGER_RECORDS, true, false},
    {T("batch"), T("oversize"), DROPPED, LEDGER_RECORDS, true, false},
    {T("batch"), T("unsent"), DROPPED, LEDGER_RECORDS, true, false}, /* the store had ended */
    {T("batch"), T("text_lost"), LOST, LEDGER_TIMES, true, false},
    {T("batch"), T("batches"), WHY, LEDGER_BATCHES, false, false},
    {T("spool"), T("in"), IN, LEDGER_BATCHES, false, false},
    {T("spool"), T("recovered"), IN, LEDGER_BATCHES, false, false}, /* what the last run left */
    {T("spool"), T("again"), IN, LEDGER_BATCHES, false, false},     /* dead letters */
    {T("spool"), T("out"), OUT, LEDGER_BATCHES, false, false},
    {T("spool"), T("held"), HELD, LEDGER_BATCHES, false, false},
    {T("spool"), T("dropped"), DROPPED, LEDGER_BATCHES, true, true},
    {T("spool"), T("expired"), DROPPED, LEDGER_BATCHES, true, true},
    {T("spool"), T("other_host"), DROPPED, LEDGER_BATCHES, false, false}, /* the next two tell */
    {T("spool"), T("unwritten"), DROPPED, LEDGER_BATCHES, true, true},
    {T("spool"), T("unreadable"), DROPPED, LEDGER_BATCHES, true, true},
    {T("spool"), T("header_damaged"), WHY, LEDGER_TIMES, false, false}, /* its other copy is used */
    {T("spool"), T("forgotten"), LOST, LEDGER_BATCHES, true, true},     /* gone from the disk */
    {T("spool"), T("ticks_dropped"), LOST, LEDGER_TICKS, true, false},
    {T("spool"), T("metrics_dropped"), LOST, LEDGER_ROWS, true, false},
    {T("spool"), T("events_dropped"), LOST, LEDGER_EVENTS, true, false},
    {T("spool"), T("metrics_expired"), LOST, LEDGER_ROWS, true, false},
    {T("spool"), T("events_expired"), LOST, LEDGER_EVENTS, true, false},
    {T("spool"), T("metrics_other_host"), LOST, LEDGER_ROWS, true, false},
    {T("spool"), T("events_other_host"), LOST, LEDGER_EVENTS, true, false},
    {T("spool"), T("metrics_unwritten"), LOST, LEDGER_ROWS, true, false},
    {T("spool"), T("events_unwritten"), LOST, LEDGER_EVENTS, true, false},
    {T("queue"), T("in"), IN, LEDGER_BATCHES, false, false},
    {T("queue"), T("out"), OUT, LEDGER_BATCHES, false, false},
    {T("queue"), T("held"), HELD, LEDGER_BATCHES, false, false},
    {T("queue"), T("oldest_dropped"), DROPPED, LEDGER_BATCHES, true, true},
    {T("queue"), T("refused"), LOST, LEDGER_BATCHES, true, true},
    {T("uplink"), T("in"), IN, LEDGER_BATCHES, false, false},
    {T("uplink"), T("out"), OUT, LEDGER_BATCHES, false, false},
    {T("uplink"), T("held"), HELD, LEDGER_BATCHES, false, false},
    {T("uplink"), T("duplicate"), WHY, LEDGER_BATCHES, false, false},
    {T("uplink"), T("quarantined"), DROPPED, LEDGER_BATCHES, true, false},
    {T("uplink"), T("metrics_quarantined"), LOST, LEDGER_ROWS, true, false},
    {T("uplink"), T("events_quarantined"), LOST, LEDGER_EVENTS, true, false},
    {T("session"), T("in"), IN, LEDGER_BATCHES, false, false},
    {T("session"), T("out"), OUT, LEDGER_BATCHES, false, false},
    {T("session"), T("duplicate"), DROPPED, LEDGER_BATCHES, false, false},
    {T("session"), T("corrupt"), DROPPED, LEDGER_BATCHES, false,
     false}, /* see uplink quarantined */
    {T("session"), T("spoofed"), DROPPED, LEDGER_BATCHES, false, false},
    {T("session"), T("too_old"), DROPPED, LEDGER_BATCHES, false, false},
    {T("session"), T("conflict"), DROPPED, LEDGER_BATCHES, false, false},
    {T("stream"), T("missing"), LOST, LEDGER_BATCHES, true, true}, /* numbers that never came */
    {T("store"), T("in"), IN, LEDGER_BATCHES, false, false},
    {T("store"), T("held"), HELD, LEDGER_BATCHES, false, false},
    {T("store"), T("too_old"), DROPPED, LEDGER_BATCHES, false, false}, /* answers tell of it */
    {T("store"), T("no_room"), DROPPED, LEDGER_BATCHES, false, false}, /* the same */
    {T("store"), T("unreadable"), LOST, LEDGER_TIMES, true, true},
};

static const struct ledger_kind unheard_of = {T(""),         T(""), LEDGER_LOST,
                                              LEDGER_EVENTS, true,  false};

#define KINDS (sizeof kinds / sizeof *kinds)

static bool begins(struct str s, struct str word)
{
    /* "unknown_class" and "unknown class" are kinds of "unknown" */
    return s.n >= word.n && memcmp(s.p, word.p, word.n) == 0 &&
           (s.n == word.n || s.p[word.n] == '_' || s.p[word.n] == ' ');
}

static bool is_it(const struct ledger_kind *k, const struct ledger_row *row)
{
    return str_eq(row->stage, k->stage) && (k->reason.n == 0 || str_eq(row->reason, k->reason));
}

const struct ledger_kind *ledger_kind(const struct ledger_row *row)
{
    const struct ledger_kind *kin = NULL;

    for (const struct ledger_kind *k = kinds; k < kinds + KINDS; k++) {
        if (is_it(k, row)) {
            return k;
        }
        if (!kin && k->role >= LEDGER_DROPPED && str_eq(row->stage, k->stage) &&
            begins(row->reason, k->reason)) {
            kin = k;
        }
    }
    return kin ? kin : &unheard_of;
}

const struct ledger_kind *ledger_kind_after(const struct ledger_kind *before,
                                            const struct ledger_row *row)
{
    if (before && before != &unheard_of) {
        for (const struct ledger_kind *k = before; k < kinds + KINDS; k++) {
            if (is_it(k, row) &&
                k->reason.n > 0) { /* a kind of any reason has exceptions before it */
                return k;
            }
        }
    }
    return ledger_kind(row);
}

bool ledger_is_loss(const struct ledger_row *row)
{
    return ledger_kind(row)->loss;
}

size_t ledger_kinds(const struct ledger_kind **out)
{
    *out = kinds;
    return KINDS;
}

size_t ledger_place(const struct ledger_kind *kind)
{
    return kind == &unheard_of ? KINDS : (size_t)(kind - kinds);
}

uint64_t ledger_add(uint64_t sum, uint64_t count)
{
    return sum < LEDGER_MAX && count <= LEDGER_ROW_MAX && count < LEDGER_MAX - sum ? sum + count
                                                                                   : LEDGER_MAX;
}

uint64_t ledger_sub(uint64_t sum, uint64_t part)
{
    if (!ledger_is_believed(sum)) {
        return LEDGER_MAX;
    }
    return sum > part ? sum - part : 0;
}

bool ledger_is_believed(uint64_t sum)
{
    return sum < LEDGER_MAX;
}

int64_t ledger_balance(const struct ledger_row *rows, size_t n, const char *stage)
{
    uint64_t in = 0, gone = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned role = ledger_kind(&rows[i])->role;

        if (!str_eq(rows[i].stage, str_make(stage))) {
            continue;
        }
        if (role == LEDGER_IN) {
            in = ledger_add(in, rows[i].count);
        } else if (role == LEDGER_OUT || role == LEDGER_HELD || role == LEDGER_DROPPED) {
            gone = ledger_add(gone, rows[i].count);
        }
    }
    return (int64_t)(in - gone);
}

const char *ledger_role_name(unsigned role)
{
    static const char *const names[] = {"in", "out", "held", "dropped", "lost", "why"};

    return role < sizeof names / sizeof *names ? names[role] : "";
}

const char *ledger_unit_name(unsigned unit)
{
    static const char *const names[] = {"events",  "ticks",   "rows", "records",
                                        "batches", "buffers", "times"};

    return unit < sizeof names / sizeof *names ? names[unit] : "";
}
