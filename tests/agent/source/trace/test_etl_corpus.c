/* Every real recording of the corpus, read and decoded, against figures that were computed
 * independently: structure, records by kind, processes with all their attributes. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/source/trace/etl_census.h"
#include "agent/source/trace/etl_file.h"
#include "agent/source/trace/etl_merge.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/corpus.h"
#include "tests/support/support.h"

#define PATH_BYTES     1024
#define PROCESSES_MAX  1024
#define SEEN_MAX       64
#define NO_EXIT_STATUS INT32_MIN

struct proc {
    uint32_t pid, ppid, session;
    char image[256], command_line[4200], sid[256];
    uint8_t version;
    uint8_t seen[SEEN_MAX]; /* opcodes in order of time */
    size_t n_seen;
    int64_t start_ns, stop_ns; /* 0 = none */
    uint32_t creator_pid;
    int64_t exit_status;
    bool ended;
};

struct seen {
    struct decode *decode;
    const char *name;
    json_t *by_event, *started, *ended, *rundown, *loads, *images;
    uint64_t kinds[EV_KIND_COUNT];
    uint64_t records, early, idle, idle_interrupted;
    int64_t first_ns, last_ns, latest_advance_ns;
    struct proc *procs;
    size_t n_procs;
};

static void bump(json_t *counts, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(counts, key));

    assert_int_equal(json_object_set_new(counts, key, json_integer(n + 1)), 0);
}

static void bump_pid(json_t *counts, uint32_t pid)
{
    char key[16] = "None";

    if (pid != EVENT_NO_ID) {
        (void)snprintf(key, sizeof key, "%u", pid);
    }
    bump(counts, key);
}

static void event_key(char *text, size_t size, const char *provider, int id, int opcode,
                      int version, const char *kind)
{
    (void)snprintf(text, size, "%s %d %d %d %s", provider, id, opcode, version, kind);
}

static void guid_text(char text[37], const uint8_t g[16])
{
    (void)snprintf(text, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12],
                   g[13], g[14], g[15]);
}

static void count_record(struct seen *s, const struct raw_event *raw)
{
    static const char *const kinds[] = {"classic", "manifest", "wpp"};
    char provider[37], key[128];
    bool message = raw->form == RAW_MESSAGE;

    guid_text(provider, raw->guid);
    event_key(key, sizeof key, provider, raw->form == RAW_CLASSIC ? 0 : raw->id,
              message ? 0 : raw->opcode, message ? 0 : raw->version, kinds[raw->form]);
    bump(s->by_event, key);
    if (s->records++ == 0) {
        s->first_ns = raw->wall_ns;
    }
    assert_true(raw->wall_ns >= s->last_ns);
    assert_int_equal(raw->wall_ns, s->latest_advance_ns);
    s->last_ns = raw->wall_ns;
}

static void copy_text(char *out, size_t size, struct str s)
{
    assert_true(s.n < size);
    memcpy(out, s.p ? s.p : "", s.n);
    out[s.n] = 0;
}

static struct proc *latest(struct seen *s, uint32_t pid)
{
    for (size_t i = s->n_procs; i-- > 0;) {
        if (s->procs[i].pid == pid) {
            return &s->procs[i];
        }
    }
    return NULL;
}

static void take_attributes(struct proc *p, const struct proc_info *info, uint8_t version)
{
    p->ppid = info->parent_pid;
    p->session = info->have & INFO_SESSION ? info->session_id : UINT32_MAX;
    p->version = version;
    copy_text(p->image, sizeof p->image, info->name);
    copy_text(p->sid, sizeof p->sid, info->user);
    copy_text(p->command_line, sizeof p->command_line, info->command_line);
}

/* The instance rule of the corpus. */
static void count_process(struct seen *s, const struct event *ev, const struct raw_event *raw)
{
    const struct proc_info *info = &ev->u.proc.info;
    struct proc *p = latest(s, info->id.pid);

    if (!p || ev->kind == EV_PROC_START || (ev->kind == EV_PROC_FOUND && p->ended)) {
        assert_true(s->n_procs < PROCESSES_MAX);
        p = &s->procs[s->n_procs++];
        p->pid = info->id.pid;
        p->exit_status = NO_EXIT_STATUS;
        take_attributes(p, info, raw->version);
    } else if (ev->kind == EV_PROC_FOUND && p->start_ns == 0) {
        take_attributes(p, info, raw->version);
    } else if (p->command_line[0] == 0) {
        copy_text(p->command_line, sizeof p->command_line, info->command_line);
    }
    assert_true(p->n_seen < SEEN_MAX);
    p->seen[p->n_seen++] = raw->opcode;
    if (ev->kind == EV_PROC_START) {
        assert_int_equal(info->id.start, clk_to_filetime(ev->wall_ns));
        p->start_ns = ev->wall_ns;
        p->creator_pid = ev->pid;
    }
    if (ev->kind == EV_PROC_STOP) {
        p->stop_ns = ev->wall_ns;
        p->exit_status = (int32_t)info->exit_code;
        p->ended = true;
    }
}

static void count_event(struct seen *s, const struct event *ev, const struct raw_event *raw)
{
    s->kinds[ev->kind]++;
    switch (ev->kind) {
    case EV_PROC_START:
    case EV_PROC_STOP:
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
    case EV_PROC_DEFUNCT:
        count_process(s, ev, raw);
        break;
    case EV_THREAD_START:
        bump_pid(s->started, ev->u.thread.pid);
        break;
    case EV_THREAD_STOP:
        bump_pid(s->ended, ev->u.thread.pid);
        break;
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
        bump_pid(s->rundown, ev->u.thread.pid);
        break;
    case EV_IMAGE_LOAD:
        bump_pid(s->loads, ev->u.image.pid);
        break;
    case EV_IMAGE_FOUND:
    case EV_IMAGE_LAST:
        bump_pid(s->images, raw->version == 0 ? EVENT_NO_ID : ev->u.image.pid);
        break;
    case EV_CPU_SAMPLE:
        s->idle += ev->u.sample.tid == 0 && !ev->u.sample.interrupt;
        s->idle_interrupted += ev->u.sample.tid == 0 && ev->u.sample.interrupt;
        break;
    default:
        break;
    }
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct seen *s = ctx;
    struct event ev;

    if (raw->early) {
        assert_int_equal(s->records, 0);
        s->early += raw->form == RAW_CLASSIC;
        return;
    }
    count_record(s, raw);
    if (decode_event(s->decode, raw, &ev) == ERR_OK && raw->form == RAW_CLASSIC) {
        count_event(s, &ev, raw);
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct seen *s = ctx;

    (void)mono_ns;
    assert_true(wall_ns > s->latest_advance_ns);
    s->latest_advance_ns = wall_ns;
}

static void seen_init(struct seen *s, const char *name)
{
    memset(s, 0, sizeof *s);
    s->name = name;
    s->latest_advance_ns = INT64_MIN;
    s->by_event = json_object();
    s->started = json_object();
    s->ended = json_object();
    s->rundown = json_object();
    s->loads = json_object();
    s->images = json_object();
    s->procs = calloc(PROCESSES_MAX, sizeof *s->procs);
    assert_non_null(s->procs);
    assert_ok(decode_create(&s->decode));
}

static void seen_fini(struct seen *s)
{
    json_decref(s->by_event);
    json_decref(s->started);
    json_decref(s->ended);
    json_decref(s->rundown);
    json_decref(s->loads);
    json_decref(s->images);
    free(s->procs);
    decode_destroy(s->decode);
}

static void replay(struct seen *s, struct source_stats *stats)
{
    char path[PATH_BYTES];
    const char *paths[1] = {corpus_recording(path, sizeof path, s->name)};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.ctx = s, .raw = on_raw, .advance = on_advance};
    struct errmsg why = {""};
    struct source *src;

    assert_ok(etl_file_open(&src, &conf, sink, &why));
    assert_err(src->ops->run(src), ERR_END);
    src->ops->stats(src, stats);
    assert_int_equal(src->about.first_wall_ns, s->first_ns);
    src->ops->close(src);
}

static void assert_same_json(const char *name, const char *what, const json_t *got,
                             const json_t *expected)
{
    char *a, *b;

    if (json_equal(got, expected)) {
        return;
    }
    a = json_dumps(got, JSON_SORT_KEYS);
    b = json_dumps(expected, JSON_SORT_KEYS);
    print_message("%s %s: got %.2000s\nexpected %.2000s\n", name, what, a, b);
    free(a);
    free(b);
    fail();
}

/* The list of expected records as an object of the same shape as ours. */
static json_t *expected_by_event(const json_t *figures)
{
    json_t *counts = json_object(), *row;
    char key[128];
    size_t i;

    json_array_foreach(json_object_get(figures, "by_event"), i, row)
    {
        event_key(key, sizeof key, json_string_value(json_object_get(row, "provider")),
                  (int)json_integer_value(json_object_get(row, "id")),
                  (int)json_integer_value(json_object_get(row, "opcode")),
                  (int)json_integer_value(json_object_get(row, "version")),
                  json_string_value(json_object_get(row, "kind")));
        json_object_set(counts, key, json_object_get(row, "count"));
    }
    return counts;
}

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void assert_relms(const json_t *expected, int64_t got_ns)
{
    assert_true(llabs((int64_t)(json_number_value(expected) * 1e6) - got_ns) <= 1000);
}

static void check_kinds(const struct seen *s, const json_t *figures)
{
    static const struct {
        const char *key;
        enum event_kind kind;
    } rows[] = {
        {"process_start", EV_PROC_START},     {"process_end", EV_PROC_STOP},
        {"process_dcstart", EV_PROC_FOUND},   {"process_dcend", EV_PROC_LAST},
        {"process_defunct", EV_PROC_DEFUNCT}, {"thread_start", EV_THREAD_START},
        {"thread_end", EV_THREAD_STOP},       {"thread_dcstart", EV_THREAD_FOUND},
        {"thread_dcend", EV_THREAD_LAST},     {"image_load", EV_IMAGE_LOAD},
        {"image_unload", EV_IMAGE_UNLOAD},    {"image_dcstart", EV_IMAGE_FOUND},
        {"image_dcend", EV_IMAGE_LAST},       {"sample", EV_CPU_SAMPLE},
    };
    const json_t *counts = json_object_get(figures, "kernel_counts");
    uint64_t life = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(s->kinds[rows[i].kind], number(counts, rows[i].key));
        life += rows[i].kind <= EV_THREAD_LAST ? s->kinds[rows[i].kind] : 0;
    }
    assert_int_equal(s->early, life + s->kinds[EV_CPU_SAMPLE_INTERVAL]);
    assert_int_equal(s->idle, number(counts, "sample_tid0_idle"));
    assert_int_equal(s->idle_interrupted, number(counts, "sample_tid0_in_dpc_isr"));
}

static int by_pid_and_start(const void *pa, const void *pb)
{
    const struct proc *a = pa, *b = pb;

    if (a->pid != b->pid) {
        return a->pid < b->pid ? -1 : 1;
    }
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static void check_process(const struct seen *s, const struct proc *p, const json_t *x)
{
    const json_t *seen = json_object_get(x, "seen"), *sid = json_object_get(x, "sid");

    assert_int_equal(p->pid, number(x, "pid"));
    assert_int_equal(p->ppid, number(x, "ppid"));
    assert_int_equal(p->session, number(x, "session"));
    assert_int_equal(p->version, number(x, "version"));
    assert_string_equal(p->image, json_string_value(json_object_get(x, "image")));
    assert_string_equal(p->command_line, json_string_value(json_object_get(x, "cmdline")));
    assert_string_equal(p->sid, json_is_string(sid) ? json_string_value(sid) : "");
    assert_int_equal(p->n_seen, json_array_size(seen));
    for (size_t i = 0; i < p->n_seen; i++) {
        assert_int_equal(p->seen[i], json_integer_value(json_array_get(seen, i)));
    }
    assert_int_equal(p->start_ns != 0, json_object_get(x, "start") != NULL);
    assert_int_equal(p->ended, json_object_get(x, "stop") != NULL);
    if (p->start_ns) {
        assert_int_equal(clk_to_filetime(p->start_ns), number(x, "start"));
        assert_int_equal(p->creator_pid, number(x, "creator_pid"));
        assert_relms(json_object_get(x, "start_relms"), p->start_ns - s->first_ns);
    }
    if (p->ended) {
        assert_int_equal(clk_to_filetime(p->stop_ns), number(x, "stop"));
        assert_int_equal(p->exit_status, number(x, "exit_status"));
    }
}

static void check_lives(struct seen *s, const json_t *figures)
{
    const json_t *expected = json_object_get(figures, "processes");
    const json_t *threads = json_object_get(figures, "threads");

    qsort(s->procs, s->n_procs, sizeof *s->procs, by_pid_and_start);
    assert_int_equal(s->n_procs, json_array_size(expected));
    for (size_t i = 0; i < s->n_procs; i++) {
        check_process(s, &s->procs[i], json_array_get(expected, i));
    }
    assert_same_json(s->name, "started", s->started, json_object_get(threads, "started_by_pid"));
    assert_same_json(s->name, "ended", s->ended, json_object_get(threads, "ended_by_pid"));
    assert_same_json(s->name, "rundown", s->rundown, json_object_get(threads, "rundown_by_pid"));
    assert_same_json(s->name, "loads", s->loads, json_object_get(figures, "image_loads_by_pid"));
    assert_same_json(s->name, "images", s->images,
                     json_object_get(figures, "image_rundown_by_pid"));
}

/* The synthetic files replay payloads of 64-bit systems under 32-bit headers, and account ids that
 * no kernel writes, on purpose: there is no truth to be found in such fields. */
static bool fields_are_true(const char *name)
{
    return strncmp(name, "sawbuck/", 8) != 0 || !strstr(name, "_64_");
}

static bool accounts_are_true(const char *name)
{
    return strncmp(name, "sawbuck/process", 15) != 0;
}

static void replays_as_expected(const char *name, const json_t *figures)
{
    struct source_stats stats;
    struct decode_counts decoded;
    json_t *by_event = expected_by_event(figures);
    struct seen s;

    seen_init(&s, name);
    replay(&s, &stats);
    assert_int_equal(s.records, number(figures, "events_total"));
    assert_int_equal(stats.in, s.records);
    assert_int_equal(stats.damaged, 0);
    assert_int_equal(stats.skipped_bytes, 0);
    assert_int_equal(stats.lost_events, number(json_object_get(figures, "header"), "EventsLost"));
    assert_same_json(name, "by_event", s.by_event, by_event);
    assert_relms(json_object_get(figures, "first_event_relms"), 0);
    assert_relms(json_object_get(figures, "last_event_relms"), s.last_ns - s.first_ns);
    decode_stats(s.decode, &decoded);
    assert_int_equal(decoded.in, s.records);
    assert_int_equal(decoded.decoded + decoded.ignored + decoded.unknown + decoded.corrupt,
                     s.records);
    if (fields_are_true(name)) {
        assert_int_equal(decoded.corrupt, 0);
        check_kinds(&s, figures);
        if (accounts_are_true(name)) {
            check_lives(&s, figures);
        }
    }
    seen_fini(&s);
    json_decref(by_event);
}

static void every_recording_replays_as_expected(void **state)
{
    assert_true(corpus_each(replays_as_expected) >= 56);
}

static const char *type_name(unsigned type)
{
    static const char *const names[ETL_TYPE_COUNT] = {
        [ETL_SYSTEM32] = "SYSTEM32",     [ETL_SYSTEM64] = "SYSTEM64",
        [ETL_COMPACT32] = "COMPACT32",   [ETL_COMPACT64] = "COMPACT64",
        [ETL_FULL32] = "FULL32",         [ETL_FULL64] = "FULL64",
        [ETL_INSTANCE32] = "INSTANCE32", [ETL_INSTANCE64] = "INSTANCE64",
        [ETL_ERROR] = "ERROR",           [ETL_MESSAGE] = "MESSAGE",
        [ETL_PERFINFO32] = "PERFINFO32", [ETL_PERFINFO64] = "PERFINFO64",
        [ETL_EVENT32] = "EVENT32",       [ETL_EVENT64] = "EVENT64",
    };

    return names[type];
}

static uint64_t compressed_buffers;

static void has_the_expected_structure(const char *name, const json_t *figures)
{
    const json_t *buffers = json_object_get(figures, "buffers");
    json_t *types = json_object();
    struct etl_part part = {0};
    struct etl_merge *merge;
    const struct etl_stream *at;
    char path[PATH_BYTES];
    enum err e;

    corpus_recording(path, sizeof path, name);
    assert_ok(etl_input_open(&part.in, path, NULL));
    assert_ok(etl_index_init(&part.index, part.in, path, NULL));
    assert_int_equal(part.index.n_slots, number(buffers, "count"));
    assert_int_equal(part.index.compressed, number(buffers, "compressed"));
    compressed_buffers += part.index.compressed;
    assert_ok(etl_merge_open(&merge, &part, 1));
    while ((e = etl_merge_next(merge, &at)) == ERR_OK) {
        bump(types, type_name(at->peek.type));
    }
    assert_err(e, ERR_END);
    assert_int_equal(etl_merge_damage(merge).damaged, 0); /* each unpacked to its exact size */
    assert_same_json(name, "header types", types, json_object_get(figures, "header_types"));
    etl_merge_close(merge);
    etl_index_fini(&part.index);
    etl_input_close(part.in);
    json_decref(types);
}

static void every_recording_has_the_expected_structure(void **state)
{
    compressed_buffers = 0;
    (void)corpus_each(has_the_expected_structure);
    assert_true(compressed_buffers >= 461); /* more with every new recording */
}

static json_t *header_of(const struct etl_census *c)
{
    char version[32];
    json_t *j;

    (void)snprintf(version, sizeof version, "%u.%u.%u.%u", c->version[0], c->version[1],
                   c->version[2], c->version[3]);
    j = json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "BufferSize",
                  (json_int_t)c->buffer_size, "Version", version, "ProviderVersion",
                  (json_int_t)c->provider_version, "NumberOfProcessors", (json_int_t)c->cpus,
                  "EndTime", (json_int_t)c->end_time, "TimerResolution",
                  (json_int_t)c->timer_resolution, "MaximumFileSize",
                  (json_int_t)c->maximum_file_size, "LogFileMode", (json_int_t)c->mode,
                  "BuffersWritten", (json_int_t)c->buffers_written, "StartBuffers",
                  (json_int_t)c->start_buffers, "PointerSize", (json_int_t)c->pointer_size);
    assert_non_null(j);
    assert_int_equal(
        json_object_update_new(
            j,
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:i, s:I, s:i}", "EventsLost",
                      (json_int_t)c->events_lost, "CpuSpeedMHz", (json_int_t)c->cpu_mhz, "BootTime",
                      (json_int_t)c->boot_time, "PerfFreq", (json_int_t)c->frequency, "StartTime",
                      (json_int_t)c->start_time, "ReservedFlags", (json_int_t)c->clock,
                      "BuffersLost", (json_int_t)c->buffers_lost, "LoggerName", c->session_name,
                      "LogFileName", c->log_file_name, "TimeZoneBias", c->time_zone_bias,
                      "headerTS", (json_int_t)c->header_ticks, "headerBits", c->header_bits)),
        0);
    return j;
}

static json_t *buffers_of(const struct etl_census *c)
{
    json_t *types = json_object(), *flags = json_object(), *cpus = json_array();
    char key[16];

    for (int i = 0; i < ETL_CENSUS_TYPES; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        if (c->types[i]) {
            json_object_set_new(types, key, json_integer((json_int_t)c->types[i]));
        }
    }
    for (size_t i = 0; i < c->n_flags; i++) {
        (void)snprintf(key, sizeof key, "0x%x", c->flags[i].flags);
        json_object_set_new(flags, key, json_integer((json_int_t)c->flags[i].count));
    }
    for (int i = 0; i < ETL_CENSUS_CPUS; i++) {
        if (c->cpus_seen[i / 8] >> i % 8 & 1) {
            json_array_append_new(cpus, json_integer(i));
        }
    }
    return json_pack("{s:I, s:o, s:o, s:I, s:o}", "count", (json_int_t)c->buffers, "types", types,
                     "flags", flags, "compressed", (json_int_t)c->compressed, "cpus_seen", cpus);
}

static void has_the_expected_census(const char *name, const json_t *figures)
{
    char path[PATH_BYTES];
    const char *paths[1] = {corpus_recording(path, sizeof path, name)};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.raw = on_raw, .advance = on_advance};
    struct etl_census c;
    struct source *src;
    json_t *header, *buffers;

    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    assert_ok(etl_file_census(src, 0, &c));
    assert_err(etl_file_census(src, 1, &c), ERR_NOTFOUND);
    src->ops->close(src);
    assert_string_equal(c.path, path);
    assert_true(c.file_bytes > 0);
    assert_int_equal(c.damaged + c.skipped_bytes, 0);
    header = header_of(&c);
    buffers = buffers_of(&c);
    assert_same_json(name, "header", header, json_object_get(figures, "header"));
    assert_same_json(name, "buffers", buffers, json_object_get(figures, "buffers"));
    json_decref(header);
    json_decref(buffers);
}

static void every_recording_has_the_expected_census(void **state)
{
    (void)corpus_each(has_the_expected_census);
}

static void on_early_schema(void *ctx, const struct raw_event *raw)
{
    uint64_t *n = ctx;

    n[!raw->early] += (raw->form == RAW_MANIFEST && raw->id == 0xfffe) ||
                      (raw->header == ETL_FULL64 && raw->guid[0] == 0xc1 && raw->guid[1] == 0xf6 &&
                       (raw->opcode == 32 || raw->opcode == 33));
}

static void no_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void schemas_come_early_where_they_are_asked_for(void **state)
{
    static const struct {
        const char *name;
        uint64_t n;
    } rows[] = {{"monogame", 23}, {"gc-dynamic-events", 49}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int schemas = 0; schemas < 2; schemas++) {
            char path[PATH_BYTES];
            const char *paths[1] = {corpus_recording(path, sizeof path, rows[i].name)};
            struct etl_file_conf conf = {.paths = paths, .n_paths = 1, .schemas = schemas != 0};
            uint64_t n[2] = {0, 0};
            struct source_sink sink = {.ctx = n, .raw = on_early_schema, .advance = no_advance};
            struct source *src;

            assert_ok(etl_file_open(&src, &conf, sink, NULL));
            assert_err(src->ops->run(src), ERR_END);
            src->ops->close(src);
            assert_int_equal(n[0], schemas ? rows[i].n : 0);
            assert_int_equal(n[1], rows[i].n);
        }
    }
}

static void a_cut_or_broken_xz_file_is_refused(void **state)
{
    char dir[256], path[PATH_BYTES], from[PATH_BYTES];
    struct etl_input *in;
    struct errmsg why;
    uint8_t *p;
    size_t n;

    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/cut.etl.xz", dir);
    corpus_recording(from, sizeof from, "attackhost");
    assert_ok(os_read_file(&p, &n, from, 1 << 20));
    for (size_t cut = 6; cut < n; cut += 499) {
        assert_ok(os_write_file(path, p, cut, false));
        assert_err(etl_input_open(&in, path, &why), ERR_CORRUPT);
        assert_non_null(strstr(why.text, "cut.etl.xz"));
    }
    p[n / 2] ^= 1;
    assert_ok(os_write_file(path, p, n, false));
    assert_err(etl_input_open(&in, path, &why), ERR_CORRUPT);
    mem_free(p);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recording_replays_as_expected),
        cmocka_unit_test(every_recording_has_the_expected_structure),
        cmocka_unit_test(every_recording_has_the_expected_census),
        cmocka_unit_test(schemas_come_early_where_they_are_asked_for),
        cmocka_unit_test(a_cut_or_broken_xz_file_is_refused),
    };

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
