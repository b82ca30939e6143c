/* The table of keys as people read it: in --help and as a sample file. Limits are written in the
 * largest unit that holds them without a remainder, so that what is printed can be typed in. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/conf/conf.h"
#include "common/conf/opt.h"

#define HELP_COLUMN 6

struct unit {
    int64_t size;
    const char *name;
};

static const struct unit sizes[] = {
    {1LL << 40, " TiB"}, {1LL << 30, " GiB"}, {1LL << 20, " MiB"}, {1LL << 10, " KiB"}, {1, " B"}};
static const struct unit spans[] = {{24 * 3600 * CLK_S, "d"},
                                    {3600 * CLK_S, "h"},
                                    {60 * CLK_S, "min"},
                                    {CLK_S, "s"},
                                    {CLK_MS, "ms"},
                                    {CLK_US, "us"},
                                    {1, "ns"}};

static void put_units(char *text, size_t size, int64_t v, const struct unit *units)
{
    while (v == 0 ? units->size != 1 : v % units->size != 0) {
        units++;
    }
    (void)snprintf(text, size, "%" PRId64 "%s", v / units->size, units->name);
}

/* 100 is "0.1" */
static void put_thousandths(char *text, size_t size, int64_t v)
{
    size_t n;

    (void)snprintf(text, size, "%" PRId64 ".%03d", v / 1000, (int)(v % 1000));
    n = strlen(text);
    while (text[n - 1] == '0') {
        text[--n] = '\0';
    }
    if (text[n - 1] == '.') {
        text[n - 1] = '\0';
    }
}

static void put_limit(char *text, size_t size, const struct conf_key *k, int64_t v)
{
    if (v == 0) {
        (void)snprintf(text, size, "0"); /* of any unit */
    } else if (k->type == CONF_SIZE) {
        put_units(text, size, v, sizes);
    } else if (k->type == CONF_SPAN) {
        put_units(text, size, v, spans);
    } else if (k->type == CONF_NUMBER) {
        put_thousandths(text, size, v);
    } else {
        (void)snprintf(text, size, "%" PRId64, v);
    }
}

const char *conf_range(char *text, size_t size, const struct conf_key *k)
{
    char min[40], max[40];

    text[0] = '\0';
    switch (k->type) {
    case CONF_TEXT:
        break;
    case CONF_BOOL:
        (void)snprintf(text, size, "true or false");
        break;
    case CONF_CHOICE:
        (void)snprintf(text, size, "%s", k->choices);
        break;
    case CONF_LIST:
        if (k->max > 0) {
            (void)snprintf(text, size, "at most %" PRId64 " entries", k->max);
        }
        break;
    case CONF_INT:
    case CONF_NUMBER:
    case CONF_SIZE:
    case CONF_SPAN:
        put_limit(min, sizeof min, k, k->min);
        put_limit(max, sizeof max, k, k->max);
        (void)snprintf(text, size, "%s to %s", min, max);
        break;
    }
    return text;
}

void conf_print_sample(struct buf *out, const struct conf_key *keys, size_t n_keys,
                       const char *title)
{
    char range[CONF_RANGE_TEXT];
    const char *quote;

    buf_printf(out, "# %s\n# Every key with its default; a line without '#' overrides it.\n",
               title);
    for (size_t i = 0; i < n_keys; i++) {
        buf_printf(out, "\n# %s\n", keys[i].help);
        if (conf_range(range, sizeof range, &keys[i])[0]) {
            buf_printf(out, "# takes: %s\n", range);
        }
        /* quoted where YAML would read more into it: "*:7420" is an alias, "" is no value */
        quote = strchr("*&!|>'\"%@`{}[],#?:-", keys[i].def[0]) ? "'" : "";
        buf_printf(out, "#%s: %s%s%s\n", keys[i].key, quote, keys[i].def, quote);
    }
}

void conf_print_help(struct buf *out, const struct conf_key *keys, size_t n_keys)
{
    char range[CONF_RANGE_TEXT];

    buf_printf(out, "\nSettings, in the file or with --set KEY=VALUE (default; what it takes):\n");
    for (size_t i = 0; i < n_keys; i++) {
        bool open = !conf_range(range, sizeof range, &keys[i])[0];

        buf_printf(out, "  %s (%s%s%s)\n%*s", keys[i].key, keys[i].def[0] ? keys[i].def : "none",
                   open ? "" : "; ", range, HELP_COLUMN, "");
        opt_put_wrapped(out, keys[i].help, HELP_COLUMN);
    }
}
