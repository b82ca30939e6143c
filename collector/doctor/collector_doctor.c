#include "collector/doctor/collector_doctor.h"

#include <stdio.h>
#include <string.h>

#include "collector/doctor/collector_doctor_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/net/net.h"
#include "common/os/os.h"

int64_t collector_doctor_days(const struct collector_doctor *d, int64_t until_ns)
{
    int64_t left_ns = clk_sub(until_ns, d->conf->now_ns);

    return (left_ns < 0 ? left_ns - COLLECTOR_DOCTOR_DAY_NS + 1 : left_ns) /
           COLLECTOR_DOCTOR_DAY_NS;
}

/* Its files may be private, and yet others could take them away or put theirs in their place. */
void collector_doctor_folder(struct collector_doctor *d, const char *check, const char *dir)
{
    enum err e = os_check_private(dir);

    if (e == ERR_ACCESS) {
        char fix[400];

        (void)snprintf(fix, sizeof fix, "chmod 700 %s", dir);
        check_result_report(d->all, check, CHECK_RESULT_WARNING, fix,
                            "others can enter %s, and perhaps change what is there", dir);
    } else if (!e) {
        check_result_report(d->all, check, CHECK_RESULT_OK, "", "others cannot enter %s", dir);
    }
}

/* -- is there one already -- */

static void check_running(struct collector_doctor *d)
{
    char *path = os_path_join(d->c->data_dir, "lock");
    struct os_lock *lock = NULL;
    enum err e = path && os_exists(path) ? os_lock(&lock, path) : ERR_NOTFOUND;

    os_unlock(lock);
    mem_free(path);
    d->running = e == ERR_BUSY;
    if (d->running) {
        check_result_report(d->all, "collector", CHECK_RESULT_OK, "", "a collector runs with %s",
                            d->c->data_dir);
    } else if (e && e != ERR_NOTFOUND) {
        check_result_report(d->all, "collector", CHECK_RESULT_WARNING,
                            "run doctor as the collector's user (runuser -u procfleet -- ...)",
                            "the lock of %s cannot be looked at: %s", d->c->data_dir, err_text(e));
    } else {
        check_result_report(d->all, "collector", CHECK_RESULT_SKIPPED, "",
                            "no collector runs with %s", d->c->data_dir);
    }
}

/* -- listeners -- */

static bool is_any_port(const char *address)
{
    size_t n = strlen(address);

    return n > 1 && strcmp(address + n - 2, ":0") == 0;
}

static void say_taken(struct collector_doctor *d, const char *key, const char *address)
{
    if (d->running) {
        check_result_report(d->all, key, CHECK_RESULT_OK, "",
                            "%s is in use, as it is when a collector runs", address);
    } else {
        check_result_report(
            d->all, key, CHECK_RESULT_FAILED,
            "'ss -ltnp' as root shows by whom: end that program, or set another port",
            "%s is in use, but not by a collector with this data_dir", address);
    }
}

static void check_listener(struct collector_doctor *d, const char *key)
{
    const char *address = conf_text(d->c->source, key);
    struct errmsg why = {""};
    enum err e;

    if (!address[0]) {
        check_result_report(d->all, key, CHECK_RESULT_SKIPPED, "", "off");
        return;
    }
    if (is_any_port(address)) {
        check_result_report(d->all, key, CHECK_RESULT_SKIPPED, "", "%s is any free port", address);
        return;
    }
    e = net_probe_listen(address, &why);
    if (e == ERR_BUSY) {
        say_taken(d, key, address);
    } else if (e) {
        check_result_report(d->all, key, CHECK_RESULT_FAILED,
                            e == ERR_ACCESS
                                ? "set a port from 1024 on"
                                : "set it to host:port, with an address of this machine or *",
                            "%s", why.text);
    } else if (d->running) {
        check_result_report(
            d->all, key, CHECK_RESULT_WARNING,
            "if it reads its log still, wait; else it runs with other settings: restart it",
            "a collector runs, but nothing listens at %s", address);
    } else {
        check_result_report(d->all, key, CHECK_RESULT_OK, "", "%s is free", address);
    }
}

static void check_listeners(struct collector_doctor *d)
{
    static const char prefix[] = "listen.";
    size_t n;
    const struct conf_key *keys = collector_conf_keys(&n);

    for (size_t i = 0; i < n; i++) {
        if (strncmp(keys[i].key, prefix, sizeof prefix - 1) == 0 && keys[i].type == CONF_TEXT) {
            check_listener(d, keys[i].key);
        }
    }
}

void collector_doctor_run(struct findings *to, const struct collector_doctor_conf *conf)
{
    struct collector_doctor d = {.conf = conf, .c = conf->conf, .all = to};

    check_result_report(to, "config", CHECK_RESULT_OK, "", "the settings are sound");
    check_result_clock(to, conf->now_ns);
    check_result_clock_sync(to);
    check_running(&d);
    check_listeners(&d);
    collector_doctor_trust(&d);
    collector_doctor_disk(&d);
    collector_doctor_limits(&d);
    collector_doctor_fleet(&d);
}
