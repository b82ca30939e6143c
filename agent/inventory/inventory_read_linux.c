/* /etc/os-release, procfs, sysfs. A container sees its own os-release, and the machine's else. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/inventory/inventory_read.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define FILE_MAX  (256u << 10) /* more of a file is not read */
#define CORES_MAX 4096u

struct core {
    uint64_t socket, core;
};

/* -- files -- */

/* The file's first FILE_MAX bytes with a NUL, mem_free; NULL: it cannot be read. procfs tells no
 * sizes, so os_read_file's limit does not serve: /proc/cpuinfo of large machines is longer. */
static char *file_read(const char *root, const char *path, size_t *n)
{
    char name[PATH_MAX];
    char *p = mem_alloc(FILE_MAX + 1);
    FILE *f;

    (void)snprintf(name, sizeof name, "%s%s", root, path);
    f = p ? os_fopen(name, "r") : NULL;
    if (!f) {
        mem_free(p);
        return NULL;
    }
    *n = fread(p, 1, FILE_MAX, f);
    p[*n] = '\0';
    (void)fclose(f);
    return p;
}

static void file_text(char to[INVENTORY_TEXT_MAX + 1], const char *root, const char *path)
{
    size_t n;
    char *p = file_read(root, path, &n);

    if (p) {
        inventory_host_text(to, p, n);
    }
    mem_free(p);
}

/* The line's length, and its start in *line; the next one begins behind *at. */
static bool line_next(const char **at, const char **line, size_t *n)
{
    if (!**at) {
        return false;
    }
    *line = *at;
    *n = strcspn(*at, "\n");
    *at += *n + ((*at)[*n] == '\n');
    return true;
}

/* Behind "key", blanks and the separator: the value; NULL: another line. */
static const char *line_value(const char *line, size_t *n, const char *key, char separator)
{
    size_t i = strlen(key);

    if (*n < i || memcmp(line, key, i) != 0) {
        return NULL;
    }
    while (i < *n && (line[i] == ' ' || line[i] == '\t')) {
        i++;
    }
    if (i == *n || line[i] != separator) {
        return NULL;
    }
    i++;
    while (i < *n && (line[i] == ' ' || line[i] == '\t')) {
        i++;
    }
    *n -= i;
    return line + i;
}

/* -- the system -- */

static void os_release_text(char to[INVENTORY_TEXT_MAX + 1], const char *v, size_t n)
{
    if (n > 1 && (v[0] == '"' || v[0] == '\'') && v[n - 1] == v[0]) {
        v++;
        n -= 2;
    }
    inventory_host_text(to, v, n);
}

/* "Debian GNU/Linux 12": name and version, without the words that releases of one version differ
 * in. A system without BUILD_ID has its kernel as build. */
static void os_read(struct inventory_read *out, const char *root)
{
    char name[INVENTORY_TEXT_MAX + 1] = "", text[2 * INVENTORY_TEXT_MAX + 2];
    const char *at, *line, *v;
    size_t n;
    char *p = file_read(root, "/etc/os-release", &n);

    p = p ? p : file_read(root, "/usr/lib/os-release", &n);
    at = p ? p : "";
    while (line_next(&at, &line, &n)) {
        size_t left = n;

        if ((v = line_value(line, &left, "NAME", '=')) != NULL) {
            os_release_text(name, v, left);
        }
        left = n;
        if ((v = line_value(line, &left, "VERSION_ID", '=')) != NULL) {
            os_release_text(out->os_version, v, left);
        }
        left = n;
        if ((v = line_value(line, &left, "BUILD_ID", '=')) != NULL) {
            os_release_text(out->os_build, v, left);
        }
    }
    mem_free(p);
    (void)snprintf(text, sizeof text, "%s %s", name[0] ? name : "Linux", out->os_version);
    inventory_host_text(out->os_name, text, strlen(text));
    if (!out->os_build[0]) {
        memcpy(out->os_build, out->kernel, sizeof out->os_build);
    }
}

static void zone_read(struct inventory_read *out, const char *root)
{
    char name[PATH_MAX], target[PATH_MAX];
    const char *zone;
    ssize_t n;

    (void)snprintf(name, sizeof name, "%s/etc/localtime", root);
    n = readlink(name, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    zone = strstr(target, "zoneinfo/");
    if (zone) {
        zone += strlen("zoneinfo/");
        inventory_host_text(out->zone, zone, strlen(zone));
    } else {
        file_text(out->zone, root, "/etc/timezone");
    }
}

static void boot_read(struct inventory_read *out, const char *root)
{
    size_t n;
    char *p = file_read(root, "/proc/stat", &n);
    const char *line = p ? strstr(p, "\nbtime ") : NULL;
    long long s = line ? strtoll(line + strlen("\nbtime "), NULL, 10) : 0;

    if (s > 0 && s < INT64_MAX / CLK_S) {
        out->boot_time = s * CLK_S;
    }
    mem_free(p);
}

/* -- the machine -- */

/* "0-1,4": how many. */
static uint64_t range_count(const char *text)
{
    uint64_t count = 0;

    while (*text >= '0' && *text <= '9') {
        char *end;
        uint64_t first = strtoull(text, &end, 10), last = first;

        if (*end == '-') {
            last = strtoull(end + 1, &end, 10);
        }
        count += last >= first && last - first < CORES_MAX ? last - first + 1 : 0;
        text = *end == ',' ? end + 1 : "";
    }
    return count;
}

struct cpus {
    struct core *cores; /* different ones */
    size_t n;
    struct core now; /* of the CPU that is being read */
    bool has_core;
    uint64_t cpus, sockets;
    bool virtual;
};

static void cpu_end(struct cpus *c)
{
    bool core_known = !c->has_core, socket_known = !c->has_core;

    for (size_t i = 0; i < c->n; i++) {
        bool socket = c->cores[i].socket == c->now.socket;

        socket_known = socket_known || socket;
        core_known = core_known || (socket && c->cores[i].core == c->now.core);
    }
    if (!core_known && c->n < CORES_MAX) {
        c->cores[c->n++] = c->now;
    }
    c->sockets += !socket_known;
    c->has_core = false;
}

static bool has_flag(const char *flags, size_t n, const char *flag)
{
    size_t m = strlen(flag);

    for (size_t i = 0; i + m <= n; i++) {
        if (memcmp(flags + i, flag, m) == 0 && (i == 0 || flags[i - 1] == ' ') &&
            (i + m == n || flags[i + m] == ' ')) {
            return true;
        }
    }
    return false;
}

static void cpu_line(struct cpus *c, struct inventory_read *out, const char *line, size_t n)
{
    size_t left = n;
    const char *v = line_value(line, &left, "processor", ':');

    if (v) {
        c->cpus++;
        return;
    }
    left = n;
    v = line_value(line, &left, "physical id", ':');
    if (v) {
        c->now.socket = strtoull(v, NULL, 10);
        return;
    }
    left = n;
    v = line_value(line, &left, "core id", ':');
    if (v) {
        c->now.core = strtoull(v, NULL, 10);
        c->has_core = true;
        return;
    }
    left = n;
    v = out->cpu_model[0] ? NULL : line_value(line, &left, "model name", ':');
    if (v) {
        inventory_host_text(out->cpu_model, v, left);
        return;
    }
    left = n;
    v = c->virtual ? NULL : line_value(line, &left, "flags", ':');
    if (v) {
        c->virtual = has_flag(v, left, "hypervisor");
    }
}

/* Cores are different pairs of socket and core; where the kernel tells none, as on ARM, every CPU
 * counts as a core. */
static bool cpus_read(struct inventory_read *out, const char *root)
{
    struct cpus c = {.cores = mem_array(CORES_MAX, sizeof *c.cores)};
    const char *at, *line;
    size_t n;
    char *p = c.cores ? file_read(root, "/proc/cpuinfo", &n) : NULL;

    at = p ? p : "";
    while (line_next(&at, &line, &n)) {
        cpu_line(&c, out, line, n);
        if (n == 0) {
            cpu_end(&c);
        }
    }
    cpu_end(&c);
    out->cpus = c.cpus;
    out->cpu_cores = c.n ? c.n : c.cpus;
    out->cpu_sockets = c.sockets;
    mem_free(p);
    mem_free(c.cores);
    return c.virtual;
}

static void memory_read(struct inventory_read *out, const char *root)
{
    size_t n;
    char *p = file_read(root, "/proc/meminfo", &n);
    const char *v = p ? strstr(p, "MemTotal:") : NULL;
    uint64_t kib = v ? strtoull(v + strlen("MemTotal:"), NULL, 10) : 0;

    out->memory_bytes = kib < UINT64_MAX / 1024 ? kib * 1024 : 0;
    mem_free(p);
}

/* Whose machine a virtual one is; "virtual" where only the CPU tells. */
static void hypervisor_read(struct inventory_read *out, const char *root, bool flagged)
{
    static const struct {
        const char *vendor, *name;
    } known[] = {{"QEMU", "kvm"},          {"VMware", "vmware"},
                 {"Microsoft", "hyper-v"}, {"innotek", "virtualbox"},
                 {"Amazon EC2", "kvm"},    {"Google", "kvm"},
                 {"Xen", "xen"},           {"Parallels", "parallels"}};

    file_text(out->hypervisor, root, "/sys/hypervisor/type");
    for (size_t i = 0; i < sizeof known / sizeof *known && flagged && !out->hypervisor[0]; i++) {
        if (strncmp(out->vendor, known[i].vendor, strlen(known[i].vendor)) == 0) {
            inventory_host_text(out->hypervisor, known[i].name, strlen(known[i].name));
        }
    }
    if (flagged && !out->hypervisor[0]) {
        inventory_host_text(out->hypervisor, "virtual", strlen("virtual"));
    }
}

void inventory_read_governor(char governor[INVENTORY_TEXT_MAX + 1], const char *root)
{
    file_text(governor, root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
}

void inventory_read(struct inventory_read *out, const char *root)
{
    char text[INVENTORY_TEXT_MAX + 1] = "";
    struct utsname u;
    long page = sysconf(_SC_PAGESIZE);
    bool flagged;

    *out = (struct inventory_read){.os = "linux"};
    if (uname(&u) == 0) {
        inventory_host_text(out->arch, u.machine, strlen(u.machine));
    }
    file_text(out->kernel, root, "/proc/sys/kernel/osrelease");
    os_read(out, root);
    file_text(out->vendor, root, "/sys/class/dmi/id/sys_vendor");
    file_text(out->model, root, "/sys/class/dmi/id/product_name");
    zone_read(out, root);
    boot_read(out, root);
    flagged = cpus_read(out, root);
    hypervisor_read(out, root, flagged);
    memory_read(out, root);
    file_text(text, root, "/sys/devices/system/node/online");
    out->numa_nodes = range_count(text);
    out->page_bytes = page > 0 ? (uint64_t)page : 0;
    inventory_read_governor(out->governor, root);
}

size_t inventory_read_encode(uint8_t out[WIRE_FACTS_MAX], const struct facts *f)
{
    struct buf b;
    size_t n = 0;

    buf_init(&b, WIRE_FACTS_MAX);
    if (wire_facts_encode(&b, f) == ERR_OK) {
        memcpy(out, b.p, b.n);
        n = b.n;
    }
    buf_fini(&b);
    return n;
}
