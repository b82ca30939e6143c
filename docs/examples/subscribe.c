/* Follows the events of a procfleet fleet: one JSON object a line.
 *
 *   live:     SUB socket -> messages; a hole in the numbers of a topic -> Fetch what is missing
 *   durable:  Poll, cursor -> updates -> FILE and, together with it, the next cursor
 *
 * What is spoken is described in proto/PROTOCOL.md; client.c speaks it, lines.c writes what came.
 * Here are the two things that a subscriber has to do: to follow the numbers of topics, and to keep
 * a file in which every event is exactly once whoever is killed when. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nng/nng.h>
#include <nng/protocol/pubsub0/sub.h>

#include "docs/examples/client.h"
#include "docs/examples/lines.h"

#define CURSOR_MAX 256u
#define HOSTS_MAX  16u

struct options {
    struct client_conf conf;
    const char *events, *collector;
    const char *durable, *output, *program, *hosts[HOSTS_MAX];
    size_t n_hosts;
    bool samples, from_oldest;
    unsigned lose;
};

static volatile sig_atomic_t stopped; /* by SIGTERM or SIGINT */
static int64_t end_ms = INT64_MAX;    /* --for; of the monotonic clock */

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static bool over(void)
{
    return stopped || now_ms() >= end_ms;
}

/* -- live: the event stream, and Fetch for what is missing of it (section 9) -- */

struct topic {
    char name[96];
    uint64_t epoch, seq; /* of its last message */
    bool unsure;         /* the collector would not give what follows it when last asked */
};

struct live {
    const struct options *o;
    struct client client;
    struct topic *topics;
    size_t n, room;
    uint64_t received, lost_on_purpose, recovered, gone;
};

static void put_message(const void *p, size_t n)
{
    Procfleet__V1__Update *u = procfleet__v1__update__unpack(NULL, n, p);

    if (!u) {
        die("a message of the event stream is broken");
    }
    lines_put(stdout, u);
    procfleet__v1__update__free_unpacked(u, NULL);
}

/* Asks for a topic's messages behind its last one, up to `last` (0: the newest). Whether there may
 * be more. */
static bool fetch_some(struct live *l, struct topic *t, uint64_t last)
{
    Procfleet__V1__FetchRequest q = PROCFLEET__V1__FETCH_REQUEST__INIT;
    Procfleet__V1__FetchReply *a;
    struct client_reply r;
    bool more;

    q.has_epoch = q.has_topic = q.has_from_seq = 1;
    q.epoch = t->epoch;
    q.topic = text_of(t->name);
    q.from_seq = t->seq + 1;
    q.has_to_seq = last > 0;
    q.to_seq = last;
    if (!client_call(&l->client, "Fetch", &q.base, 0, &r)) {
        say("%s: messages from %" PRIu64 " on cannot be had", t->name, t->seq + 1);
        t->unsure = last == 0;
        return false;
    }
    t->unsure = false;
    a = procfleet__v1__fetch_reply__unpack(NULL, r.n, r.payload);
    if (!a) {
        die("a reply of the collector is broken");
    }
    for (size_t i = 0; i < a->n_messages; i++) {
        const Procfleet__V1__FeedMessage *m = a->messages[i];

        if (m->seq > t->seq) {
            l->gone += m->seq - t->seq - 1;
            t->seq = m->seq;
            l->recovered++;
            put_message(m->update.data, m->update.len);
        }
    }
    more = r.header->more && a->n_messages > 0;
    procfleet__v1__fetch_reply__free_unpacked(a, NULL);
    client_reply_free(&r);
    return more;
}

static void fetch(struct live *l, struct topic *t, uint64_t last)
{
    while (fetch_some(l, t, last)) {
    }
    if (last > t->seq) {
        l->gone += last - t->seq;
        t->seq = last;
    }
}

/* A message that was lost last leaves no hole: ask for whatever follows the newest we have. */
static void catch_up(struct live *l)
{
    for (size_t i = 0; i < l->n; i++) {
        fetch(l, &l->topics[i], 0);
    }
}

static size_t topics_unsure(const struct live *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++) {
        n += l->topics[i].unsure;
    }
    return n;
}

/* The topic of that name. A new one begins with this message: what came before we did is nobody's
 * loss. */
static struct topic *topic_of(struct live *l, const char *name, uint64_t epoch, uint64_t seq)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->topics[i].name, name) == 0) {
            return &l->topics[i];
        }
    }
    if (l->n == l->room) {
        l->room = l->room ? l->room * 2 : 64;
        l->topics = realloc(l->topics, l->room * sizeof *l->topics);
        if (!l->topics) {
            die("out of memory");
        }
    }
    l->topics[l->n] = (struct topic){.epoch = epoch, .seq = seq - 1};
    snprintf(l->topics[l->n].name, sizeof l->topics[l->n].name, "%s", name);
    return &l->topics[l->n++];
}

static uint64_t u64le(const uint8_t *p)
{
    uint64_t v = 0;

    for (unsigned i = 8; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

/* One message: topic and NUL, epoch, number, Update. */
static void take(struct live *l, const uint8_t *p, size_t n)
{
    const uint8_t *end = memchr(p, 0, n);
    uint64_t epoch, seq;
    struct topic *t;

    if (!end || n - (size_t)(end - p) < 17 || (size_t)(end - p) >= sizeof t->name) {
        die("a message of the event stream is broken");
    }
    epoch = u64le(end + 1);
    seq = u64le(end + 9);
    l->received++;
    if (l->o->lose && l->received % l->o->lose == 0) {
        l->lost_on_purpose++;
        return;
    }
    t = topic_of(l, (const char *)p, epoch, seq);
    if (t->epoch != epoch) { /* the collector's journal began anew, and with it the numbers */
        say("%s: another epoch; what was sent between the last message and its first is not known",
            t->name);
        t->epoch = epoch;
        t->seq = 0;
    }
    if (seq > t->seq + 1) {
        fetch(l, t, seq - 1);
    }
    if (seq > t->seq) { /* else Fetch was faster */
        put_message(end + 17, n - (size_t)(end + 17 - p));
        t->seq = seq;
    }
}

/* On one of NNG's threads, at every connection: TLS and the handshake are done. */
static void on_connected(nng_pipe pipe, nng_pipe_ev event, void *address)
{
    (void)pipe;
    (void)event;
    say("subscribed at %s", (const char *)address);
}

static int run_live(const struct options *o)
{
    struct live l = {.o = o, .client = {.conf = &o->conf, .address = o->collector}};
    const char *prefix = o->samples ? "sample/" : "event/";
    bool quiet = false;
    size_t unsure;
    nng_socket s;
    int e;

    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    e = nng_sub0_open(&s);
    e = e ? e : nng_socket_set(s, NNG_OPT_SUB_SUBSCRIBE, prefix, strlen(prefix));
    e = e ? e : nng_socket_set_int(s, NNG_OPT_RECVBUF, 4096); /* messages; then NNG drops some */
    e = e ? e : nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, 1000);
    e = e ? e
          : nng_pipe_notify(s, NNG_PIPE_EV_ADD_POST, on_connected, (void *)(uintptr_t)o->events);
    if (e) {
        die("%s", nng_strerror(e));
    }
    client_dial(&o->conf, s, o->events);
    while (!over()) {
        nng_msg *m;

        e = nng_recvmsg(s, &m, 0);
        if (!e) {
            take(&l, nng_msg_body(m), nng_msg_len(m));
            nng_msg_free(m);
            quiet = false;
        } else if (e != NNG_ETIMEDOUT) {
            die("%s: %s", o->events, nng_strerror(e));
        } else if (!quiet) { /* a second of silence may hide a loss */
            catch_up(&l);
            quiet = true;
        }
        fflush(stdout);
    }
    catch_up(&l);
    fflush(stdout);
    say("%" PRIu64 " messages received, %" PRIu64 " lost on purpose, %" PRIu64 " fetched, %" PRIu64
        " gone for good",
        l.received, l.lost_on_purpose, l.recovered, l.gone);
    unsure = topics_unsure(&l);
    if (unsure) {
        say("%zu topics may have had more", unsure);
    }
    nng_close(s);
    client_close(&l.client);
    free(l.topics);
    return l.gone || unsure ? 5 : 0;
}

/* -- durable: Poll with a cursor (section 9) -- */

/* FILE holds the lines, FILE.cursor how much of it counts and where the collector goes on. The
 * second is replaced as a whole after the first has reached the disk: whenever we are killed, lines
 * behind that length are cut off and come again. */
struct durable {
    const struct options *o;
    struct client client;
    FILE *output;
    char path[1024], fresh[1032]; /* FILE.cursor, and the one that will replace it */
    uint8_t cursor[CURSOR_MAX];
    size_t cursor_n;
};

static void must(bool ok, const char *path)
{
    if (!ok) {
        die("%s: %s", path, strerror(errno));
    }
}

/* How much of the output counts; reads the cursor. */
static long cursor_load(struct durable *d)
{
    char hex[2 * CURSOR_MAX + 2] = "";
    FILE *f = fopen(d->path, "r");
    unsigned byte;
    long length;

    if (!f && errno == ENOENT) {
        return 0;
    }
    must(f, d->path);
    if (fscanf(f, "%ld %513s", &length, hex) < 1 || length < 0 || strlen(hex) > 2 * CURSOR_MAX) {
        die("%s is damaged; remove it and %s to begin anew", d->path, d->o->output);
    }
    for (; sscanf(hex + 2 * d->cursor_n, "%2x", &byte) == 1; d->cursor_n++) {
        d->cursor[d->cursor_n] = (uint8_t)byte;
    }
    fclose(f);
    return length;
}

static void durable_open(struct durable *d)
{
    long length, end;

    snprintf(d->path, sizeof d->path, "%s.cursor", d->o->output);
    snprintf(d->fresh, sizeof d->fresh, "%s.new", d->path);
    length = cursor_load(d);
    d->output = fopen(d->o->output, "ab");
    must(d->output, d->o->output);
    must(fseek(d->output, 0, SEEK_END) == 0, d->o->output);
    end = ftell(d->output);
    if (end < length) {
        die("%s is shorter than %s says: they do not belong together", d->o->output, d->path);
    }
    must(ftruncate(fileno(d->output), length) == 0, d->o->output);
    must(fseek(d->output, 0, SEEK_END) == 0, d->o->output);
}

static void sync_directory(const char *path)
{
    char name[1024];
    char *slash;
    int directory;

    snprintf(name, sizeof name, "%s", path);
    slash = strrchr(name, '/');
    if (slash) {
        slash[1] = 0;
    }
    directory = open(slash ? name : ".", O_RDONLY);
    must(directory >= 0 && fsync(directory) == 0, slash ? name : ".");
    close(directory);
}

/* The lines, then the cursor that follows them. */
static void save(struct durable *d, const Procfleet__V1__PollReply *a)
{
    FILE *f;

    for (size_t i = 0; i < a->n_updates; i++) {
        lines_put(d->output, a->updates[i]);
    }
    must(fflush(d->output) == 0 && fsync(fileno(d->output)) == 0, d->o->output);
    if (a->cursor.len > CURSOR_MAX) {
        die("the collector gives a cursor of %zu bytes", a->cursor.len);
    }
    d->cursor_n = a->cursor.len;
    if (d->cursor_n) {
        memcpy(d->cursor, a->cursor.data, d->cursor_n);
    }
    f = fopen(d->fresh, "w");
    must(f, d->fresh);
    fprintf(f, "%ld ", ftell(d->output));
    for (size_t i = 0; i < d->cursor_n; i++) {
        fprintf(f, "%02x", d->cursor[i]);
    }
    fputc('\n', f);
    must(fflush(f) == 0 && fsync(fileno(f)) == 0 && fclose(f) == 0, d->fresh);
    must(rename(d->fresh, d->path) == 0, d->path);
    sync_directory(d->path); /* the name, too, is on the disk now */
}

/* One Poll; false: the collector will not have it. */
static bool poll_once(struct durable *d)
{
    Procfleet__V1__PollRequest q = PROCFLEET__V1__POLL_REQUEST__INIT;
    Procfleet__V1__FeedFilter filter = PROCFLEET__V1__FEED_FILTER__INIT;
    ProtobufCBinaryData hosts[HOSTS_MAX];
    int64_t left_ms = end_ms - now_ms();
    Procfleet__V1__PollReply *a;
    struct client_reply r;

    for (size_t i = 0; i < d->o->n_hosts; i++) {
        hosts[i] = text_of(d->o->hosts[i]);
    }
    filter.n_hosts = d->o->n_hosts;
    filter.hosts = hosts;
    filter.has_program = d->o->program != NULL;
    filter.program = text_of(d->o->program ? d->o->program : "");
    filter.has_samples = filter.samples = filter.has_no_events = filter.no_events = d->o->samples;
    q.has_name = q.has_wait_ms = 1;
    q.name = text_of(d->o->durable);
    q.filter = &filter;
    q.wait_ms = left_ms > 10000 ? 10000 : left_ms > 0 ? (uint32_t)left_ms : 0;
    q.has_cursor =
        d->cursor_n > 0; /* this also tells the collector that what came before is safe */
    q.cursor = bytes_of(d->cursor, d->cursor_n);
    q.has_from_oldest = q.from_oldest = d->o->from_oldest;
    if (!client_call(&d->client, "Poll", &q.base, q.wait_ms, &r)) {
        return false;
    }
    a = procfleet__v1__poll_reply__unpack(NULL, r.n, r.payload);
    if (!a) {
        die("a reply of the collector is broken");
    }
    if (a->dropped_now) {
        say("%" PRIu64 " messages were dropped before we came for them", a->dropped_now);
    }
    if (a->n_updates || a->cursor.len != d->cursor_n ||
        (d->cursor_n && memcmp(a->cursor.data, d->cursor, d->cursor_n) != 0)) {
        save(d, a);
    }
    procfleet__v1__poll_reply__free_unpacked(a, NULL);
    client_reply_free(&r);
    return true;
}

static int run_durable(const struct options *o)
{
    struct durable d = {.o = o, .client = {.conf = &o->conf, .address = o->collector}};
    bool ok = true;

    durable_open(&d);
    while (ok && !over()) {
        ok = poll_once(&d);
    }
    fclose(d.output);
    client_close(&d.client);
    return ok || over() ? 0 : 1;
}

/* -- the command line -- */

static const char help[] =
    "usage: subscribe --ca FILE --cert FILE --key FILE [option...]\n"
    "Follows the events of a procfleet fleet: one JSON object a line.\n"
    "\n"
    "  --ca FILE              the fleet's authority (PROCFLEET_CA)\n"
    "  --cert FILE            certificate of role subscribe (PROCFLEET_CERT)\n"
    "  --key FILE             its key (PROCFLEET_KEY)\n"
    "  --events HOST:PORT     the event stream (PROCFLEET_EVENTS; localhost:7422)\n"
    "  --collector HOST:PORT  the query port, for Fetch and Poll (PROCFLEET_COLLECTOR;\n"
    "                         localhost:7421)\n"
    "  --samples              the newest samples instead of events\n"
    "  --for SECONDS          end after so long (never)\n"
    "  --lose N               live: drop every Nth message, to see that it comes back\n"
    "  --durable NAME         a subscription that the collector keeps\n"
    "  --output FILE          durable: append to FILE; FILE.cursor keeps the place\n"
    "  --from-oldest          durable: a new subscription begins with the oldest that is kept\n"
    "  --host GLOB            durable: only these hosts (may be given again)\n"
    "  --program GLOB         durable: only programs of this name\n"
    "\n"
    "Live, on standard output: holes in the numbers of messages are filled by asking the\n"
    "collector for what is missing. Durable: each event is in FILE exactly once, whoever is\n"
    "killed when. Exit code 5: something is gone for good.\n";

static const char *from_environment(const char *name, const char *preset)
{
    const char *value = getenv(name);

    return value && value[0] ? value : preset;
}

static double number(const char *option, const char *text)
{
    char *end;
    double v = strtod(text, &end);

    if (*end || end == text || !(v > 0 && v <= 1e9)) {
        say("--%s wants a number above 0", option);
        exit(2);
    }
    return v;
}

static void take_option(struct options *o, int c)
{
    switch (c) {
    case 'a':
        o->conf.ca = optarg;
        break;
    case 'c':
        o->conf.cert = optarg;
        break;
    case 'k':
        o->conf.key = optarg;
        break;
    case 'e':
        o->events = optarg;
        break;
    case 'q':
        o->collector = optarg;
        break;
    case 's':
        o->samples = true;
        break;
    case 'f':
        end_ms = now_ms() + (int64_t)(number("for", optarg) * 1000);
        break;
    case 'l':
        o->lose = (unsigned)number("lose", optarg);
        break;
    case 'd':
        o->durable = optarg;
        break;
    case 'o':
        o->output = optarg;
        break;
    case 'O':
        o->from_oldest = true;
        break;
    case 'H':
        if (o->n_hosts == HOSTS_MAX) {
            say("--host may be given %u times at most", HOSTS_MAX);
            exit(2);
        }
        o->hosts[o->n_hosts++] = optarg;
        break;
    case 'p':
        o->program = optarg;
        break;
    case 'h':
        fputs(help, stdout);
        exit(0);
    default:
        exit(2); /* getopt has said why */
    }
}

static const char *wrong(const struct options *o)
{
    if (!o->conf.ca || !o->conf.cert || !o->conf.key) {
        return "--ca, --cert and --key are needed ('procfleet-collector pki issue --role "
               "subscribe' makes them)";
    }
    if (!o->durable != !o->output) {
        return "--durable and --output belong together";
    }
    if (o->durable && o->lose) {
        return "--lose is for the live stream";
    }
    if (!o->durable && (o->from_oldest || o->n_hosts || o->program)) {
        return "--from-oldest, --host and --program need --durable";
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"ca", required_argument, NULL, 'a'},
        {"cert", required_argument, NULL, 'c'},
        {"key", required_argument, NULL, 'k'},
        {"events", required_argument, NULL, 'e'},
        {"collector", required_argument, NULL, 'q'},
        {"samples", no_argument, NULL, 's'},
        {"for", required_argument, NULL, 'f'},
        {"lose", required_argument, NULL, 'l'},
        {"durable", required_argument, NULL, 'd'},
        {"output", required_argument, NULL, 'o'},
        {"from-oldest", no_argument, NULL, 'O'},
        {"host", required_argument, NULL, 'H'},
        {"program", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options o = {
        .events = from_environment("PROCFLEET_EVENTS", "localhost:7422"),
        .collector = from_environment("PROCFLEET_COLLECTOR", "localhost:7421"),
        .conf = {.ca = from_environment("PROCFLEET_CA", NULL),
                 .cert = from_environment("PROCFLEET_CERT", NULL),
                 .key = from_environment("PROCFLEET_KEY", NULL),
                 .over = over},
    };

    for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        take_option(&o, c);
    }
    if (optind < argc || wrong(&o)) {
        say("%s (see --help)", optind < argc ? "options begin with --" : wrong(&o));
        return 2;
    }
    return o.durable ? run_durable(&o) : run_live(&o);
}
