/* A recording for a while, made by the system itself: two files, which procfleet-etl reads. */
#include "agent/record/record_cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/control/control.h"
#include "agent/record/record_sessions.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/conf/opt_program.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/text/value_text.h"

#define PATH_BYTES 1000
#define FOR_NS     (30 * CLK_S)
#define FOR_MAX_NS (86400 * CLK_S)

enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_PARTIAL = OPT_EXIT_PARTIAL };

static const struct opt opts[] = {
    {"output", 'o', "NAME", "writes NAME.kernel.etl and NAME.user.etl, which may not be there yet",
     false},
    {"profile", 0, "NAME[,NAME...]",
     "what to record: cpu, disk, dotnet, file, general, network; default general", false},
    {"for", 0, "SPAN", "for so long, at most a day, or until Ctrl-C; default 30s", false},
    {"max", 0, "SIZE", "of each file the newest so much, as 512MiB; default all, up to 4GiB",
     false},
    {"ring", 0, "SIZE", "in memory, and only what the last so much held is written, at the end",
     false},
    {"stacks", 0, NULL, "also who called: the stacks of the profile's main events", false},
    {"dry-run", 0, NULL, "only says what would be recorded", false},
    {"end", 0, NULL, "ends a recording that a killed program has left behind", false},
};

const struct opt_command record_cmd_opts = {
    .program = "procfleet-etl",
    .name = "record",
    .brief = "record a Windows trace of this host into files that the other commands read",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-agent record -o slow --profile cpu,disk --for 30s --stacks\n"
                "  procfleet-agent record -o last --profile dotnet --ring 256MiB --for 1h\n"
                "  procfleet-etl summary --merge slow.kernel.etl slow.user.etl\n"
                "\nIt needs an administrator; one recording at a time on a host, beside the agent\n"
                "and others' sessions.\n"
                "Exit codes: 0 done, 1 failed or not possible here, 2 usage, 5 events were lost\n",
};

static int record_fail(enum err e, const char *text)
{
    fprintf(stderr, "procfleet-agent: %s\n", text[0] ? text : err_text(e));
    return e == ERR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

/* -- what is asked for -- */

/* "512MiB" or "1GiB". */
static enum err record_size(uint32_t *mib, const struct opt_args *args, const char *name,
                            uint32_t most, struct errmsg *why)
{
    const char *text = opt_value(args, name);
    unsigned long long n;
    char *end;

    *mib = 0;
    if (!text) {
        return ERR_OK;
    }
    n = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    n = n > most ? UINT32_MAX : n;
    if (n && strcmp(end, "GiB") == 0) {
        n *= 1024;
    } else if (n && strcmp(end, "MiB") != 0) {
        n = 0;
    }
    if (n < 1 || n > most) {
        return errmsg_set(why, ERR_USAGE, "--%s %s: expected 1MiB to %uMiB, or GiB", name, text,
                          (unsigned)most);
    }
    *mib = (uint32_t)n;
    return ERR_OK;
}

static enum err record_profiles(struct record_plan *plan, const char *text, struct errmsg *why)
{
    for (text = text ? text : "general";; text++) {
        size_t n = strcspn(text, ",");

        if (record_profile_add(plan, text, n)) {
            return errmsg_set(why, ERR_USAGE,
                              "--profile: '%.*s' is none of cpu, disk, dotnet, file, general, "
                              "network",
                              (int)(n < 40 ? n : 40), text);
        }
        text += n;
        if (!*text) {
            return ERR_OK;
        }
    }
}

static enum err record_span(int64_t *ns, const char *text, struct errmsg *why)
{
    *ns = FOR_NS;
    if (text && (clk_parse_span(ns, text) || *ns <= 0 || *ns > FOR_MAX_NS)) {
        return errmsg_set(why, ERR_USAGE, "--for %s: expected a time such as 30s, at most a day",
                          text);
    }
    return ERR_OK;
}

static enum err record_name(char path[PATH_BYTES], const char *name, const char *suffix,
                            struct errmsg *why)
{
    int n = snprintf(path, PATH_BYTES, "%s%s", name, suffix);

    if (n < 0 || n >= PATH_BYTES) {
        return errmsg_set(why, ERR_USAGE, "--output: the name is too long");
    }
    return os_exists(path) ? errmsg_set(why, ERR_EXISTS, "%s is there already", path) : ERR_OK;
}

/* -- the plan, in words -- */

static void record_tell_plan(const struct record_plan *plan,
                             struct str (*name)(const uint8_t guid[16]))
{
    char text[UUID_TEXT];
    struct buf flags;

    buf_init(&flags, 4096);
    control_flags_text(&flags, plan->flags);
    printf("kernel    %s\n", buf_cstr(&flags));
    buf_fini(&flags);
    for (size_t i = 0; i < plan->n_stacks; i++) {
        printf("stack     %s (with --stacks)\n", plan->stacks[i].name);
    }
    for (size_t i = 0; i < plan->n_providers; i++) {
        const struct source_provider *p = &plan->providers[i];
        struct str called = name(p->guid);

        printf("provider  %s level %u keywords %#llx %.*s\n", value_text_guid(text, p->guid),
               p->level, (unsigned long long)p->any, (int)called.n, called.p);
    }
    if (plan->clr_rundown) {
        puts("at end    where the methods of .NET lie");
    }
}

/* -- doing it -- */

struct record_clock {
    struct os_mutex *lock; /* guards stopped */
    struct os_cond *news;
    bool stopped;
    int64_t span_ns, took_ns;
};

static void record_stop(void *arg)
{
    struct record_clock *c = arg;

    os_mutex_lock(c->lock);
    c->stopped = true;
    os_cond_wake_all(c->news);
    os_mutex_unlock(c->lock);
}

static void record_wait(void *ctx)
{
    struct record_clock *c = ctx;
    int64_t from_ns = os_mono_ns(), until_ns = from_ns + c->span_ns;

    fprintf(stderr, "recording for %lld s; Ctrl-C ends it sooner\n",
            (long long)((c->span_ns + CLK_S - 1) / CLK_S));
    os_mutex_lock(c->lock);
    while (!c->stopped && os_mono_ns() < until_ns) {
        (void)os_cond_wait_until(c->news, until_ns);
    }
    os_mutex_unlock(c->lock);
    c->took_ns = os_mono_ns() - from_ns;
}

/* The clock lives as long as the program: the signal may come at any time. */
static enum err record_clock(struct record_clock **out, int64_t span_ns, struct errmsg *why)
{
    struct record_clock *c = mem_zalloc(sizeof *c);
    enum err e = c ? os_mutex_create(&c->lock) : ERR_NOMEM;

    e = e ? e : os_cond_create(&c->news, c->lock);
    e = e ? e : os_stop_install(record_stop, c);
    if (e) {
        return errmsg_set(why, e, "cannot wait: %s", err_text(e));
    }
    c->span_ns = span_ns;
    *out = c;
    return ERR_OK;
}

static int record_do(const struct record_plan *plan, struct record_files *files,
                     struct record_clock *clock)
{
    struct record_result result = {.events_lost = 0};
    struct errmsg why = {""};
    enum err e = record_sessions_run(plan, files, record_wait, clock, &result, &why);

    if (e) {
        return record_fail(e, why.text);
    }
    if (result.refused[0]) {
        fprintf(stderr, "procfleet-agent: not recorded: %s\n", result.refused);
    }
    if (result.events_lost || result.buffers_lost) {
        fprintf(stderr,
                "procfleet-agent: %llu events and %llu buffers were lost: the disk, or memory, did "
                "not keep pace\n",
                (unsigned long long)result.events_lost, (unsigned long long)result.buffers_lost);
    }
    if (result.images || result.schemas) {
        fprintf(stderr, "with the identity of %llu loaded modules and the looks of %llu events\n",
                (unsigned long long)result.images, (unsigned long long)result.schemas);
    }
    printf("%s and %s: %.1f s; read them together: procfleet-etl summary --merge %s %s\n",
           files->kernel, files->user, (double)clock->took_ns / CLK_S, files->kernel, files->user);
    return result.events_lost || result.buffers_lost ? EXIT_PARTIAL : EXIT_DONE;
}

static int record_asked(const struct opt_args *args, struct str (*name)(const uint8_t guid[16]))
{
    char kernel[PATH_BYTES], user[PATH_BYTES];
    struct record_files files = {
        .kernel = kernel, .user = user, .stacks = opt_flag(args, "stacks")};
    struct record_plan plan = {.flags = 0};
    struct record_clock *clock = NULL;
    const char *output = opt_value(args, "output");
    struct errmsg why = {""};
    int64_t span_ns;
    enum err e = record_profiles(&plan, opt_value(args, "profile"), &why);

    e = e ? e : record_size(&files.max_mib, args, "max", 1u << 20, &why);
    e = e ? e : record_size(&files.ring_mib, args, "ring", RECORD_RING_MAX, &why);
    e = e ? e : record_span(&span_ns, opt_value(args, "for"), &why);
    if (!e && files.max_mib && files.ring_mib) {
        e = errmsg_set(&why, ERR_USAGE, "--max is of files, --ring of memory: one of them");
    }
    if (!e && opt_flag(args, "dry-run")) {
        record_tell_plan(&plan, name);
        return EXIT_DONE;
    }
    if (!e && !output) {
        e = errmsg_set(&why, ERR_USAGE, "--output NAME is needed; --help shows an example");
    }
    e = e ? e : record_name(kernel, output, ".kernel.etl", &why);
    e = e ? e : record_name(user, output, ".user.etl", &why);
    e = e ? e : record_clock(&clock, span_ns, &why);
    return e ? record_fail(e, why.text) : record_do(&plan, &files, clock);
}

static int record_ended(void)
{
    struct errmsg why = {""};
    enum err e = record_sessions_end(&why);

    return e ? record_fail(e, why.text) : EXIT_DONE;
}

int record_cmd(int argc, char **argv, struct str (*name)(const uint8_t guid[16]))
{
    struct errmsg why = {""};
    struct opt_args *args;
    struct buf page;
    int code = EXIT_DONE;
    enum err e = opt_parse(&args, &record_cmd_opts, argc, argv, &why);

    if (e) {
        return record_fail(ERR_USAGE, why.text);
    }
    if (opt_flag(args, "help")) {
        buf_init(&page, 64u << 10);
        opt_print_help(&page, &record_cmd_opts);
        fputs(buf_cstr(&page), stdout);
        buf_fini(&page);
    } else {
        code = opt_flag(args, "end") ? record_ended() : record_asked(args, name);
    }
    opt_free(args);
    return code;
}
