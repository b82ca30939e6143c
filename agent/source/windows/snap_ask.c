/* One ring: [ answers … | the job under way | jobs … ]. A job stays in its place when it becomes
 * an answer, so the order is kept and room is one number. */
#include "agent/source/windows/snap_ask.h"

#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

struct place {
    struct snap_job job;
    struct snap_answer *answer; /* owned; NULL where memory was short */
};

struct snap_ask {
    struct snap_ask_conf conf;
    struct os_thread *thread;
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *changed;
    struct place places[SNAP_ASK_MAX];
    size_t first, n_answers, n_jobs; /* jobs: the one under way too */
    bool stop;
    bool ended;     /* the thread will not look at this any more, */
    bool abandoned; /* or it is the one to release it */

    uint32_t round; /* of the thread inside */
    int64_t spent_ns;
};

/* One piece of memory: the answer, its texts behind it. */
static struct snap_answer *own(const struct snap_answer *a)
{
    struct snap_answer *copy = mem_alloc(sizeof *copy + a->line.n + a->image.n + a->user.n);
    char *at = (char *)(copy + 1);

    if (!copy) {
        return NULL;
    }
    *copy = *a;
    for (int i = 0; i < 3; i++) {
        struct str *text = i == 0 ? &copy->line : i == 1 ? &copy->image : &copy->user;

        if (text->n > 0) {
            memcpy(at, text->p, text->n);
        }
        text->p = at;
        at += text->n;
    }
    return copy;
}

static struct snap_answer *ask(struct snap_ask *a, const struct snap_job *job)
{
    bool gauges = (job->what & SNAP_JOB_GAUGES) != 0;
    struct snap_answer answer = {.job = *job};
    int64_t began_ns;

    if (gauges && job->round != a->round) {
        a->round = job->round;
        a->spent_ns = 0;
    }
    if (gauges && a->spent_ns > a->conf.budget_ns) {
        answer.error = ERR_TIMEOUT;
        return own(&answer);
    }
    began_ns = os_mono_ns();
    a->conf.read(a->conf.ctx, job, &answer);
    a->spent_ns += gauges ? os_mono_ns() - began_ns : 0;
    return own(&answer);
}

/* What is built of it. */
static void destroy(struct snap_ask *a)
{
    for (size_t i = 0; i < a->n_answers; i++) {
        mem_free(a->places[(a->first + i) % SNAP_ASK_MAX].answer);
    }
    os_cond_destroy(a->changed);
    os_mutex_destroy(a->lock);
    mem_free(a);
}

static void release(struct snap_ask *a)
{
    struct snap_ask_conf conf = a->conf;

    destroy(a);
    if (conf.release) {
        conf.release(conf.ctx);
    }
}

static void run(void *arg)
{
    struct snap_ask *a = arg;
    bool abandoned;

    os_mutex_lock(a->lock);
    while (!a->stop) {
        struct place *p = &a->places[(a->first + a->n_answers) % SNAP_ASK_MAX];
        struct snap_answer *answer;
        struct snap_job job;

        if (a->n_jobs == 0) {
            os_cond_wait(a->changed);
            continue;
        }
        job = p->job;
        os_mutex_unlock(a->lock);
        answer = ask(a, &job);
        os_mutex_lock(a->lock);
        /* Answers may have been taken meanwhile: its place is the same. */
        p->answer = answer;
        a->n_answers++;
        a->n_jobs--;
        os_cond_wake_all(a->changed);
    }
    a->ended = true;
    abandoned = a->abandoned;
    os_cond_wake_all(a->changed);
    os_mutex_unlock(a->lock);
    if (abandoned) {
        os_thread_leave(a->thread);
        release(a);
    }
}

enum err snap_ask_open(struct snap_ask **out, const struct snap_ask_conf *conf)
{
    struct snap_ask *a = mem_zalloc(sizeof *a);
    enum err e;

    if (!a) {
        return ERR_NOMEM;
    }
    a->conf = *conf;
    e = os_mutex_create(&a->lock);
    if (e) {
        goto fail;
    }
    e = os_cond_create(&a->changed, a->lock);
    if (e) {
        goto fail;
    }
    e = os_thread_start(&a->thread, "slow lane", run, a);
    if (e) {
        goto fail;
    }
    *out = a;
    return ERR_OK;

fail:
    destroy(a);
    return e;
}

void snap_ask_close(struct snap_ask *a)
{
    int64_t until_ns = clk_add(os_mono_ns(), a->conf.patience_ns);
    bool ended;

    os_mutex_lock(a->lock);
    a->stop = true;
    os_cond_wake_all(a->changed);
    while (!a->ended && os_cond_wait_until(a->changed, until_ns) == ERR_OK) {
    }
    ended = a->ended;
    a->abandoned = !ended;
    os_mutex_unlock(a->lock);
    if (ended) {
        os_thread_join(a->thread);
        release(a);
    }
}

bool snap_ask_has_room(struct snap_ask *a)
{
    bool room;

    os_mutex_lock(a->lock);
    room = a->n_answers + a->n_jobs < SNAP_ASK_MAX;
    os_mutex_unlock(a->lock);
    return room;
}

void snap_ask_put(struct snap_ask *a, const struct snap_job *job)
{
    os_mutex_lock(a->lock);
    a->places[(a->first + a->n_answers + a->n_jobs++) % SNAP_ASK_MAX].job = *job;
    os_cond_wake_all(a->changed);
    os_mutex_unlock(a->lock);
}

struct snap_answer *snap_ask_take(struct snap_ask *a)
{
    struct snap_answer *answer = NULL;

    os_mutex_lock(a->lock);
    while (!answer && a->n_answers > 0) {
        answer = a->places[a->first].answer;
        a->first = (a->first + 1) % SNAP_ASK_MAX;
        a->n_answers--;
    }
    os_mutex_unlock(a->lock);
    return answer;
}

void snap_ask_wait(struct snap_ask *a)
{
    os_mutex_lock(a->lock);
    while (a->n_jobs > 0) {
        os_cond_wait(a->changed);
    }
    os_mutex_unlock(a->lock);
}
