#include "agent/pipeline_ledger.h"

/* What the platform denied, or what died while being read, is absent from its row and no loss. */
size_t pipeline_ledger(const struct monitor_stats *s, struct ledger_row *rows, size_t max)
{
    const struct {
        const char *stage, *reason;
        uint64_t count;
    } all[] = {
        {"source", "in", s->source.in + s->source.facts},
        {"source", "out", s->events},
        {"source", "held", s->source.held},
        {"source", "skipped", s->source.skipped},
        {"source", "ring_full", s->source.ring_full},
        {"source", "lost_events", s->source.lost_events},
        {"source", "lost_buffers", s->source.lost_buffers},
        {"source", "damaged", s->source.damaged},
        {"table", "in", s->source.rows},
        {"table", "out", s->table_rows},
        {"table", "ended", s->source.ended},
        {"table", "capped", s->source.capped},
        {"table", "late", s->source.late},
        {"decode", "in", s->decode.in},
        {"decode", "out", s->decode.decoded},
        {"decode", "unknown", s->decode.unknown},
        {"decode", "filtered", s->decode.ignored},
        {"decode", "short", s->decode.corrupt},
        {"forward", "in", s->forward.in},
        {"forward", "out", s->forward.out},
        {"forward", "rate", s->forward.rate},
        {"forward", "size", s->forward.size},
        {"forward", "filtered", s->forward.filtered},
        {"forward", "no_schema", s->forward.no_schema},
        {"forward", "held", s->forward.held},
        {"forward", "undecodable", s->forward.undecodable},
        {"forward", "refused", s->forward.refused},
        {"forward", "unknown", s->forward.unknown},
        {"aggregate", "in", s->aggregate.events},
        {"aggregate", "out", s->aggregate.charged},
        {"aggregate", "no_process", s->aggregate.events - s->aggregate.charged},
        {"aggregate", "lost_marks", s->aggregate.lost_marks},
        {"aggregate", "disk_unmatched", s->aggregate.disk_unmatched},
        {"instances", "in", s->instances.instances},
        {"instances", "out", s->instances.forgotten},
        {"instances", "held", s->instances.running + s->instances.ended},
        {"instances", "unattributed", s->lifecycle.no_owner},
        {"instances", "full", s->instances.full},
        {"instances", "threads_full", s->instances.threads_full},
        {"instances", "text_full", s->instances.text_full},
        {"instances", "no_memory", s->instances.nomem},
        {"lifecycle", "unpaired", s->lifecycle.unpaired},
        {"sampler", "in", s->sampler.due},
        {"sampler", "out", s->sampler.rows},
        {"sampler", "filtered", s->sampler.filtered},
        {"sampler", "capped", s->sampler.capped},
        {"sampler", "no_memory", s->sampler.nomem},
        {"filter", "filtered", s->filtered},
        {"level", "up_quiet", s->level_steps[LEVEL_CAUSE_QUIET]},
        {"level", "down_loss", s->level_steps[LEVEL_CAUSE_LOSS]},
        {"level", "down_cpu", s->level_steps[LEVEL_CAUSE_CPU]},
        {"level", "down_memory", s->level_steps[LEVEL_CAUSE_MEMORY]},
        {"level", "down_ring", s->level_steps[LEVEL_CAUSE_RING]},
        {"level", "down_events", s->level_steps[LEVEL_CAUSE_EVENTS]},
        {"level", "request", s->level_steps[LEVEL_CAUSE_REQUEST]},
        {"level", "request_over", s->level_steps[LEVEL_CAUSE_REQUEST_OVER]},
    };
    size_t n = sizeof all / sizeof *all;

    n = n < max ? n : max;
    for (size_t i = 0; i < n; i++) {
        rows[i] =
            (struct ledger_row){str_make(all[i].stage), str_make(all[i].reason), all[i].count};
    }
    return n;
}
