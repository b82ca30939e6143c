/* Decoders against what Microsoft's TraceEvent made of the same four recordings. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/decode.h"
#include "agent/source/etl_file.h"
#include "common/clk.h"
#include "tests/support/corpus.h"

#define PATH_BYTES   1024
#define LINE_BYTES   4096
#define SHOWN_CHARS  20 /* TraceEvent cuts longer texts and writes "..." */
#define TOLERANCE_NS 1000

struct record {
    int64_t ns; /* since the first */
    uint16_t cpu;
    size_t payload_n;
    bool process; /* the members below are valid */
    uint8_t opcode;
    struct proc_info info; /* texts are not kept */
    uint64_t key;
    char name[64], command_line[SHOWN_CHARS + 1];
    size_t command_line_n;
};

struct seen {
    struct decode *decode;
    struct record *records;
    size_t n, cap;
    int64_t first_ns;
};

static void copy_start(char *out, size_t size, struct str s)
{
    size_t n = s.n < size - 1 ? s.n : size - 1;

    memcpy(out, s.p ? s.p : "", n);
    out[n] = 0;
}

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct seen *s = ctx;
    struct record *r;
    struct event ev;

    if (raw->early) {
        return;
    }
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4096;
        s->records = realloc(s->records, s->cap * sizeof *s->records);
        assert_non_null(s->records);
    }
    s->first_ns = s->n ? s->first_ns : raw->wall_ns;
    r = &s->records[s->n++];
    *r = (struct record){
        .ns = raw->wall_ns - s->first_ns, .cpu = raw->cpu, .payload_n = raw->payload_n};
    if (decode_event(s->decode, raw, &ev) == ERR_OK && ev.kind <= EV_PROC_DEFUNCT) {
        r->process = true;
        r->opcode = raw->opcode;
        r->info = ev.u.proc.info;
        r->key = ev.u.proc.key;
        copy_start(r->name, sizeof r->name, ev.u.proc.info.name);
        copy_start(r->command_line, sizeof r->command_line, ev.u.proc.info.command_line);
        r->command_line_n = ev.u.proc.info.command_line.n;
    }
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    (void)ctx;
    (void)wall_ns;
    (void)mono_ns;
}

static void collect(struct seen *s, const char *name)
{
    char path[PATH_BYTES];
    const char *paths[1] = {corpus_recording(path, sizeof path, name)};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.ctx = s, .raw = on_raw, .advance = on_advance};
    struct source *src;

    memset(s, 0, sizeof *s);
    assert_ok(decode_create(&s->decode));
    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    assert_err(src->ops->run(src), ERR_END);
    src->ops->close(src);
}

/* "name=1,234; " as a number; the line has it. */
static long long field(const char *line, const char *name)
{
    char key[64], digits[32];
    const char *p;
    size_t n = 0;

    (void)snprintf(key, sizeof key, " %s=", name);
    p = strstr(line, key);
    assert_non_null(p);
    for (p += strlen(key); *p && *p != ';' && n < sizeof digits - 1; p++) {
        if (*p != ',') {
            digits[n++] = *p;
        }
    }
    digits[n] = 0;
    return strncmp(digits, "0x", 2) == 0 ? (long long)strtoull(digits, NULL, 16)
                                         : strtoll(digits, NULL, 10);
}

static void assert_text_field(const char *line, const char *name, const char *start, size_t n)
{
    char expected[128];

    (void)snprintf(expected, sizeof expected, " %s=%.*s%s;", name, SHOWN_CHARS, start,
                   n > SHOWN_CHARS ? "..." : "");
    assert_non_null(strstr(line, expected));
}

static int64_t time_of(const char *line)
{
    char digits[32];
    size_t n = 0;

    for (const char *p = line + strlen("EVENT "); *p && *p != ':' && n < sizeof digits - 1; p++) {
        if (*p != ',' && *p != ' ') {
            digits[n++] = *p;
        }
    }
    digits[n] = 0;
    return (int64_t)(strtod(digits, NULL) * 1e6 + 0.5);
}

static uint8_t process_opcode(const char *line)
{
    static const struct {
        const char *text;
        uint8_t opcode;
    } rows[] = {
        {"Windows Kernel/Process/Start ", 1},    {"Windows Kernel/Process/Stop ", 2},
        {"Windows Kernel/Process/DCStart ", 3},  {"Windows Kernel/Process/DCStop ", 4},
        {"Windows Kernel/Process/Defunct ", 39},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strstr(line, rows[i].text)) {
            return rows[i].opcode;
        }
    }
    return 0;
}

static const struct record *find(const struct seen *s, const char *line)
{
    int64_t ns = time_of(line);
    long long cpu = field(line, "ProceNum"), n = field(line, "DataLen");
    uint8_t opcode = process_opcode(line);

    for (size_t i = 0; i < s->n; i++) {
        const struct record *r = &s->records[i];

        if (llabs(r->ns - ns) <= TOLERANCE_NS && r->cpu == cpu && (long long)r->payload_n == n &&
            (!opcode ||
             (r->process && r->opcode == opcode && r->info.id.pid == field(line, "ProcessID")))) {
            return r;
        }
    }
    print_message("no record for: %.300s\n", line);
    return NULL;
}

static void check_process(const struct record *r, const char *line)
{
    assert_int_equal(r->info.parent_pid, field(line, "ParentID"));
    assert_int_equal(r->key, field(line, "UniqueProcessKey"));
    assert_int_equal(r->info.have & INFO_SESSION ? (int)r->info.session_id : -1,
                     field(line, "SessionID"));
    assert_text_field(line, "ImageFileName", r->name, strlen(r->name));
    assert_text_field(line, "CommandLine", r->command_line, r->command_line_n);
    if (r->opcode == 2) {
        assert_int_equal(r->info.exit_code, field(line, "ExitStatus"));
    }
}

static void every_line_of_traceevent_has_its_record(void **state)
{
    static const struct {
        const char *name;
        int lines, processes;
    } rows[] = {
        {"net.4.5.2.x64", 480, 14},
        {"net.4.5.x86-win7", 495, 14},
        {"gcevents", 52, 0},
        {"primitive-types", 6, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char name[128], path[PATH_BYTES], line[LINE_BYTES];
        int lines = 0, processes = 0;
        struct seen s;
        FILE *f;

        collect(&s, rows[i].name);
        (void)snprintf(name, sizeof name, "public/%s.baseline.txt", rows[i].name);
        f = fopen(corpus_path(path, sizeof path, name), "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f)) {
            const struct record *r;

            if (strncmp(line, "EVENT ", 6) != 0) {
                continue;
            }
            r = find(&s, line);
            assert_non_null(r);
            lines++;
            if (r->process && process_opcode(line)) {
                check_process(r, line);
                processes++;
            }
        }
        (void)fclose(f);
        assert_int_equal(lines, rows[i].lines);
        assert_int_equal(processes, rows[i].processes);
        decode_destroy(s.decode);
        free(s.records);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_of_traceevent_has_its_record),
    };

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
