#include "common/lab/host_class.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/utf8.h"
#include "common/model/inventory.h"

const char *const host_class_default[] = {"os_name",   "os_build",     "cpu_model",
                                          "cpu_cores", "memory_bytes", NULL};

const char *host_class_key(struct str word)
{
    static const char *const names[] = {
#define NAME(name) #name,
        INVENTORY_TEXTS(NAME) INVENTORY_NUMBERS(NAME)
#undef NAME
    };
    static const char *const short_names[][2] = {
        {"cpu", "cpu_model"}, {"cores", "cpu_cores"}, {"memory", "memory_bytes"}};

    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++) {
        if (str_eq(word, str_make(short_names[i][0]))) {
            return short_names[i][1];
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (str_eq(word, str_make(names[i]))) {
            return names[i];
        }
    }
    return NULL;
}

enum err host_class_parse(const char *keys[HOST_CLASS_KEYS + 1], const char *list,
                          struct errmsg *why)
{
    size_t at = 0;

    for (size_t n; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        keys[at] = at < HOST_CLASS_KEYS ? host_class_key((struct str){list, n}) : NULL;
        if (!keys[at]) {
            return errmsg_set(why, ERR_USAGE,
                              "'%.*s' is no name of the inventory, such as os_build, cpu_model, "
                              "cpu_cores, memory_bytes",
                              (int)(n < 40 ? n : 40), list);
        }
        at++;
    }
    keys[at] = NULL;
    return at ? ERR_OK : errmsg_set(why, ERR_USAGE, "a name of the inventory is expected");
}

struct str host_class_fact(const struct run_pair *facts, size_t n, const char *key)
{
    struct str wanted = str_make(key);

    for (size_t i = 0; i < n; i++) {
        if (str_eq(facts[i].key, wanted)) {
            return facts[i].value;
        }
    }
    return str_make(NULL);
}

static uint64_t number_of(struct str s)
{
    uint64_t v = 0;

    for (size_t i = 0; i < s.n && s.p[i] >= '0' && s.p[i] <= '9' && v < UINT64_MAX / 20; i++) {
        v = v * 10 + (uint64_t)(s.p[i] - '0');
    }
    return v;
}

/* Appends, cut at the size. */
static void put(char *to, size_t *n, struct str s)
{
    size_t left = HOST_CLASS_TEXT - 1 - *n, take = s.n < left ? s.n : left;

    if (take) {
        memcpy(to + *n, s.p, take);
    }
    *n += take;
}

static void put_fact(char *to, size_t *n, const char *key, struct str value)
{
    if (strcmp(key, "memory_bytes") == 0) {
        char gib[24];

        (void)snprintf(gib, sizeof gib, "%" PRIu64 "G", (number_of(value) + (1u << 29)) >> 30);
        put(to, n, str_make(gib));
        return;
    }
    if (strcmp(key, "os_build") == 0) {
        const char *dot = memchr(value.p, '.', value.n);

        value.n = dot ? (size_t)(dot - value.p) : value.n;
    }
    put(to, n, value);
    if (strcmp(key, "cpu_cores") == 0) {
        put(to, n, str_make("c"));
    }
}

const char *host_class_text(char text[HOST_CLASS_TEXT], const struct run_pair *facts, size_t n,
                            const char *const *keys)
{
    char raw[HOST_CLASS_TEXT];
    bool known = false;
    size_t used = 0;

    for (size_t i = 0; keys[i]; i++) {
        struct str value = host_class_fact(facts, n, keys[i]);

        if (i > 0) {
            put(raw, &used, str_make("/"));
        }
        if (value.n) {
            put_fact(raw, &used, keys[i], value);
            known = true;
        } else {
            put(raw, &used, str_make("-"));
        }
    }
    (void)utf8_clean(text, HOST_CLASS_TEXT, raw, known ? used : 0);
    return text;
}

unsigned host_class_id(const char *text)
{
    return (unsigned)(hash_bytes(text, strlen(text), 0) & 0xffff);
}
