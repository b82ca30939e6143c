#include "agent/etl/etl_job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/os/os.h"

static enum err add_manifests(struct etl_job *job, struct errmsg *why)
{
    const char *paths[OPT_MANY_MAX];
    size_t n = opt_values(job->args, "manifests", paths, OPT_MANY_MAX);
    enum err e = n ? manifest_files_create(&job->schemas.manifests) : ERR_OK;

    for (size_t i = 0; i < n && !e; i++) {
        e = manifest_files_add(job->schemas.manifests, "--manifests", paths[i], why);
    }
    if (e) { /* why is said once */
        manifest_files_destroy(job->schemas.manifests);
        job->schemas.manifests = NULL;
    }
    return e;
}

/* Not one of rows. */
static bool is_other(struct etl_job *job, const struct etl_command *command, const char *format)
{
    for (size_t i = 0; command->formats && command->formats[i]; i++) {
        if (strcmp(format, command->formats[i]) == 0) {
            job->other = i + 1;
            return true;
        }
    }
    return false;
}

enum err etl_job_begin(struct etl_job *job, const struct opt_args *args,
                       const struct etl_command *command, struct errmsg *why)
{
    static const char *const names[] = {"table", "json", "csv", "jsonl"};
    const char *format = opt_value(args, "format");
    bool found = format == NULL;
    char **files;

    job->args = args;
    job->out = stdout;
    job->out_terminal = os_is_terminal(1);
    job->n_files = opt_operands(args, &files);
    job->files = (const char *const *)files;
    job->merge = opt_flag(args, "merge");
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) {
        found = strcmp(format, names[i]) == 0;
        job->format = found ? (enum table_format)i : job->format;
    }
    if (!found && !is_other(job, command, format)) {
        return errmsg_set(why, ERR_USAGE, "--format: '%s' is not table, json, jsonl or csv%s",
                          format, command->formats ? ", nor one of those --help shows" : "");
    }
    if (job->n_files == 0 && !job->no_files) {
        return errmsg_set(why, ERR_USAGE, "no FILE given; --help shows examples");
    }
    if (job->merge && job->n_files > ETL_WALK_FILES_MAX) {
        return errmsg_set(why, ERR_USAGE, "--merge takes at most %d files", ETL_WALK_FILES_MAX);
    }
    return job->no_files ? ERR_OK : add_manifests(job, why);
}

static void say_manifests(const struct manifest_files *manifests)
{
    struct manifest_files_counts n;

    manifest_files_stats(manifests, &n);
    if (n.damaged) {
        fprintf(stderr, "procfleet-etl: --manifests: %llu damaged: what they say is left out\n",
                (unsigned long long)n.damaged);
    }
    if (n.no_room) {
        fprintf(stderr, "procfleet-etl: --manifests: %llu files or providers had no room\n",
                (unsigned long long)n.no_room);
    }
}

void etl_job_end(struct etl_job *job)
{
    if (job->schemas.manifests) {
        say_manifests(job->schemas.manifests);
    }
    manifest_files_destroy(job->schemas.manifests);
}

size_t etl_job_parts(const struct etl_job *job)
{
    return job->merge ? 1 : job->n_files;
}

const char *etl_job_part_name(const struct etl_job *job, size_t i)
{
    return job->files[i];
}

static enum err end_listing(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return ERR_END;
}

/* What cannot be a trace file, with a better error than its bytes would give. */
static enum err check_path(const char *path, struct errmsg *why)
{
    enum err e;

    if (strcmp(path, "-") == 0) {
        return errmsg_set(why, ERR_USAGE,
                          "standard input cannot be read as a trace, which is read at many places; "
                          "give a file");
    }
    e = os_list_dir(path, end_listing, NULL);
    if (e == ERR_OK || e == ERR_END) {
        return errmsg_set(why, ERR_USAGE, "%s is a directory; give trace files, such as %s/*.etl",
                          path, path);
    }
    return ERR_OK;
}

static void note_failure(struct etl_job *job, enum err e, const struct errmsg *why)
{
    fflush(job->out);
    fprintf(stderr, "procfleet-etl: %s\n", why->text);
    job->failed = job->failed ? job->failed : e;
}

enum err etl_job_open(struct etl_job *job, size_t i, struct etl_walk_conf *conf,
                      struct etl_walk **out)
{
    struct errmsg why = {""};
    enum err e = ERR_OK;

    conf->paths = &job->files[job->merge ? 0 : i];
    conf->n_paths = job->merge ? job->n_files : 1;
    conf->stopped = job->stopped;
    conf->schemas = &job->schemas;
    for (size_t k = 0; k < conf->n_paths && !e; k++) {
        e = check_path(conf->paths[k], &why);
    }
    if (!e) {
        e = etl_walk_open(out, conf, &why);
    }
    if (e) {
        note_failure(job, e, &why);
    }
    return e;
}

/* Whoever had no room in the tables of all commands; once, also where a command walks twice. */
static void say_full(struct etl_job *job, const struct etl_walk *w)
{
    const struct instances_stats *s = instances_stats(w->table);

    if ((s->full || s->threads_full || s->text_full) && job->full != w->conf.paths[0]) {
        job->full = w->conf.paths[0];
        fflush(job->out);
        fprintf(stderr,
                "procfleet-etl: %s: %llu processes, %llu threads and %llu texts of processes had "
                "no room: figures of them are missing\n",
                w->conf.paths[0], (unsigned long long)s->full, (unsigned long long)s->threads_full,
                (unsigned long long)s->text_full);
    }
}

bool etl_job_walk(struct etl_job *job, struct etl_walk *w)
{
    struct errmsg why = {""};
    enum err e = etl_walk_run(w, &why);

    say_full(job, w);

    if (e == ERR_CLOSED) {
        char text[CLK_TEXT];

        job->partial = true;
        fprintf(stderr, "procfleet-etl: stopped; what is shown ends at %s\n",
                clk_format_utc(text, sizeof text, w->reached_ns, 3));
    } else if (e) {
        note_failure(job, e, &why);
    }
    return e == ERR_OK;
}

enum err etl_job_table(const struct etl_job *job, struct table **out, enum table_format format,
                       const struct table_column *columns, size_t n, const char *const *yields)
{
    enum err e = table_begin(out, job->out, format, false, columns, n);

    if (!e) {
        table_fit(*out, yields, opt_flag(job->args, "wide"));
    }
    return e;
}

bool etl_job_out_ok(struct etl_job *job)
{
    if (!job->out_failed && ferror(job->out)) {
        job->out_failed = true;
        job->out_errno = errno;
    }
    return !job->out_failed;
}

/* Objects as CSV: file, path of a value, value. */
struct job_leaves {
    struct jsonw_leaves all;
    struct table *sheet;
    const char *file;
    enum err failed;
};

static void on_leaf(void *ctx, struct str path, struct str value)
{
    struct job_leaves *l = ctx;
    const struct table_cell cells[] = {table_string(str_make(l->file)), table_string(path),
                                       table_string(value)};

    l->failed = l->failed ? l->failed : table_row(l->sheet, cells);
}

typedef enum err (*object_fn)(struct etl_job *job, size_t part, struct jsonw *j);

static enum err objects_csv(struct etl_job *job, object_fn print)
{
    struct table_column columns[] = {{etl_job_parts(job) > 1 ? "file" : NULL, NULL, TABLE_TEXT},
                                     {"key", NULL, TABLE_TEXT},
                                     {"value", NULL, TABLE_TEXT}};
    struct job_leaves l = {.all = {.leaf = on_leaf, .ctx = &l}};
    enum err e = table_begin(&l.sheet, job->out, TABLE_AS_CSV, false, columns, 3);
    struct jsonw j;

    if (e) {
        return e;
    }
    buf_init(&l.all.path, 1u << 20);
    for (size_t i = 0; i < etl_job_parts(job) && !e && !job->partial && etl_job_out_ok(job); i++) {
        l.file = etl_job_part_name(job, i);
        jsonw_init_leaves(&j, &l.all);
        e = print(job, i, &j);
        e = e ? e : l.all.path.bad ? l.all.path.bad : l.failed;
    }
    buf_fini(&l.all.path);
    table_end(l.sheet);
    return e;
}

static enum err objects_text(struct etl_job *job, unsigned pretty, object_fn print)
{
    bool array = job->format == TABLE_AS_JSON && etl_job_parts(job) > 1;
    enum err e = ERR_OK;
    struct jsonw j;

    jsonw_init(&j, job->out, job->format != TABLE_AS_JSON ? 0 : array ? pretty + 1 : pretty);
    if (array) {
        jsonw_array(&j, NULL);
    }
    for (size_t i = 0; i < etl_job_parts(job) && !e && !job->partial && etl_job_out_ok(job); i++) {
        if (i && job->format == TABLE_AS_TABLE) {
            fputs("\n", job->out);
        }
        e = print(job, i, &j);
    }
    if (array) {
        jsonw_end(&j);
        fputs("\n", job->out);
    }
    return e;
}

enum err etl_job_objects(struct etl_job *job, const char *what, unsigned pretty, object_fn print,
                         struct errmsg *why)
{
    enum err e =
        job->format == TABLE_AS_CSV ? objects_csv(job, print) : objects_text(job, pretty, print);

    return e ? errmsg_set(why, e, "cannot make %s: %s", what, err_text(e)) : ERR_OK;
}

enum err etl_job_rows(struct etl_job *job, const struct etl_job_list *list, struct errmsg *why)
{
    struct table_column columns[TABLE_COLUMNS];
    struct table *sheet;
    uint64_t limit, more;
    enum err e = etl_job_number(job, "limit", UINT64_MAX, &limit, why);

    if (e) {
        return e;
    }
    memcpy(columns, list->columns, list->n * sizeof *columns);
    columns[0].title = etl_job_parts(job) > 1 ? columns[0].title : NULL;
    e = etl_job_table(job, &sheet, job->format, columns, list->n, list->yields);
    if (!e) {
        for (size_t i = 0; i < etl_job_parts(job) && !e && !job->partial && etl_job_out_ok(job);
             i++) {
            (void)table_limit(sheet, limit);
            e = list->part(job, i, sheet, list->ctx);
            more = table_limit(sheet, limit);
            if (more) {
                etl_job_note(sheet, etl_job_part_name(job, i), "%llu further rows (--limit)",
                             (unsigned long long)more);
            }
        }
        table_end(sheet);
    }
    return e ? errmsg_set(why, e, "cannot list %s: %s", list->what, err_text(e)) : ERR_OK;
}

void etl_job_note(struct table *sheet, const char *file, const char *fmt, ...)
{
    char text[600];
    int n = snprintf(text, sizeof text, "%.200s: ", file);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    table_note(sheet, str_make(text));
}

enum err etl_job_id(const struct etl_job *job, const char *option, bool *given, uint32_t *out,
                    struct errmsg *why)
{
    const char *text = opt_value(job->args, option);
    uint64_t n;

    *given = text != NULL;
    if (!text) {
        return ERR_OK;
    }
    if (opt_number(&n, text, UINT32_MAX - 1) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE, "--%s: '%s' is not a number of 32 bits", option, text);
    }
    *out = (uint32_t)n;
    return ERR_OK;
}

enum err etl_job_dirs(const struct etl_job *job, const char *option, const char **dirs, size_t *n,
                      struct errmsg *why)
{
    *n = opt_values(job->args, option, dirs, OPT_MANY_MAX);
    for (size_t i = 0; i < *n; i++) {
        enum err e = os_list_dir(dirs[i], end_listing, NULL);

        if (e && e != ERR_END) {
            return errmsg_set(why, ERR_USAGE, "--%s: %s is no directory that can be read", option,
                              dirs[i]);
        }
    }
    return ERR_OK;
}

bool etl_job_is_stdout(const char *path)
{
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 ||
           strcmp(path, "/dev/fd/1") == 0 || strcmp(path, "/proc/self/fd/1") == 0;
}

/* Whether a recording is there, by whichever name: an .xz, or a buffer's header and behind it a
 * record of 32 or 64 bits that is the log's (no text has byte 0xc0). */
static bool is_recording(const char *path)
{
    static const uint8_t xz[6] = {0xfd, '7', 'z', 'X', 'Z', 0};
    FILE *f = os_is_file(path) ? os_fopen(path, "rb") : NULL;
    uint8_t head[80];
    size_t n = f ? fread(head, 1, sizeof head, f) : 0;

    if (f) {
        (void)fclose(f);
    }
    return (n >= sizeof xz && memcmp(head, xz, sizeof xz) == 0) ||
           (n == sizeof head && (head[74] == 1 || head[74] == 2) && head[75] == 0xc0 &&
            head[78] == 0 && head[79] == 0);
}

enum err etl_job_output(struct etl_job *job, struct errmsg *why)
{
    const char *path = opt_value(job->args, "output");

    path = path && etl_job_is_stdout(path) ? NULL : path;
    if (path && is_recording(path)) {
        return errmsg_set(why, ERR_USAGE, "--output: %s is a recording: it is not replaced", path);
    }
    if (path) {
        job->out = os_fopen(path, "wb");
        job->out_terminal = false;
        if (!job->out) {
            job->out = stdout;
            return errmsg_set(why, ERR_IO, "%s cannot be written", path);
        }
    }
    return ERR_OK;
}

enum err etl_job_number(const struct etl_job *job, const char *option, uint64_t def, uint64_t *out,
                        struct errmsg *why)
{
    const char *text = opt_value(job->args, option);

    *out = def;
    if (text && opt_number(out, text, UINT64_MAX) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE, "--%s: '%s' is not a number", option, text);
    }
    return ERR_OK;
}
