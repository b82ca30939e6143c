/* Ports. A collector that is down leaves its port free, and a thousand agents dial it meanwhile. A
 * port from the range that outgoing connections get theirs from would sooner or later be given to
 * one of those, which then connects to itself. So ports are picked below that range. */
#include "tests/support/fleet_collector.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/os/os.h"

#define START_NS   (60 * CLK_S)
#define ASK_NS     (30 * CLK_S)
#define PORT_FIRST 10240u
#define SETS_MAX   48u
#define TRIES      8

extern char **environ;

struct fleet_collector {
    char program[FLEET_PATH_MAX], dir[FLEET_PATH_MAX], ports_file[FLEET_PATH_MAX + 16];
    char settings[SETS_MAX][FLEET_PATH_MAX + 64];
    size_t n_settings;
    char ingest[32], query[32], events[32];
    pid_t pid; /* 0 = not running */
};

/* -- ports -- */

static unsigned ports_below(void)
{
    unsigned low = 32768;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");

    if (f) {
        if (fscanf(f, "%u", &low) != 1 || low <= PORT_FIRST + 1000 || low > 65535) {
            low = 32768;
        }
        fclose(f);
    }
    return low;
}

static bool port_free(unsigned port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool free_now = fd >= 0 && bind(fd, (struct sockaddr *)&to, sizeof to) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return free_now;
}

static unsigned port_pick(void)
{
    unsigned span = ports_below() - PORT_FIRST;

    for (unsigned i = 0; i < 1000; i++) {
        uint32_t r;

        if (os_random(&r, sizeof r) == ERR_OK && port_free(PORT_FIRST + r % span)) {
            return PORT_FIRST + r % span;
        }
    }
    return 0;
}

/* -- the process -- */

static bool try_program(struct fleet_collector *c, const char *dir, const char *below)
{
    int n = snprintf(c->program, sizeof c->program, "%s/%sprocfleet-collector", dir, below);

    return n > 0 && n < (int)sizeof c->program && access(c->program, X_OK) == 0;
}

static enum err find_program(struct fleet_collector *c, const char *given, struct errmsg *why)
{
    const char *room = getenv("PROCFLEET_BIN");
    char self[FLEET_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (given) {
        (void)snprintf(c->program, sizeof c->program, "%s", given);
        return access(given, X_OK) == 0 ? ERR_OK
                                        : errmsg_set(why, ERR_NOTFOUND, "cannot run %s", given);
    }
    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/')) {
        *strrchr(self, '/') = '\0';
    }
    if ((room && try_program(c, room, "")) || try_program(c, self, "") ||
        try_program(c, self, "../")) {
        return ERR_OK;
    }
    return errmsg_set(why, ERR_NOTFOUND,
                      "no procfleet-collector beside this program; build it, or set PROCFLEET_BIN");
}

static enum err set(struct fleet_collector *c, const char *key, const char *value)
{
    size_t size = sizeof c->settings[0];

    if (c->n_settings == SETS_MAX) {
        return ERR_FULL;
    }
    return snprintf(c->settings[c->n_settings++], size, "%s=%s", key, value) < (int)size
               ? ERR_OK
               : ERR_RANGE;
}

static enum err spawn(struct fleet_collector *c)
{
    char *argv[2 * SETS_MAX + 5] = {c->program, (char *)(uintptr_t) "run",
                                    (char *)(uintptr_t) "--ports-file", c->ports_file};
    posix_spawn_file_actions_t files;
    char log[FLEET_PATH_MAX + 32];
    size_t n = 4;
    int r;

    for (size_t i = 0; i < c->n_settings; i++) {
        argv[n++] = (char *)(uintptr_t) "--set";
        argv[n++] = c->settings[i];
    }
    (void)snprintf(log, sizeof log, "%s/collector.log", c->dir);
    (void)unlink(c->ports_file);
    if (posix_spawn_file_actions_init(&files) != 0) {
        return ERR_NOMEM;
    }
    r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) |
        posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600) |
        posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (r == 0) {
        r = posix_spawn(&c->pid, c->program, &files, NULL, argv, environ);
    }
    posix_spawn_file_actions_destroy(&files);
    if (r != 0) {
        c->pid = 0;
    }
    return r == 0 ? ERR_OK : ERR_IO;
}

enum err fleet_collector_again(struct fleet_collector *c, struct errmsg *why)
{
    int64_t until_ns = os_mono_ns() + START_NS;
    enum err e = spawn(c);

    if (e) {
        return errmsg_set(why, e, "cannot start %s", c->program);
    }
    while (!os_exists(c->ports_file)) {
        if (waitpid(c->pid, NULL, WNOHANG) == c->pid) {
            c->pid = 0;
            return errmsg_set(why, ERR_IO, "the collector ended at once; see %s/collector.log",
                              c->dir);
        }
        if (os_mono_ns() > until_ns) {
            return errmsg_set(why, ERR_TIMEOUT,
                              "the collector does not begin to listen; see "
                              "%s/collector.log",
                              c->dir);
        }
        os_sleep_ns(5 * CLK_MS);
    }
    return ERR_OK;
}

static enum err configure(struct fleet_collector *c, const struct fleet_collector_conf *conf)
{
    char data[FLEET_PATH_MAX + 16];
    enum err e;

    (void)snprintf(c->dir, sizeof c->dir, "%s", conf->dir);
    (void)snprintf(c->ports_file, sizeof c->ports_file, "%s/ports", conf->dir);
    (void)snprintf(data, sizeof data, "%s/data", conf->dir);
    (void)snprintf(c->ingest, sizeof c->ingest, "127.0.0.1:%u", port_pick());
    (void)snprintf(c->query, sizeof c->query, "127.0.0.1:%u", port_pick());
    if (conf->events) {
        (void)snprintf(c->events, sizeof c->events, "127.0.0.1:%u", port_pick());
    }
    c->n_settings = 0;
    e = set(c, "data_dir", data);
    e = e ? e : set(c, "tls.ca", conf->keys->ca);
    e = e ? e : set(c, "tls.cert", conf->keys->cert);
    e = e ? e : set(c, "tls.key", conf->keys->key);
    e = e ? e : set(c, "listen.ingest", c->ingest);
    e = e ? e : set(c, "listen.query", c->query);
    e = e ? e : set(c, "listen.events", c->events);
    e = e ? e : set(c, "listen.enroll", "");
    e = e ? e : set(c, "listen.http", "");
    for (size_t i = 0; i < conf->n_sets && !e; i++) {
        e = c->n_settings == SETS_MAX ? ERR_FULL : ERR_OK;
        if (!e) {
            (void)snprintf(c->settings[c->n_settings++], sizeof c->settings[0], "%s",
                           conf->sets[i]);
        }
    }
    return e;
}

/* A port may be taken between its choice and its use: then others. */
enum err fleet_collector_start(struct fleet_collector **out,
                               const struct fleet_collector_conf *conf, struct errmsg *why)
{
    struct fleet_collector *c = mem_zalloc(sizeof *c);
    enum err e = c ? find_program(c, conf->program, why) : ERR_NOMEM;

    if (!e) {
        e = os_mkdirs(conf->dir, true);
    }
    for (int i = 0; i < TRIES && (!e || e == ERR_IO); i++) {
        e = configure(c, conf);
        if (!e) {
            e = fleet_collector_again(c, why);
        }
        if (!e) {
            *out = c;
            return ERR_OK;
        }
    }
    fleet_collector_close(c);
    return e;
}

void fleet_collector_end(struct fleet_collector *c, int signal)
{
    if (c->pid) {
        (void)kill(c->pid, signal);
        (void)waitpid(c->pid, NULL, 0);
        c->pid = 0;
    }
}

void fleet_collector_close(struct fleet_collector *c)
{
    if (c) {
        fleet_collector_end(c, SIGKILL);
        mem_free(c);
    }
}

void fleet_collector_forget_tickets(struct fleet_collector *c)
{
    char path[FLEET_PATH_MAX + 32];

    (void)snprintf(path, sizeof path, "%s/data/ticket.keys", c->dir);
    (void)unlink(path);
}

const char *fleet_collector_ingest(const struct fleet_collector *c)
{
    return c->ingest;
}

const char *fleet_collector_query(const struct fleet_collector *c)
{
    return c->query;
}

const char *fleet_collector_events(const struct fleet_collector *c)
{
    return c->events;
}

enum err fleet_collector_beside(const struct fleet_collector *c, const char *program, char *path,
                                size_t size)
{
    const char *end = strrchr(c->program, '/');
    int dir = end ? (int)(end - c->program + 1) : 0;
    int n = snprintf(path, size, "%.*s%s", dir, c->program, program);

    if (n < 0 || (size_t)n >= size) {
        return ERR_RANGE;
    }
    return access(path, X_OK) == 0 ? ERR_OK : ERR_NOTFOUND;
}

int fleet_collector_pid(const struct fleet_collector *c)
{
    return c->pid;
}

/* -- usage -- */

static FILE *proc_file(int pid, const char *name)
{
    char path[64];

    if (pid) {
        (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    } else {
        (void)snprintf(path, sizeof path, "/proc/self/%s", name);
    }
    return fopen(path, "r");
}

static void read_status(struct fleet_usage *out, int pid)
{
    FILE *f = proc_file(pid, "status");
    char line[256];
    long long n;

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmRSS: %lld", &n) == 1) {
            out->resident_bytes = n * 1024;
        } else if (sscanf(line, "VmHWM: %lld", &n) == 1) {
            out->peak_bytes = n * 1024;
        } else if (sscanf(line, "Threads: %lld", &n) == 1) {
            out->threads = (unsigned)n;
        }
    }
    if (f) {
        fclose(f);
    }
}

static void read_io(struct fleet_usage *out, int pid)
{
    FILE *f = proc_file(pid, "io");
    char line[256];
    long long n;

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "write_bytes: %lld", &n) == 1) {
            out->written_bytes = n;
        }
    }
    if (f) {
        fclose(f);
    }
}

static void read_cpu(struct fleet_usage *out, int pid)
{
    struct timespec t;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &t) == 0) {
        out->cpu_ns = t.tv_sec * CLK_S + t.tv_nsec;
    }
}

static void read_files(struct fleet_usage *out, int pid)
{
    char path[64];
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%d/fd", pid ? pid : (int)getpid());
    dir = opendir(path);
    while (dir && readdir(dir)) {
        out->files++;
    }
    out->files = out->files > 2 ? out->files - 2 : 0; /* "." and ".." */
    if (dir) {
        closedir(dir);
    }
}

void fleet_usage(struct fleet_usage *out, int pid)
{
    *out = (struct fleet_usage){0};
    read_status(out, pid);
    read_cpu(out, pid);
    read_io(out, pid);
    read_files(out, pid);
}

/* -- questions -- */

struct asking {
    struct rpc_client *client;
    struct buf request, reply;
    struct rpc_result result;
};

static enum err ask_page(struct asking *a, struct str cursor, struct errmsg *why)
{
    struct wire_query q = {.limit = 1000, .cursor = cursor};
    enum err e;

    buf_reset(&a->request);
    buf_reset(&a->reply);
    e = wire_query_encode(&a->request, &q);
    if (!e) {
        e = rpc_client_call(a->client, RPC_QUERY_HOSTS, FRAME_RAW, a->request.p, a->request.n,
                            ASK_NS, &a->reply, &a->result);
    }
    if (e) {
        return errmsg_set(why, e, "cannot ask for the hosts: %s %.200s", err_text(e),
                          e == ERR_REFUSED ? a->result.message : "");
    }
    return ERR_OK;
}

static enum err ask_all(struct asking *a, void (*each)(void *ctx, const struct wire_host *host),
                        void *ctx, struct errmsg *why)
{
    uint8_t cursor[sizeof a->result.cursor];
    struct str from = {"", 0};
    enum err e;

    do {
        struct wire_answer *answer;

        e = ask_page(a, from, why);
        if (!e) {
            e = wire_answer_decode(&answer, a->reply.p, a->reply.n);
        }
        if (e) {
            return e;
        }
        for (size_t i = 0; i < answer->n_hosts; i++) {
            each(ctx, &answer->hosts[i]);
        }
        wire_answer_free(answer);
        memcpy(cursor, a->result.cursor, a->result.cursor_n);
        from = (struct str){(const char *)cursor, a->result.cursor_n};
    } while (a->result.more);
    return ERR_OK;
}

enum err fleet_ask_hosts(const char *address, const struct fleet_keys *keys,
                         void (*each)(void *ctx, const struct wire_host *host), void *ctx,
                         struct errmsg *why)
{
    struct net_tls_conf tls_conf = {
        .ca = keys->ca, .cert = keys->cert, .key = keys->key, .server_name = "procfleet-collector"};
    struct net_client_conf net = {.address = address, .receive_max = 4u << 20};
    struct asking a = {0};
    enum err e = tls_config_load(&net.tls, &tls_conf, false, why);

    if (e) {
        return e;
    }
    buf_init(&a.request, 64u << 10);
    buf_init(&a.reply, 8u << 20);
    e = rpc_client_open(&a.client, &net, "bench_fleet", why);
    if (!e) {
        e = rpc_client_wait(a.client, ASK_NS, why);
    }
    if (!e) {
        e = ask_all(&a, each, ctx, why);
    }
    rpc_client_close(a.client);
    tls_config_free(net.tls);
    buf_fini(&a.request);
    buf_fini(&a.reply);
    return e;
}
