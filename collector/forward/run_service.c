#include "collector/forward/run_service.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/log/log.h"
#include "common/net/net.h"
#include "common/os/os.h"
#include "common/os/os_notify.h"

#define THREADS_MAX 64u
#define REPORT_NS   (60 * CLK_S)

struct service;

struct worker {
    struct service *of;
    struct consumer *consumer;
    struct os_thread *thread;
};

/* Static: the signal's thread outlives the service. */
static struct service {
    struct os_mutex *lock; /* guards the rest */
    struct os_cond *wake;
    bool stop;
    size_t ended;
    enum err e; /* of the first that failed */
    struct errmsg why;
} service;

static void on_stop(void *arg)
{
    struct service *s = arg;

    os_mutex_lock(s->lock);
    s->stop = true;
    os_cond_wake_all(s->wake);
    os_mutex_unlock(s->lock);
}

static void work(void *arg)
{
    struct worker *w = arg;
    struct service *s = w->of;
    struct errmsg why = {""};
    enum err e = consumer_run(w->consumer, &why);

    os_mutex_lock(s->lock);
    s->ended++;
    if (e && !s->e) {
        s->e = e;
        s->why = why;
    }
    s->stop = s->stop || e;
    os_cond_wake_all(s->wake);
    os_mutex_unlock(s->lock);
}

static void attend(struct service *s, const struct run_service *conf)
{
    int64_t watchdog_ns = os_notify_watchdog_ns(), report_ns = os_mono_ns() + REPORT_NS;
    int64_t pause_ns = watchdog_ns && watchdog_ns / 4 < REPORT_NS ? watchdog_ns / 4 : REPORT_NS;

    os_mutex_lock(s->lock);
    while (!s->stop) {
        int64_t now_ns = os_mono_ns();

        if (os_cond_wait_until(s->wake, now_ns + pause_ns) != ERR_OK) {
            os_mutex_unlock(s->lock);
            if (watchdog_ns) {
                os_notify("WATCHDOG=1");
            }
            if (os_mono_ns() >= report_ns) {
                conf->report(conf->ctx);
                report_ns = os_mono_ns() + REPORT_NS;
            }
            os_mutex_lock(s->lock);
        }
    }
    os_mutex_unlock(s->lock);
}

static enum err service_begin(struct service *s)
{
    enum err e = os_mutex_create(&s->lock);

    e = e ? e : os_cond_create(&s->wake, s->lock);
    return e ? e : os_stop_install(on_stop, s);
}

enum err run_service(const struct run_service *conf, struct errmsg *why)
{
    struct service *s = &service;
    struct worker workers[THREADS_MAX];
    size_t n = 0;
    enum err e = conf->n > THREADS_MAX ? ERR_FULL : service_begin(s);

    for (; n < conf->n && !e; n++) {
        workers[n] = (struct worker){.of = s, .consumer = conf->consumers[n]};
        e = os_thread_start(&workers[n].thread, "consumer", work, &workers[n]);
        if (e) {
            break;
        }
    }
    if (!e) {
        log_line(LOG_INFO, conf->module, "ready", "version=%s subscriptions=%zu", PROCFLEET_VERSION,
                 conf->n);
        os_notify("READY=1\nSTATUS=ready");
        attend(s, conf);
        os_notify("STOPPING=1\nSTATUS=stopping");
    }
    for (size_t i = 0; i < n; i++) {
        consumer_stop(workers[i].consumer);
    }
    conf->stop(conf->ctx);
    for (size_t i = 0; i < n; i++) {
        os_thread_join(workers[i].thread);
    }
    conf->report(conf->ctx);
    if (!e && s->e) {
        *why = s->why;
        e = s->e;
    }
    return e;
}

/* -- commands -- */

int run_service_fail(const struct opt_command *cmd, enum err e, const char *text)
{
    char call[OPT_CALL_TEXT];

    fprintf(stderr, "%s: %s\n", opt_call(call, sizeof call, cmd), text[0] ? text : err_text(e));
    switch (e) {
    case ERR_USAGE:
        return RUN_SERVICE_USAGE;
    case ERR_REFUSED:
    case ERR_TRUST:
        return RUN_SERVICE_REFUSED;
    default:
        return RUN_SERVICE_FAILED;
    }
}
