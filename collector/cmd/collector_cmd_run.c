#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collector/cmd/collector_cmd.h"
#include "collector/collector.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/os/os_notify.h"
#include "common/os/os_owner.h"

static const struct opt options[] = {
    {"config", 'c', "FILE", "YAML file with the settings; see config-sample", false},
    {"set", 's', "KEY=VALUE", "one setting, over the file's", true},
    {"ports-file", 0, "FILE", "write the ports actually bound, once everything listens", false},
};

static int run(const struct opt_args *args);

const struct opt_command cmd_run_options = {
    .program = "procfleet-collector",
    .name = "run",
    .brief = "run the collector until it is told to stop",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
    .sets = cmd_conf_sets,
    .examples =
        "  procfleet-collector run --config /etc/procfleet/collector.yaml\n"
        "  procfleet-collector run --set data_dir=/tmp/fleet --set listen.query=127.0.0.1:0 "
        "\\\n      --ports-file /tmp/fleet/ports\n",
    .action = &(const struct opt_action){.judge = run, .shows_settings = true},
};

#define TRIM_NS (60 * CLK_S) /* what was freed is given back to the system so often */

/* Waits for the stop signal, which arrives on a thread of its own. */
struct waiting {
    struct os_mutex *lock;
    struct os_cond *wake;
    bool stop; /* guarded by lock */
};

static void on_stop(void *arg)
{
    struct waiting *w = arg;

    os_mutex_lock(w->lock);
    w->stop = true;
    os_cond_wake_all(w->wake);
    os_mutex_unlock(w->lock);
}

static enum err ports_write(const struct collector *c, const char *path, struct errmsg *why)
{
    struct collector_ports p = collector_ports(c);
    char text[160];
    int n = snprintf(text, sizeof text,
                     "ingest=%u\nquery=%u\nevents=%u\nenroll=%u\nhttp=%u\nconsole=%u\n", p.ingest,
                     p.query, p.events, p.enroll, p.http, p.console);
    enum err e = os_write_file(path, text, (size_t)n, false);

    return e ? errmsg_set(why, e, "cannot write the ports to %s: %s", path, err_text(e)) : ERR_OK;
}

/* A watchdog hears that we live as long as every part moves. */
static void tell_watchdog(const struct collector *c, int64_t limit_ns, bool *was_stuck)
{
    const char *what;
    int64_t stuck_ns = collector_stuck_ns(c, os_mono_ns(), &what);
    bool stuck = stuck_ns >= limit_ns;

    if (!stuck) {
        os_notify("WATCHDOG=1");
    } else if (!*was_stuck) {
        log_line(LOG_ERROR, "collector", "stuck", "what=%s seconds=%lld remedy=%s", what,
                 (long long)(stuck_ns / CLK_S),
                 "\"the service manager restarts it; see whether the disk of data_dir hangs\"");
    }
    *was_stuck = stuck;
}

/* Until the stop signal. Sealing and large answers leave the heaps of their threads at the most
 * they ever needed, full of holes: without trimming resident memory climbs to the sum of all peaks.
 */
static void attend(const struct collector *c, struct waiting *w)
{
    int64_t limit_ns = os_notify_watchdog_ns();
    int64_t pause_ns = limit_ns && limit_ns / 4 < TRIM_NS ? limit_ns / 4 : TRIM_NS;
    int64_t trim_ns = os_mono_ns() + TRIM_NS;
    bool stuck = false;

    os_mutex_lock(w->lock);
    while (!w->stop) {
        int64_t now_ns = os_mono_ns();

        os_mutex_unlock(w->lock);
        if (limit_ns) {
            tell_watchdog(c, limit_ns, &stuck);
        }
        if (now_ns >= trim_ns) {
            os_heap_trim();
            trim_ns = now_ns + TRIM_NS;
        }
        os_mutex_lock(w->lock);
        if (!w->stop) {
            err_ignore(os_cond_wait_until(w->wake, now_ns + pause_ns));
        }
    }
    os_mutex_unlock(w->lock);
}

static enum err serve_until_stopped(const struct collector_conf *conf, const char *ports_file,
                                    struct waiting *w, struct errmsg *why)
{
    struct collector *c;
    enum err e = os_owner_check(conf->data_dir, why);

    if (e) {
        return e;
    }
    e = collector_start(&c, conf, why);
    if (e) {
        return e;
    }
    if (ports_file) {
        e = ports_write(c, ports_file, why);
    }
    if (!e) {
        log_line(LOG_INFO, "collector", "ready", "version=%s", PROCFLEET_VERSION);
        os_notify("READY=1\nSTATUS=ready");
        attend(c, w);
        log_line(LOG_INFO, "collector", "stopping", "reason=signal");
    }
    os_notify("STOPPING=1\nSTATUS=stopping");
    collector_stop(c);
    return e;
}

static enum err run_until_stopped(const struct opt_args *args, struct errmsg *why)
{
    static struct waiting w; /* the signal thread outlives this function */
    const char *sets[OPT_MANY_MAX];
    size_t n_sets = opt_values(args, "set", sets, OPT_MANY_MAX);
    struct collector_conf conf;
    char quoted[600];
    enum err e;

    os_steady_heap();
    e = collector_conf_load(&conf, opt_value(args, "config"), sets, n_sets, why);

    if (e && e != ERR_NOMEM) {
        e = ERR_USAGE; /* also a file that is not there */
        goto out;
    }
    if (!e && os_mutex_create(&w.lock) == ERR_OK && os_cond_create(&w.wake, w.lock) == ERR_OK) {
        e = os_stop_install(on_stop, &w);
    } else if (!e) {
        e = ERR_NOMEM;
    }
    if (e) {
        goto out;
    }
    e = log_open(conf.log_level, conf.log_format, conf.log_file);
    if (e) {
        errmsg_set(why, e,
                   "log.file: cannot open %s: its directory must be there, and this user be "
                   "allowed to write in it",
                   conf.log_file);
        goto out;
    }
    e = serve_until_stopped(&conf, opt_value(args, "ports-file"), &w, why);
    if (e && conf.log_file[0]) {
        log_line(LOG_ERROR, "collector", "failed", "reason=%s",
                 log_str(quoted, sizeof quoted, why->text));
    }
    log_close();
out:
    collector_conf_fini(&conf);
    return e;
}

static int run(const struct opt_args *args)
{
    struct errmsg why = {""};
    enum err e = run_until_stopped(args, &why);

    if (e) {
        fprintf(stderr, "procfleet-collector run: %s\n", why.text[0] ? why.text : err_text(e));
    }
    return e == ERR_USAGE ? COLLECTOR_CMD_USAGE : e ? COLLECTOR_CMD_FAILED : COLLECTOR_CMD_DONE;
}
