/* What the live stream costs: batches as the store hands them over, through the real feed, journal
 * and events listener over mutual TLS. The subscribers are a process of their own; CPU is all that
 * the collector's process takes, in the kernel too, and what session and store cost is not in it:
 * they have decoded each batch to check it, and the feed gets it decoded.
 *
 * Batches come in rounds, one of every host, and become one message of each. The next round waits
 * until every subscriber has the last message of the one before: no queue of the publisher can run
 * over, so that no message costs nothing because it was dropped. What a subscriber's own queue let
 * go is counted as lost. An update is one lifecycle event (some 180 bytes) or one process's row of
 * some 30 values (108 bytes). Messages and updates are those delivered, summed over subscribers, as
 * a publisher's figures are told elsewhere; without subscribers those journalled. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/subscribe/feed.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/load.h"
#include "tests/support/certs.h"
#include "tests/support/store_fill.h"
#include "tests/support/support.h"

#define SPARE      10u /* ticks more than its events need, two each */
#define ROUNDS     4u  /* made; they come again and again */
#define SUBS_MAX   64u
#define PUB_QUEUE  1024u /* the collector's; no round is longer */
#define PATIENCE   (60 * CLK_S)
#define LOADS      3u
#define MODES      5u
#define JOURNAL_MB 1024u

/* -- what comes -- */

struct shape {
    const char *name;
    unsigned hosts, events; /* events of a batch; 0: rows instead, one tick of all processes */
    bool judged_by_messages;
};

static const struct shape shapes[LOADS] = {
    {"single", 1000, 1, true}, {"events", 100, 100, false}, {"samples", 100, 0, false}};

struct item {
    struct batch *what;
    uint8_t *p;
    size_t n;
    char name[64];
};

struct input {
    unsigned hosts;
    double updates;     /* in a message, on average */
    struct item *items; /* ROUNDS times hosts */
    char last[64];      /* the host whose message ends a round: the feed goes by name */
};

static void make_item(struct item *to, const struct shape *shape, struct fleetgen *g,
                      struct wire_encoder *enc)
{
    struct batch b = *fleetgen_batch(g, shape->events ? shape->events / 2 + SPARE : 1);
    struct buf bytes;

    if (shape->events) {
        load_check(b.n_events < shape->events ? ERR_RANGE : ERR_OK, "events of a batch");
        b.n_events = shape->events;
        b.n_ticks = b.n_runs = b.n_columns = b.n_infos = b.n_ledger = 0;
    } else {
        b.n_events = 0;
    }
    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    load_check(wire_batch_encode(enc, &bytes, &b), "encode");
    to->p = bytes.p;
    to->n = bytes.n;
    load_check(wire_batch_decode(&to->what, to->p, to->n), "decode");
    (void)snprintf(to->name, sizeof to->name, "%s", fleetgen_host_name(g));
}

/* Rows of one tick: each process has a run. */
static double updates_per_message(const struct input *in)
{
    size_t n = (size_t)ROUNDS * in->hosts;
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (double)(in->items[i].what->n_events + in->items[i].what->n_runs);
    }
    return sum / (double)n;
}

static void make_host(struct input *in, const struct shape *shape, unsigned host,
                      struct wire_encoder *enc)
{
    struct fleetgen_conf conf = {.seed = host + 1, .begin_ns = FILL_T0};
    struct fleetgen *g;

    if (shape->events) { /* one end and one start a tick; the table itself is left out */
        conf.starts_per_hour = 3600;
        conf.processes = 20;
    }
    g = fleetgen_create(&conf);
    err_ignore(fleetgen_batch(g, 2) ? ERR_OK : ERR_END); /* the table, and those that end later */
    for (unsigned r = 0; r < ROUNDS; r++) {
        make_item(&in->items[r * in->hosts + host], shape, g, enc);
    }
    if (strcmp(fleetgen_host_name(g), in->last) > 0) {
        (void)snprintf(in->last, sizeof in->last, "%s", fleetgen_host_name(g));
    }
    fleetgen_destroy(g);
}

static void input_make(struct input *in, const struct shape *shape)
{
    struct wire_encoder *enc;

    *in = (struct input){.hosts = shape->hosts};
    in->items = mem_array((size_t)ROUNDS * in->hosts, sizeof *in->items);
    load_check(in->items ? ERR_OK : ERR_NOMEM, "input");
    load_check(wire_batch_encoder_create(&enc), "encoder");
    for (unsigned h = 0; h < in->hosts; h++) {
        make_host(in, shape, h, enc);
    }
    wire_batch_encoder_destroy(enc);
    in->updates = updates_per_message(in);
}

static void input_free(struct input *in)
{
    for (size_t i = 0; i < (size_t)ROUNDS * in->hosts; i++) {
        wire_batch_free(in->items[i].what);
        mem_free(in->items[i].p);
    }
    mem_free(in->items);
}

/* -- subscribers: threads of one other process -- */

/* Seen by both processes. */
struct heard {
    _Atomic uint64_t messages;
};

struct meeting {
    struct heard *heard; /* one of each subscriber */
    unsigned subs;
    int to_subs[2], to_collector[2];
};

struct subscriber {
    struct net_sub *sub;
    struct heard *heard;
    const char *last;
    int to_collector; /* is told of each message of the last host */
    struct os_thread *thread;
};

static void tell(int fd, unsigned what)
{
    if (write(fd, &what, sizeof what) != sizeof what) {
        _exit(1);
    }
}

static unsigned hear(int fd)
{
    unsigned what;

    if (read(fd, &what, sizeof what) != sizeof what) {
        _exit(1); /* the other process ended, and has said why */
    }
    return what;
}

static void take(struct subscriber *s, const struct buf *b)
{
    struct cur c = cur_make(b->p, b->n);
    size_t n;
    const char *topic = cur_cstr(&c, &n);
    const char *host = topic ? strchr(topic, '/') : NULL;

    cur_skip(&c, 16); /* epoch, number */
    load_check(c.bad || !host ? ERR_CORRUPT : ERR_OK, "message");
    atomic_fetch_add(&s->heard->messages, 1);
    if (strcmp(host + 1, s->last) == 0) {
        tell(s->to_collector, 1);
    }
}

static void listen_on(void *arg)
{
    struct subscriber *s = arg;
    struct buf b;

    buf_init(&b, FEED_MESSAGE_MAX);
    for (;;) {
        enum err e;

        buf_reset(&b);
        e = net_sub_receive(s->sub, PATIENCE, &b);
        if (e == ERR_OK) {
            take(s, &b);
        } else if (e != ERR_TIMEOUT) {
            load_check(e, "receive");
        }
    }
}

static void subscribers_main(const struct meeting *m, struct certs *pki, const char *last)
{
    static struct subscriber all[SUBS_MAX];
    struct net_sub_conf conf = {.receive_max = FEED_MESSAGE_MAX, .topic = "", .topic_n = 0};
    char address[32];

    (void)snprintf(address, sizeof address, "127.0.0.1:%u", hear(m->to_subs[0]));
    load_check(net_init(NULL), "net");
    conf.address = address;
    conf.tls = certs_load(pki, "subscriber", pki, false);
    for (unsigned i = 0; i < m->subs; i++) {
        all[i] = (struct subscriber){
            .heard = &m->heard[i], .last = last, .to_collector = m->to_collector[1]};
        load_check(net_sub_open(&all[i].sub, &conf, NULL), "subscribe");
        load_check(net_sub_wait(all[i].sub, PATIENCE, NULL), "connect");
        load_check(os_thread_start(&all[i].thread, "subscriber", listen_on, &all[i]), "thread");
    }
    tell(m->to_collector[1], 1);
    (void)hear(m->to_subs[0]); /* nothing comes: the collector has ended */
    _exit(0);
}

/* -- the collector's side -- */

struct mode {
    const char *name;
    bool journal, listened;
    bool many; /* subscribers, else one */
};

static const struct mode modes[MODES] = {{"live", false, true, false},
                                         {"live", false, true, true},
                                         {"journal", true, true, false},
                                         {"journal", true, true, true},
                                         {"journal", true, false, false}};

struct side {
    char store_dir[256], journal_dir[256];
    struct tls_config *tls;
    struct net_pub *pub;
    struct store *store;
    struct journal *journal;
    struct feed *feed;
    _Atomic size_t durable; /* batches */
};

static void send_out(void *ctx, const struct str *list, size_t n)
{
    net_pub_send(((struct side *)ctx)->pub, list, n);
}

static unsigned listeners(void *ctx)
{
    return net_pub_subscribers(((struct side *)ctx)->pub);
}

static bool always(void *ctx)
{
    (void)ctx;
    return true;
}

static void on_durable(void *ctx, enum err e)
{
    load_check(e, "store");
    atomic_fetch_add(&((struct side *)ctx)->durable, 1);
}

/* The store has it all before the clock runs: the feed looks up hosts and processes there. */
static void store_fill_up(struct side *s, const struct input *in)
{
    size_t n = (size_t)ROUNDS * in->hosts;

    for (size_t i = 0; i < n; i++) {
        const struct item *it = &in->items[i];
        struct store_put put = {.bytes = it->p,
                                .n = it->n,
                                .host_name = it->name,
                                .received_ns = FILL_T0,
                                .done = on_durable,
                                .ctx = s};

        load_check(wire_batch_decode(&put.batch, it->p, it->n), "decode");
        load_check(store_put(s->store, &put), "put");
        while (i + 1 - atomic_load(&s->durable) > STORE_WAITING_BATCHES / 2) {
            os_sleep_ns(CLK_MS);
        }
    }
    while (atomic_load(&s->durable) < n) {
        os_sleep_ns(CLK_MS);
    }
}

static void listen_start(struct side *s, struct certs *pki)
{
    struct net_pub_conf conf = {.address = "127.0.0.1:0",
                                .roles = NET_SUBSCRIBE,
                                .refuse_scoped = true,
                                .queue = PUB_QUEUE};

    load_check(net_init(NULL), "net");
    s->tls = certs_load(pki, "collector", pki, true);
    conf.tls = s->tls;
    load_check(net_pub_start(&s->pub, &conf, NULL), "listen");
}

static void feed_make_ready(struct side *s, const struct mode *mode)
{
    struct store_conf store = fill_store_conf(support_temp_dir(s->store_dir, sizeof s->store_dir));
    struct journal_conf journal = {.fio = fio_os(),
                                   .max_bytes = (uint64_t)JOURNAL_MB << 20,
                                   .max_age_ns = 24 * 3600 * CLK_S,
                                   .hosts_max = 10000};
    struct feed_conf feed = {.epoch = 1,
                             .queue_bytes = (size_t)64 << 20,
                             .hosts_max = 10000,
                             .send = send_out,
                             .listeners = listeners,
                             .samples_wanted = always,
                             .ctx = s};

    load_check(store_open(&s->store, &store, NULL), "store");
    if (mode->journal) {
        journal.dir = support_temp_dir(s->journal_dir, sizeof s->journal_dir);
        load_check(journal_open(&s->journal, &journal, NULL), "journal");
        feed.journal = s->journal;
        feed.epoch = journal_epoch(s->journal);
    }
    load_check(feed_create(&s->feed, &feed), "feed");
    load_check(feed_start(s->feed, s->store), "feed");
}

static void side_stop(struct side *s)
{
    feed_destroy(s->feed);
    net_pub_stop(s->pub);
    journal_close(s->journal);
    store_close(s->store);
    tls_config_free(s->tls);
    support_remove_dir(s->store_dir);
    if (s->journal_dir[0]) {
        support_remove_dir(s->journal_dir);
    }
}

/* -- measuring -- */

struct counts {
    double cpu_s, messages, lost; /* messages: delivered, or journalled */
    double updates;               /* in a message */
    double wire_bytes;            /* of an update, to one subscriber; 0: nobody listens */
    double journal_bytes;         /* of an update; 0: no journal */
};

/* Without looking again and again, which would cost the collector's process more the longer its
 * subscribers take. */
static void wait_for_all(const struct meeting *m)
{
    struct pollfd told = {.fd = m->to_collector[0], .events = POLLIN};

    for (unsigned i = 0; i < m->subs; i++) {
        load_check(poll(&told, 1, (int)(PATIENCE / CLK_MS)) == 1 ? ERR_OK : ERR_TIMEOUT,
                   "a subscriber's messages");
        (void)hear(m->to_collector[0]);
    }
}

/* A batch of each host, until everybody has it. */
static void round_play(struct side *s, const struct input *in, const struct meeting *m,
                       uint64_t round)
{
    const struct item *items = &in->items[(round % ROUNDS) * in->hosts];

    for (unsigned h = 0; h < in->hosts; h++) {
        struct store_stored stored = {.host_name = items[h].name,
                                      .batch = items[h].what,
                                      .bytes = items[h].p,
                                      .n = items[h].n,
                                      .received_ns = os_utc_ns()};

        feed_stored(s->feed, &stored);
    }
    load_check(feed_keep(s->feed) ? ERR_OK : ERR_CLOSED, "feed"); /* does not wait 50 ms */
    wait_for_all(m);
}

static uint64_t heard_all(const struct meeting *m)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < m->subs; i++) {
        n += atomic_load(&m->heard[i].messages);
    }
    return n;
}

static struct counts measure(struct side *s, const struct input *in, const struct meeting *m,
                             int64_t for_ns)
{
    struct counts r = {.updates = in->updates};
    struct feed_stats before, after;
    uint64_t rounds = 0, heard, made;
    int64_t cpu_ns, start_ns;

    round_play(s, in, m, rounds++); /* topics are known, caches warm */
    feed_stats(s->feed, &before);
    heard = heard_all(m);
    cpu_ns = os_cpu_ns();
    start_ns = os_mono_ns();
    do {
        round_play(s, in, m, rounds++);
    } while (os_mono_ns() - start_ns < for_ns);
    r.cpu_s = (double)(os_cpu_ns() - cpu_ns) / CLK_S;
    feed_stats(s->feed, &after);
    load_check(after.failed || after.oversize || after.left_out ? ERR_FULL : ERR_OK, "messages");
    made = (rounds - 1) * in->hosts;
    r.messages = m->subs ? (double)(heard_all(m) - heard) : (double)made;
    r.lost = m->subs ? (double)(made * m->subs) - r.messages : 0;
    if (m->subs) {
        r.wire_bytes = (double)(after.bytes - before.bytes) / ((double)made * in->updates);
    }
    if (s->journal) {
        struct journal_stats j;

        journal_stats(s->journal, &j);
        r.journal_bytes = (double)j.bytes / ((double)j.records * in->updates);
    }
    return r;
}

/* -- a run: one shape, one mode -- */

static void meeting_make(struct meeting *m, unsigned subs)
{
    m->subs = subs;
    m->heard = mmap(NULL, sizeof *m->heard * SUBS_MAX, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    load_check(m->heard == MAP_FAILED || pipe(m->to_subs) || pipe(m->to_collector) ? ERR_IO
                                                                                   : ERR_OK,
               "pipe");
}

/* The subscribers, before anything of the network exists here. */
static pid_t subscribers_fork(const struct meeting *m, struct certs *pki, const char *last)
{
    pid_t pid = fork();

    if (pid == 0) {
        close(m->to_subs[1]);
        close(m->to_collector[0]);
        subscribers_main(m, pki, last);
    }
    close(m->to_subs[0]);
    close(m->to_collector[1]);
    return pid;
}

static struct counts collect(const struct shape *shape, const struct mode *mode, unsigned subs,
                             int64_t for_ns)
{
    struct certs *pki = certs_create();
    struct side side = {.tls = NULL};
    struct meeting m;
    struct input in;
    struct counts r;
    pid_t pid;

    input_make(&in, shape);
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_SUBSCRIBE, "subscriber");
    meeting_make(&m, subs);
    pid = subscribers_fork(&m, pki, in.last);
    listen_start(&side, pki);
    feed_make_ready(&side, mode);
    store_fill_up(&side, &in);
    tell(m.to_subs[1], net_pub_port(side.pub));
    (void)hear(m.to_collector[0]);
    while (net_pub_subscribers(side.pub) < subs) {
        os_sleep_ns(CLK_MS);
    }
    r = measure(&side, &in, &m, for_ns);
    close(m.to_subs[1]);
    waitpid(pid, NULL, 0);
    side_stop(&side);
    input_free(&in);
    certs_destroy(pki);
    return r;
}

/* In a process of its own: NNG does not survive a fork, and memory starts from nothing. */
static struct counts run(const struct shape *shape, const struct mode *mode, unsigned subs,
                         int64_t for_ns)
{
    struct counts r;
    int back[2];
    pid_t pid;

    load_check(pipe(back) ? ERR_IO : ERR_OK, "pipe");
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(back[0]);
        r = collect(shape, mode, subs, for_ns);
        _exit(write(back[1], &r, sizeof r) == sizeof r ? 0 : 1);
    }
    close(back[1]);
    load_check(read(back[0], &r, sizeof r) == sizeof r ? ERR_OK : ERR_IO, "collector");
    close(back[0]);
    waitpid(pid, NULL, 0);
    return r;
}

static void figure(const struct shape *shape, const struct mode *mode, unsigned subs,
                   const char *what, double value, const char *unit, double goal,
                   enum bench_better better)
{
    char name[96];

    (void)snprintf(name, sizeof name, "%s_%s_%u_%s", shape->name, mode->name, subs, what);
    bench_figure(name, value, unit, goal, better);
}

static void report(const struct shape *shape, const struct mode *mode, unsigned subs,
                   const struct counts *r)
{
    bool judged = subs > 0;
    double messages = r->messages / r->cpu_s;

    figure(shape, mode, subs, "messages_per_cpu_second", messages / 1e3, "k",
           judged && shape->judged_by_messages ? 150 : 0, BENCH_MORE);
    figure(shape, mode, subs, "updates_per_cpu_second", messages * r->updates / 1e6, "M",
           judged && !shape->judged_by_messages ? 2 : 0, BENCH_MORE);
    if (subs) {
        figure(shape, mode, subs, "lost", r->lost, "messages", 0, BENCH_LESS);
    }
    if (subs == 1) {
        figure(shape, mode, subs, "bytes_per_update", r->wire_bytes, "B", 0, BENCH_LESS);
    }
    if (subs == 0) {
        figure(shape, mode, subs, "disk_per_update", r->journal_bytes, "B", 0, BENCH_LESS);
    }
}

/* -- options -- */

static const struct opt options[] = {
    {"only", 0, "LOAD", "single (messages of one event), events or samples; may be repeated", true},
    {"seconds", 's', "S", "of each run (3; with --quick 0.3)", false},
    {"subscribers", 'n', "N", "the many, 2 to 64 (10)", false},
    {"quick", 0, NULL, "a run of some seconds, for trying the program out", false},
    {"json", 0, NULL, "a line for each figure", false},
};

static const struct opt_command command = {
    .program = "bench_feed",
    .brief = "the live stream over mutual TLS: updates per CPU-second of the collector",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
    .examples = "  bench_feed\n"
                "  bench_feed --only samples --seconds 10\n",
};

static bool wanted(const struct opt_args *args, const char *name)
{
    const char *only[LOADS];
    size_t n = opt_values(args, "only", only, LOADS);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(only[i], name) == 0) {
            return true;
        }
    }
    return n == 0;
}

static void begin(bool json, double seconds)
{
    char name[] = "bench_feed", flag[] = "--json", about[240];
    char *argv[] = {name, flag, NULL};

    (void)snprintf(about, sizeof about,
                   "delivered to 1 or 10 subscribers per CPU-second of the collector's process,\n"
                   "mutual TLS, %g s each; an update is one event or one row of 30 values",
                   seconds);
    bench_begin(json ? 2 : 1, argv, name, about);
}

static void run_all(const struct opt_args *args)
{
    double seconds = bench_number(args, "seconds", 0.1, 3600, opt_flag(args, "quick") ? 0.3 : 3);
    unsigned many = (unsigned)bench_number(args, "subscribers", 2, SUBS_MAX, 10);

    begin(opt_flag(args, "json"), seconds);
    for (size_t i = 0; i < LOADS; i++) {
        for (size_t k = 0; k < MODES && wanted(args, shapes[i].name); k++) {
            unsigned subs = !modes[k].listened ? 0 : modes[k].many ? many : 1;
            struct counts r = run(&shapes[i], &modes[k], subs, (int64_t)(seconds * CLK_S));

            report(&shapes[i], &modes[k], subs, &r);
        }
    }
}

int main(int argc, char **argv)
{
    struct opt_args *args = bench_options(&command, argc, argv);

    run_all(args);
    opt_free(args);
    return bench_end();
}
