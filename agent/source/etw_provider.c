#include "agent/source/etw_provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/conf/opt.h"

#define LEVEL_DEFAULT 4
#define LEVEL_MAX     5
#define WORD_MAX      64

static const struct {
    const char *name;
    uint8_t guid[16];
} known[] = {
    {ETW_PROVIDER_KERNEL_PROCESS_NAME, ETW_PROVIDER_KERNEL_PROCESS},
    {"Microsoft-Windows-DotNETRuntime",
     ETW_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4)},
    {"IIS: WWW Server",
     ETW_GUID(0x3a2a4e84, 0x4c21, 0x4981, 0xae, 0x10, 0x3f, 0xda, 0x0d, 0x9b, 0x0f, 0x83)},
    {"Microsoft-Windows-IIS-Logging",
     ETW_GUID(0x7e8ad27f, 0xb271, 0x4ea2, 0xa7, 0x83, 0xa4, 0x7b, 0xde, 0x29, 0x14, 0x3b)},
    {"Microsoft-Windows-Direct3D11",
     ETW_GUID(0xdb6f6ddb, 0xac77, 0x4e88, 0x82, 0x53, 0x81, 0x9d, 0xf9, 0xbb, 0xf1, 0x40)},
    {"Microsoft-Windows-DXGI", ETW_PROVIDER_DXGI},
    {"Microsoft-Windows-D3D9", ETW_PROVIDER_D3D9},
    {"Microsoft-Windows-Dwm-Core",
     ETW_GUID(0x9e9bba3c, 0x2e38, 0x40cb, 0x99, 0xf4, 0x9e, 0x82, 0x81, 0x42, 0x51, 0x64)},
};

#define KNOWN (sizeof known / sizeof known[0])

/* ---- GUIDs ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum err etw_provider_guid(uint8_t out[16], const char *text, size_t n)
{
    /* Where each byte stands in memory: the first three groups are numbers, lowest byte first. */
    static const uint8_t place[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    uint8_t guid[16];
    size_t at = 0;

    if (n == 38 && text[0] == '{' && text[37] == '}') {
        text++;
        n -= 2;
    }
    if (n != 36) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < 36; at++) {
        int high, low;

        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text[i++] != '-') {
                return ERR_INVALID;
            }
        }
        high = hex_digit(text[i]);
        low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0) {
            return ERR_INVALID;
        }
        guid[place[at]] = (uint8_t)(high << 4 | low);
        i += 2;
    }
    memcpy(out, guid, sizeof guid);
    return ERR_OK;
}

const char *etw_provider_name(const uint8_t guid[16])
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (memcmp(known[i].guid, guid, 16) == 0) {
            return known[i].name;
        }
    }
    return NULL;
}

/* ---- names ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool same_name(const char *name, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lower(name[i]) != lower(text[i])) {
            return false; /* also where name ends */
        }
    }
    return name[n] == '\0';
}

static enum err unknown_name(const char *text, size_t n, struct errmsg *why)
{
    const char *names[KNOWN], *closest;
    char word[WORD_MAX];

    n = n < sizeof word ? n : sizeof word - 1;
    memcpy(word, text, n);
    word[n] = '\0';
    for (size_t i = 0; i < KNOWN; i++) {
        names[i] = known[i].name;
    }
    closest = opt_closest(word, names, KNOWN);
    return errmsg_set(why, ERR_NOTFOUND, "no provider '%s' is known%s%s%s", word,
                      closest ? "; did you mean '" : "", closest ? closest : "",
                      closest ? "'?" : "; write its GUID (logman query providers)");
}

/* The name or GUID at the start of the text, of which *rest is what follows. Names may have
 * colons: the longest that fits is meant. */
static enum err read_who(struct source_provider *p, const char *text, const char **rest,
                         struct errmsg *why)
{
    size_t n = strcspn(text, ":# ");
    size_t best = 0;

    if (etw_provider_guid(p->guid, text, n) == ERR_OK) {
        *rest = text + n;
        return ERR_OK;
    }
    for (size_t i = 0; i < KNOWN; i++) {
        size_t m = strlen(known[i].name);
        bool fits = strlen(text) >= m && same_name(known[i].name, text, m) &&
                    (text[m] == '\0' || strchr(":# ", text[m]));

        if (fits && m > best) {
            best = m;
            memcpy(p->guid, known[i].guid, sizeof p->guid);
        }
    }
    *rest = text + best;
    return best ? ERR_OK : unknown_name(text, strcspn(text, ":#"), why);
}

/* ---- numbers ---- */

/* A number up to `max` that ends at one of `stops` or the end; *text goes behind it. */
static enum err read_number(uint64_t *out, const char **text, const char *stops, uint64_t max)
{
    bool hex = strncmp(*text, "0x", 2) == 0;
    unsigned long long v;
    char *end;

    if (**text < '0' || **text > '9') {
        return ERR_INVALID;
    }
    errno = 0;
    v = strtoull(*text, &end, hex ? 16 : 10);
    if ((*end && !strchr(stops, *end)) || v > max || errno) {
        return ERR_INVALID;
    }
    *out = v;
    *text = end;
    return ERR_OK;
}

static enum err read_ids(struct source_provider *p, const char **text, struct errmsg *why)
{
    do {
        uint64_t id;

        ++*text; /* '#' or '+' */
        if (read_number(&id, text, "+ ", UINT16_MAX)) {
            return errmsg_set(why, ERR_INVALID, "event ids are 0 to 65535, as in #1+2+15");
        }
        if (p->n_ids == SOURCE_PROVIDER_IDS) {
            return errmsg_set(why, ERR_INVALID, "at most %d event ids can be filtered",
                              SOURCE_PROVIDER_IDS);
        }
        p->ids[p->n_ids++] = (uint16_t)id;
    } while (**text == '+');
    return ERR_OK;
}

/* ---- filters ---- */

/* "12+13" up to a blank or the end. */
static enum err read_pids(struct source_provider *p, const char *text, size_t n, struct errmsg *why)
{
    const char *end = text + n;

    while (text < end || p->n_pids == 0) {
        uint64_t pid;

        if (read_number(&pid, &text, "+ ", UINT32_MAX) || p->n_pids == SOURCE_PROVIDER_PIDS) {
            return errmsg_set(why, ERR_INVALID, "pid= takes up to %d numbers, as in pid=12+13",
                              SOURCE_PROVIDER_PIDS);
        }
        p->pids[p->n_pids++] = (uint32_t)pid;
        text += *text == '+';
    }
    return text[-1] == '+' ? errmsg_set(why, ERR_INVALID, "pid= ends with a +") : ERR_OK;
}

/* "a.exe+b.exe", kept as the system takes it. */
static enum err read_exe(struct source_provider *p, const char *text, size_t n, struct errmsg *why)
{
    bool bad = n == 0 || n >= sizeof p->exe || text[0] == '+' || text[n - 1] == '+';

    for (size_t i = 0; i < n && !bad; i++) {
        bad = strchr("\\/;*?:", text[i]) || (text[i] == '+' && text[i + 1] == '+');
        p->exe[i] = text[i];
        if (text[i] == '+') {
            p->exe[i] = ';';
        }
    }
    return bad ? errmsg_set(why, ERR_INVALID,
                            "exe= takes names of programs without folder and patterns, as in "
                            "exe=a.exe+b.exe, at most %d bytes",
                            SOURCE_PROVIDER_EXE - 1)
               : ERR_OK;
}

static enum err read_where(struct source_provider *p, const char *text, size_t n,
                           struct errmsg *why)
{
    const char *equal = memchr(text, '=', n);
    size_t name = equal ? (size_t)(equal - text) : 0, value = equal ? n - name - 1 : 0;

    if (name == 0 || value == 0 || name >= sizeof p->field || value >= sizeof p->value) {
        return errmsg_set(why, ERR_INVALID,
                          "where=FIELD=VALUE is expected, each of at most %d bytes",
                          SOURCE_PROVIDER_FIELD - 1);
    }
    if (p->n_ids == 0) {
        return errmsg_set(why, ERR_INVALID, "where= needs the ids of the events meant, as in #1+2");
    }
    memcpy(p->field, text, name);
    memcpy(p->value, equal + 1, value);
    return ERR_OK;
}

static enum err read_filters(struct source_provider *p, const char *text, struct errmsg *why)
{
    static const struct {
        const char *key;
        enum err (*read)(struct source_provider *, const char *, size_t, struct errmsg *);
    } keys[] = {{"pid=", read_pids}, {"exe=", read_exe}, {"where=", read_where}};
    unsigned seen = 0;
    enum err e = ERR_OK;

    for (text += strspn(text, " "); !e && *text; text += strspn(text, " ")) {
        size_t n = strcspn(text, " "), i = 0, key = 0;

        while (i < sizeof keys / sizeof *keys &&
               strncmp(text, keys[i].key, key = strlen(keys[i].key))) {
            i++;
        }
        if (strncmp(text, "stack=", 6) == 0) {
            return errmsg_set(
                why, ERR_UNSUPPORTED,
                "stack= is not taken: batches hold no stacks, so that they would cost "
                "the machine and tell nobody; 'record --stacks' has those of the "
                "kernel's events");
        }
        if (i == sizeof keys / sizeof *keys || (seen & 1u << i)) {
            return errmsg_set(why, ERR_INVALID, "'%.*s' is too much; %s", (int)(n < 40 ? n : 40),
                              text,
                              "NAME-OR-GUID[:LEVEL[:ANY[:ALL]]][#ID+ID] is expected, then "
                              "pid=, exe= and where=FIELD=VALUE, each once");
        }
        seen |= 1u << i;
        e = keys[i].read(p, text + key, n - key, why);
        text += n;
    }
    return e;
}

bool etw_provider_filters(const struct source_provider *p)
{
    return p->n_ids || p->n_pids || p->exe[0] || p->field[0];
}

static bool has_name(const char *list, const char *name, size_t n)
{
    for (size_t m; *list; list += m + (list[m] == ';')) {
        m = strcspn(list, ";");
        for (size_t i = 0; m == n && lower(list[i]) == lower(name[i]);) {
            if (++i == n) {
                return true;
            }
        }
    }
    return false;
}

bool etw_provider_means(const struct source_provider *p, uint16_t id, uint32_t pid,
                        const char *name, size_t n)
{
    bool ids = p->n_ids == 0, pids = p->n_pids == 0;

    for (size_t i = 0; i < p->n_ids && !ids; i++) {
        ids = p->ids[i] == id;
    }
    for (size_t i = 0; i < p->n_pids && !pids; i++) {
        pids = p->pids[i] == pid;
    }
    return ids && pids && (!p->exe[0] || n == 0 || has_name(p->exe, name, n));
}

/* ---- the whole ---- */

static enum err read_tail(struct source_provider *p, const char *text, struct errmsg *why)
{
    uint64_t level = p->level;
    struct {
        uint64_t *out, max;
        const char *what;
    } parts[] = {{&level, LEVEL_MAX, "the level is 0 to 5"},
                 {&p->any, UINT64_MAX, "keywords (any) are a number, as 0x10"},
                 {&p->all, UINT64_MAX, "keywords (all) are a number, as 0x10"}};
    enum err e;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && *text == ':'; i++) {
        text++;
        if (read_number(parts[i].out, &text, ":# ", parts[i].max)) {
            return errmsg_set(why, ERR_INVALID, "%s", parts[i].what);
        }
    }
    p->level = (uint8_t)level;
    e = *text == '#' ? read_ids(p, &text, why) : ERR_OK;
    return e ? e : read_filters(p, text, why);
}

enum err etw_provider_parse(struct source_provider *out, const char *text, struct errmsg *why)
{
    static const uint8_t kernel_process[16] = ETW_PROVIDER_KERNEL_PROCESS;
    struct source_provider p = {.level = LEVEL_DEFAULT};
    const char *rest;
    enum err e = read_who(&p, text, &rest, why);

    if (e) {
        return e;
    }
    p.rundown = memcmp(p.guid, kernel_process, sizeof p.guid) == 0;
    p.any = p.rundown ? ETW_KEYWORD_PROCESS : 0;
    e = read_tail(&p, rest, why);
    if (e) {
        return e;
    }
    *out = p;
    return ERR_OK;
}
