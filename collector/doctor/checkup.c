#include "collector/doctor/checkup.h"

#include <stdio.h>
#include <string.h>

#include "collector/doctor/checkup_impl.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/net/net.h"
#include "common/net/net_probe.h"
#include "common/os/os.h"

int64_t checkup_days(const struct checkup *d, int64_t until_ns)
{
    int64_t left_ns = clk_sub(until_ns, d->conf->now_ns);

    return (left_ns < 0 ? left_ns - CHECKUP_DAY_NS + 1 : left_ns) / CHECKUP_DAY_NS;
}

/* Its files may be private, and yet others could take them away or put theirs in their place. */
void checkup_folder(struct checkup *d, const char *check, const char *dir)
{
    enum err e = os_check_private(dir);

    if (e == ERR_ACCESS) {
        char fix[400];

        (void)snprintf(fix, sizeof fix, "chmod 700 %s", dir);
        finding_say(d->all, check, FINDING_WARNING, fix,
                    "others can enter %s, and perhaps change what is there", dir);
    } else if (!e) {
        finding_say(d->all, check, FINDING_OK, "", "others cannot enter %s", dir);
    }
}

/* -- is there one already -- */

static void check_running(struct checkup *d)
{
    char *path = os_path_join(d->c->data_dir, "lock");
    struct os_lock *lock = NULL;
    enum err e = path && os_exists(path) ? os_lock(&lock, path) : ERR_NOTFOUND;

    os_unlock(lock);
    mem_free(path);
    d->running = e == ERR_BUSY;
    if (d->running) {
        finding_say(d->all, "collector", FINDING_OK, "", "a collector runs with %s",
                    d->c->data_dir);
    } else if (e && e != ERR_NOTFOUND) {
        finding_say(d->all, "collector", FINDING_WARNING,
                    "run doctor as the collector's user (runuser -u procfleet -- ...)",
                    "the lock of %s cannot be looked at: %s", d->c->data_dir, err_text(e));
    } else {
        finding_say(d->all, "collector", FINDING_SKIPPED, "", "no collector runs with %s",
                    d->c->data_dir);
    }
}

/* -- listeners -- */

static bool is_any_port(const char *address)
{
    size_t n = strlen(address);

    return n > 1 && strcmp(address + n - 2, ":0") == 0;
}

static void say_taken(struct checkup *d, const char *key, const char *address)
{
    if (d->running) {
        finding_say(d->all, key, FINDING_OK, "", "%s is in use, as it is when a collector runs",
                    address);
    } else {
        finding_say(d->all, key, FINDING_FAILED,
                    "'ss -ltnp' as root shows by whom: end that program, or set another port",
                    "%s is in use, but not by a collector with this data_dir", address);
    }
}

static void check_listener(struct checkup *d, const char *key)
{
    const char *address = conf_text(d->c->source, key);
    struct errmsg why = {""};
    enum err e;

    if (!address[0]) {
        finding_say(d->all, key, FINDING_SKIPPED, "", "off");
        return;
    }
    if (is_any_port(address)) {
        finding_say(d->all, key, FINDING_SKIPPED, "", "%s is any free port", address);
        return;
    }
    e = net_probe_listen(address, &why);
    if (e == ERR_BUSY) {
        say_taken(d, key, address);
    } else if (e) {
        finding_say(d->all, key, FINDING_FAILED,
                    e == ERR_ACCESS ? "set a port from 1024 on"
                                    : "set it to host:port, with an address of this machine or *",
                    "%s", why.text);
    } else if (d->running) {
        finding_say(d->all, key, FINDING_WARNING,
                    "if it reads its log still, wait; else it runs with other settings: restart it",
                    "a collector runs, but nothing listens at %s", address);
    } else {
        finding_say(d->all, key, FINDING_OK, "", "%s is free", address);
    }
}

static void check_listeners(struct checkup *d)
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

void checkup_run(struct findings *to, const struct checkup_conf *conf)
{
    struct checkup d = {.conf = conf, .c = conf->conf, .all = to};

    finding_say(to, "config", FINDING_OK, "", "the settings are sound");
    finding_clock(to, conf->now_ns);
    finding_clock_sync(to);
    check_running(&d);
    check_listeners(&d);
    checkup_trust(&d);
    checkup_disk(&d);
    checkup_limits(&d);
    checkup_fleet(&d);
}
