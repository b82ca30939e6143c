#include "agent/status/status.h"

#include <stdio.h>
#include <string.h>

#include "common/base/plural.h"
#include "common/base/utf8.h"
#include "common/model/ledger.h"
#include "common/text/humanize.h"

static void copy(char *to, size_t size, struct str from)
{
    size_t n = from.n < size ? from.n : utf8_whole(from.p, size - 1);

    if (n > 0) {
        memcpy(to, from.p, n);
    }
    to[n] = '\0';
}

/* -- keeping -- */

void status_keep_note(struct status_keeper *k, const struct life_event *ev)
{
    struct status_note *note = &k->notes[k->n_notes % STATUS_NOTES];

    if (!life_is_of_host(ev->kind)) {
        return;
    }
    note->wall_ns = ev->wall_ns;
    note->level = ev->kind == LIFE_LEVEL;
    copy(note->text, sizeof note->text, ev->text);
    k->n_notes++;
}

static void mark(struct status_keeper *k, int64_t mono_ns)
{
    if (k->n_marks == STATUS_MARKS) {
        memmove(k->marks, k->marks + 1, (STATUS_MARKS - 1) * sizeof *k->marks);
        k->n_marks--;
    }
    k->marks[k->n_marks].mono_ns = mono_ns;
    for (size_t i = 0; i < k->n_rows; i++) {
        k->marks[k->n_marks].counts[i] = k->rows[i].count;
    }
    k->n_marks++;
}

void status_keep_ledger(struct status_keeper *k, int64_t mono_ns, const struct ledger_row *rows,
                        size_t n)
{
    bool first = k->n_marks == 0;

    k->n_rows = n < STATUS_ROWS ? n : STATUS_ROWS;
    if (k->n_rows > 0) {
        memcpy(k->rows, rows, k->n_rows * sizeof *rows);
    }
    if (first || mono_ns - k->marks[k->n_marks - 1].mono_ns >= STATUS_MARK_NS) {
        mark(k, mono_ns);
    }
    if (first) { /* what the first reading has was counted within this hour too */
        memset(k->marks[0].counts, 0, sizeof k->marks[0].counts);
    }
}

void status_keep_cost(struct status_keeper *k, int64_t mono_ns, int64_t cpu_ns, int64_t resident)
{
    int64_t span_ns = k->n_costs ? mono_ns - k->costs[0].mono_ns : 0;

    k->cost.span_ns = span_ns;
    k->cost.memory = (uint64_t)resident;
    if (span_ns > 0) {
        k->cost.cpu_ppm = (uint64_t)((double)(cpu_ns - k->costs[0].cpu_ns) * 1e6 / (double)span_ns);
    }
    if (k->n_costs && mono_ns - k->costs[k->n_costs - 1].mono_ns < STATUS_COST_NS) {
        return;
    }
    if (k->n_costs == STATUS_COSTS) {
        memmove(k->costs, k->costs + 1, (STATUS_COSTS - 1) * sizeof *k->costs);
        k->n_costs--;
    }
    k->costs[k->n_costs].mono_ns = mono_ns;
    k->costs[k->n_costs].cpu_ns = cpu_ns;
    k->n_costs++;
}

static bool is_told(const struct ledger_row *row)
{
    return row->count > 0 && (ledger_is_loss(row) || str_eq(row->stage, str_make("etw")) ||
                              str_eq(row->stage, str_make("level")));
}

void status_keep_read(const struct status_keeper *k, struct status *out)
{
    size_t first = k->n_notes > STATUS_NOTES ? k->n_notes - STATUS_NOTES : 0;

    out->n_notes = 0;
    for (size_t i = first; i < k->n_notes; i++) {
        out->notes[out->n_notes++] = k->notes[i % STATUS_NOTES];
    }
    out->cost = k->cost;
    out->n_losses = 0;
    for (size_t i = 0; i < k->n_rows && out->n_losses < STATUS_LOSSES; i++) {
        const struct ledger_row *row = &k->rows[i];
        struct status_loss *l = &out->losses[out->n_losses];
        uint64_t then = k->n_marks ? k->marks[0].counts[i] : 0;

        if (is_told(row)) {
            copy(l->stage, sizeof l->stage, row->stage);
            copy(l->reason, sizeof l->reason, row->reason);
            l->missing = ledger_is_loss(row);
            l->total = row->count;
            l->hour = row->count - (row->count < then ? 0 : then);
            out->n_losses++;
        }
    }
}

/* -- asking -- */

uint64_t status_lost(const struct status *s, const char *stage, const char *reason)
{
    for (size_t i = 0; i < s->n_losses; i++) {
        if (strcmp(s->losses[i].stage, stage) == 0 && strcmp(s->losses[i].reason, reason) == 0) {
            return s->losses[i].hour;
        }
    }
    return 0;
}

uint64_t status_missing(const struct status *s, bool ever)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->n_losses; i++) {
        if (s->losses[i].missing) {
            n += ever ? s->losses[i].total : s->losses[i].hour;
        }
    }
    return n;
}

uint64_t status_falls(const struct status *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s->n_losses; i++) {
        if (strcmp(s->losses[i].stage, "level") == 0 &&
            strncmp(s->losses[i].reason, "down_", 5) == 0) {
            n += s->losses[i].hour;
        }
    }
    return n;
}

int64_t status_days(const struct status *s, int64_t now_ns)
{
    return clk_sub(s->certificate_end_ns, now_ns) / (24 * 3600 * CLK_S);
}

enum status_life status_life(const struct status *s, bool locked, int64_t now_ns)
{
    if (s->written_ns == 0) {
        return STATUS_NEVER;
    }
    if (locked) {
        return s->running && now_ns - s->written_ns < STATUS_STALE_NS ? STATUS_RUNS : STATUS_SILENT;
    }
    return s->running ? STATUS_KILLED : STATUS_ENDED;
}

static const char *utc(char text[CLK_TEXT], int64_t wall_ns)
{
    return clk_format_utc(text, CLK_TEXT, wall_ns, 0);
}

static void print_certificate(struct buf *out, const struct status *s)
{
    char end[CLK_TEXT], next[CLK_TEXT];

    if (s->certificate_end_ns == 0) {
        return;
    }
    buf_printf(out, "identity  certificate until %s", utc(end, s->certificate_end_ns));
    if (s->written_ns > 0) {
        buf_printf(out, " (%lld days)", (long long)status_days(s, s->written_ns));
    }
    if (s->renew_ns) {
        buf_printf(out, ", to be renewed %s", utc(next, s->renew_ns));
    }
    if (s->renew_why[0]) {
        buf_printf(out, "; %llu %s failed, the last: ", (unsigned long long)s->renew_failed,
                   plural(s->renew_failed, "try", "tries"));
        humanize_text(out, str_make(s->renew_why));
    }
    buf_put_str(out, "\n");
}

void status_print(struct buf *out, const struct status *s)
{
    char when[CLK_TEXT];

    buf_put_str(out, "source    ");
    humanize_text(out, str_make(s->source));
    buf_printf(out, "%s since %s\n", s->polled ? " (polled: short lives are missed)" : "",
               utc(when, s->source_since_ns));
    buf_printf(out, "level     L%u since %s\n", s->level, utc(when, s->level_since_ns));
    if (s->cost.span_ns > 0) {
        buf_printf(out, "cost      %llu.%02llu %% of a core, %llu MiB\n",
                   (unsigned long long)(s->cost.cpu_ppm / 10000),
                   (unsigned long long)(s->cost.cpu_ppm / 100 % 100),
                   (unsigned long long)(s->cost.memory >> 20));
    }
    buf_printf(out, "lost      %llu in the last hour, %llu since %s\n",
               (unsigned long long)status_missing(s, false),
               (unsigned long long)status_missing(s, true), utc(when, s->started_ns));
    buf_put_str(out, "collector ");
    humanize_text(out, str_make(s->uplink));
    buf_printf(out, " since %s, %llu %s", utc(when, s->uplink_since_ns),
               (unsigned long long)s->queue_held,
               plural(s->queue_held, "batch waits", "batches wait"));
    if (s->queue_held > 0) {
        buf_printf(out, " (%llu KiB)", (unsigned long long)(s->queue_bytes >> 10));
    }
    if (s->why[0] && strcmp(s->uplink, "connected") != 0) {
        buf_put_str(out, ": ");
        humanize_text(out, str_make(s->why));
    }
    buf_put_str(out, "\n");
    if (s->aside_held > 0) {
        buf_printf(out, "aside     %llu %s, of which %llu tried again by the agent itself\n",
                   (unsigned long long)s->aside_held, plural(s->aside_held, "batch", "batches"),
                   (unsigned long long)s->aside_broken);
    }
    print_certificate(out, s);
    if (s->n_notes > 0) {
        const struct status_note *note = &s->notes[s->n_notes - 1];

        buf_printf(out, "last      %s %s: ", utc(when, note->wall_ns),
                   note->level ? "level" : "source");
        humanize_text(out, str_make(note->text));
        buf_put_str(out, "\n");
    }
}
