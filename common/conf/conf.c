/* Values are kept as parsed numbers and as text beside the table's rows; YAML arrives as libyaml
 * events and is flattened to dotted keys with a stack of at most CONF_DEPTH maps, no recursion. */
#include "common/conf/conf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/conf/opt.h"
#include "common/os/os.h"

#define CONF_DEPTH      8
#define CONF_KEY_MAX    128
#define CONF_FILE_MAX   (1u << 20)
#define CONF_LIST_LIMIT 1024

struct value {
    bool set;    /* by anything but the default */
    size_t line; /* of the file; 0 = not from a file */
    char *text;
    int64_t number;
    char **items;
    size_t n_items;
};

struct conf {
    const struct conf_key *keys;
    size_t n_keys;
    struct value *values;
    char *origin; /* of lines */
    const char *chosen;
    size_t n_names;
    char *names[CONF_NAMES_MAX];
};

static void value_fini(struct value *v)
{
    for (size_t i = 0; i < v->n_items; i++) {
        mem_free(v->items[i]);
    }
    mem_free(v->items);
    mem_free(v->text);
    memset(v, 0, sizeof *v);
}

/* -- one value of one type -- */

static enum err bad_value(const struct conf_key *k, const char *text, const char *expected,
                          struct errmsg *why)
{
    return errmsg_set(why, ERR_INVALID, "%s: '%s' is not %s", k->key, text, expected);
}

static enum err in_range(const struct conf_key *k, int64_t v, const char *text, struct errmsg *why)
{
    char range[CONF_RANGE_TEXT];

    if (v < k->min || v > k->max) {
        return errmsg_set(why, ERR_RANGE, "%s: '%s' is out of range (%s)", k->key, text,
                          conf_range(range, sizeof range, k));
    }
    return ERR_OK;
}

static enum err parse_int(int64_t *out, const char *text)
{
    bool below = *text == '-';
    uint64_t v;
    enum err e = opt_number(&v, text + below, INT64_MAX);

    if (e) {
        return e;
    }
    *out = below ? -(int64_t)v : (int64_t)v;
    return ERR_OK;
}

/* "0.1" to 100 thousandths. */
static enum err parse_thousandths(int64_t *out, const char *text)
{
    int64_t v = 0, unit = 100;
    const char *c = text;

    for (; *c >= '0' && *c <= '9' && v < INT64_MAX / 20000; c++) {
        v = v * 10 + (*c - '0');
    }
    if (c == text) {
        return ERR_INVALID;
    }
    v *= 1000;
    if (*c == '.') {
        for (c++; *c >= '0' && *c <= '9'; c++) {
            v += (*c - '0') * unit;
            unit /= 10;
        }
    }
    *out = v;
    return *c ? ERR_INVALID : ERR_OK;
}

static enum err parse_size(int64_t *out, const char *text)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    char *end;
    long long v = strtoll(text, &end, 10);

    if (end == text || v < 0) {
        return ERR_INVALID;
    }
    end += *end == ' ';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) == 0) {
            if (v > INT64_MAX >> units[i].shift) {
                return ERR_RANGE;
            }
            *out = (int64_t)v << units[i].shift;
            return ERR_OK;
        }
    }
    return ERR_INVALID;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t n = strlen(text);

    while (*choices) {
        size_t m = strcspn(choices, "|");

        if (m == n && memcmp(choices, text, n) == 0) {
            return true;
        }
        choices += m + (choices[m] == '|');
    }
    return false;
}

/* The number behind a text of any type but lists; text and choices have none. */
static enum err parse_value(const struct conf_key *k, const char *text, int64_t *number,
                            struct errmsg *why)
{
    enum err e;

    *number = 0;
    switch (k->type) {
    case CONF_TEXT:
        return ERR_OK;
    case CONF_CHOICE:
        return is_choice(k->choices, text) ? ERR_OK : bad_value(k, text, k->choices, why);
    case CONF_BOOL:
        *number = strcmp(text, "true") == 0;
        return *number || strcmp(text, "false") == 0 ? ERR_OK
                                                     : bad_value(k, text, "true or false", why);
    case CONF_INT:
        e = parse_int(number, text);
        return e ? bad_value(k, text, "a whole number", why) : in_range(k, *number, text, why);
    case CONF_NUMBER:
        e = parse_thousandths(number, text);
        return e ? bad_value(k, text, "a number", why) : in_range(k, *number, text, why);
    case CONF_SIZE:
        e = parse_size(number, text);
        return e ? bad_value(k, text, "a size such as 64KiB or 1GiB", why)
                 : in_range(k, *number, text, why);
    case CONF_SPAN:
        e = clk_parse_span(number, text);
        return e ? bad_value(k, text, "a time such as 500ms, 10s or 7d", why)
                 : in_range(k, *number, text, why);
    case CONF_LIST:
        break;
    }
    return ERR_INVALID;
}

/* Bytes of the blank that the text begins with, or ends in; 0: none. Texts from web pages and word
 * processors have those of Unicode. */
static size_t blank_at(const char *text, size_t n, bool end)
{
    static const char *const blanks[] = {" ",        "\t",           "\r",          "\n",
                                         "\xc2\xa0", "\xe2\x80\xaf", "\xe3\x80\x80"};

    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        size_t m = strlen(blanks[i]);

        if (m <= n && memcmp(text + (end ? n - m : 0), blanks[i], m) == 0) {
            return m;
        }
    }
    return 0;
}

/* Whether the n bytes look cut out of YAML: brackets without their other half, a quote at an end, a
 * comment, or brackets around it all, unless they are an address's as in "[::1]". */
static bool is_yaml(const char *text, size_t n)
{
    int square = 0, curly = 0;
    bool note = text[0] == '#';
    bool address = false;

    for (size_t i = 0; i < n && square >= 0 && curly >= 0; i++) {
        square += (text[i] == '[') - (text[i] == ']');
        curly += (text[i] == '{') - (text[i] == '}');
        address = address || text[i] == ':';
        note = note || (i > 0 && text[i] == '#' && blank_at(text, i, true));
    }
    return note || square || curly || strchr("'\"", text[0]) || strchr("'\"", text[n - 1]) ||
           (text[0] == '[' && text[n - 1] == ']' && !address);
}

/* Whatever stands for a secret or a process must not be missed for a blank or a bracket. */
static enum err check_item(const struct conf_key *k, const char *text, size_t n, bool alone,
                           struct errmsg *why)
{
    if (n == 0) {
        return errmsg_set(why, ERR_INVALID, "%s: an entry is empty", k->key);
    }
    if (alone && memchr(text, ',', n)) {
        return errmsg_set(why, ERR_INVALID,
                          "%s: '%.*s' is one entry with a comma in it; write each entry for itself",
                          k->key, (int)n, text);
    }
    if (!alone && is_yaml(text, n)) {
        return errmsg_set(
            why, ERR_INVALID,
            "%s: '%.*s' has a bracket, quote or comment that is no part of an entry; write a,b "
            "without them, or a list of YAML in the file",
            k->key, (int)n, text);
    }
    if (utf8_harmless(text, n) < n) {
        return errmsg_set(why, ERR_INVALID, "%s: '%.*s' has a character that does not show", k->key,
                          (int)n, text);
    }
    return ERR_OK;
}

/* The one place where entries of lists are read; alone: an entry of a list of YAML, else the n
 * bytes between two commas. */
static enum err list_add(struct value *v, const struct conf_key *k, const char *text, size_t n,
                         bool alone, struct errmsg *why)
{
    size_t max = k->max > 0 && k->max < CONF_LIST_LIMIT ? (size_t)k->max : CONF_LIST_LIMIT;
    char **items;
    enum err e;

    for (size_t m = blank_at(text, n, false); m; m = blank_at(text, n, false)) {
        text += m;
        n -= m;
    }
    for (size_t m = blank_at(text, n, true); m; m = blank_at(text, n, true)) {
        n -= m;
    }
    e = check_item(k, text, n, alone, why);
    if (e) {
        return e;
    }
    if (v->n_items >= max) {
        return errmsg_set(why, ERR_FULL, "%s: more than %zu entries", k->key, max);
    }
    items = mem_realloc_array(v->items, v->n_items + 1, sizeof *items);
    if (!items) {
        return ERR_NOMEM;
    }
    v->items = items;
    v->items[v->n_items] = mem_strndup(text, n);
    if (!v->items[v->n_items]) {
        return ERR_NOMEM;
    }
    v->n_items++;
    return ERR_OK;
}

static enum err set_list(struct value *v, const struct conf_key *k, const char *text,
                         struct errmsg *why)
{
    size_t n = strcspn(text, ",");
    enum err e;

    if (text[strspn(text, " \t\r\n")] == '\0') {
        return ERR_OK;
    }
    e = list_add(v, k, text, n, false, why);
    while (!e && text[n]) {
        text += n + 1;
        n = strcspn(text, ",");
        e = list_add(v, k, text, n, false, why);
    }
    return e;
}

/* Replaces the value; the old one stays when the new one is wrong. */
static enum err set_value(struct value *v, const struct conf_key *k, const char *text,
                          struct errmsg *why)
{
    struct value fresh = {0};
    enum err e;

    fresh.text = mem_strdup(text);
    if (!fresh.text) {
        return ERR_NOMEM;
    }
    e = k->type == CONF_LIST ? set_list(&fresh, k, text, why)
                             : parse_value(k, text, &fresh.number, why);
    if (e) {
        value_fini(&fresh);
        return e;
    }
    value_fini(v);
    *v = fresh;
    return ERR_OK;
}

/* -- the table -- */

/* Whether the key is that of the table; the n bytes at *name stand for its "*", if it has one. */
static bool matches(const char *pattern, const char *key, const char **name, size_t *n)
{
    size_t before = strcspn(pattern, "*");

    *n = 0;
    if (pattern[before] == '\0' || strcmp(pattern, key) == 0) {
        return strcmp(pattern, key) == 0;
    }
    if (strncmp(pattern, key, before) != 0) {
        return false;
    }
    *name = key + before;
    *n = strcspn(*name, ".");
    return *n > 0 && strcmp(*name + *n, pattern + before + 1) == 0;
}

static size_t key_index(const struct conf *c, const char *key)
{
    const char *name;
    size_t n;

    for (size_t i = 0; i < c->n_keys; i++) {
        if (matches(c->keys[i].key, key, &name, &n)) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Notes the name that the key has for a "*". false: its value is not the one that is kept. */
static enum err note_name(struct conf *c, const char *key, bool *kept)
{
    const char *name = NULL;
    size_t i = key_index(c, key), n = 0;

    *kept = true;
    if (i == SIZE_MAX || !matches(c->keys[i].key, key, &name, &n) || n == 0) {
        return ERR_OK;
    }
    *kept = c->chosen && strlen(c->chosen) == n && memcmp(c->chosen, name, n) == 0;
    for (size_t k = 0; k < c->n_names; k++) {
        if (strlen(c->names[k]) == n && memcmp(c->names[k], name, n) == 0) {
            return ERR_OK;
        }
    }
    if (c->n_names < CONF_NAMES_MAX) {
        c->names[c->n_names] = mem_strndup(name, n);
        if (!c->names[c->n_names]) {
            return ERR_NOMEM;
        }
        c->n_names++;
    }
    return ERR_OK;
}

void conf_choose(struct conf *c, const char *name)
{
    c->chosen = name;
}

size_t conf_names(const struct conf *c, const char *const **names)
{
    *names = (const char *const *)c->names;
    return c->n_names;
}

/* The key with the name that stands in `key` for its "*". */
static const char *with_name(char *text, size_t size, const char *pattern, const char *key)
{
    size_t before = strcspn(pattern, "*");

    if (pattern[before] == '\0' || strncmp(pattern, key, before) != 0) {
        return pattern;
    }
    snprintf(text, size, "%.*s%s", (int)(before + strcspn(key + before, ".")), key,
             pattern + before + 1);
    return text;
}

static enum err unknown_key(const struct conf *c, const char *key, struct errmsg *why)
{
    const char *names[256], *closest;
    char text[CONF_KEY_MAX], as_pattern[CONF_KEY_MAX];
    size_t n = 0;

    snprintf(as_pattern, sizeof as_pattern, "%s", key);
    for (; n < c->n_keys && n < 256; n++) {
        size_t before = strcspn(c->keys[n].key, "*");

        names[n] = c->keys[n].key;
        if (names[n][before] && strncmp(names[n], key, before) == 0) {
            /* the user's own choice of a name is no mistake */
            snprintf(as_pattern, sizeof as_pattern, "%.*s*%s", (int)before, key,
                     key + before + strcspn(key + before, "."));
        }
    }
    closest = opt_closest(as_pattern, names, n);
    if (closest) {
        return errmsg_set(why, ERR_INVALID, "unknown key '%s'; did you mean '%s'?", key,
                          with_name(text, sizeof text, closest, key));
    }
    return errmsg_set(why, ERR_INVALID, "unknown key '%s'; the sample file shows all keys", key);
}

enum err conf_create(struct conf **out, const struct conf_key *keys, size_t n_keys)
{
    struct conf *c = mem_zalloc(sizeof *c);
    enum err e = ERR_NOMEM;

    if (!c) {
        return ERR_NOMEM;
    }
    c->keys = keys;
    c->n_keys = n_keys;
    c->values = mem_array(n_keys, sizeof *c->values);
    if (!c->values) {
        goto fail;
    }
    for (size_t i = 0; i < n_keys; i++) {
        if (keys[i].def[0] != '\0' || keys[i].type == CONF_TEXT || keys[i].type == CONF_LIST) {
            e = set_value(&c->values[i], &keys[i], keys[i].def, NULL);
            if (e) {
                goto fail;
            }
        }
    }
    *out = c;
    return ERR_OK;

fail:
    conf_destroy(c);
    return e;
}

void conf_destroy(struct conf *c)
{
    if (!c) {
        return;
    }
    for (size_t i = 0; c->values && i < c->n_keys; i++) {
        value_fini(&c->values[i]);
    }
    for (size_t i = 0; i < c->n_names; i++) {
        mem_free(c->names[i]);
    }
    mem_free(c->values);
    mem_free(c->origin);
    mem_free(c);
}

enum err conf_set(struct conf *c, const char *key, const char *value, struct errmsg *why)
{
    struct value dropped = {0};
    size_t i = key_index(c, key);
    bool kept;
    enum err e;

    if (i == SIZE_MAX) {
        return unknown_key(c, key, why);
    }
    e = note_name(c, key, &kept);
    if (!e) {
        e = set_value(kept ? &c->values[i] : &dropped, &c->keys[i], value, why);
    }
    if (!e && kept) {
        c->values[i].set = true;
    }
    value_fini(&dropped);
    return e;
}

/* -- YAML -- */

struct walk {
    struct conf *c;
    const char *origin;
    char key[CONF_KEY_MAX];     /* path of the maps that are open, then the pending key */
    size_t map_end[CONF_DEPTH]; /* length of the path at each open map */
    size_t depth;
    bool have_key; /* a key has been read and waits for its value */
    size_t list;   /* table row of the open list; SIZE_MAX = none */
    bool aside;    /* that list is of a name that was not chosen: it is only checked, in: */
    struct value unchosen;
    struct errmsg *why;
    size_t line;
};

static enum err walk_error(const struct walk *w, enum err e, const char *text)
{
    return errmsg_set(w->why, e, "%s:%zu: %s", w->origin, w->line, text);
}

static enum err walk_key(struct walk *w, const char *text)
{
    size_t base = w->map_end[w->depth - 1];
    int n = snprintf(w->key + base, sizeof w->key - base, "%s%s", base ? "." : "", text);

    if (n < 0 || (size_t)n >= sizeof w->key - base) {
        return walk_error(w, ERR_INVALID, "the key is too long");
    }
    w->have_key = true;
    return ERR_OK;
}

/* A key that stands twice in a file is a mistake: which one should hold? */
static enum err walk_first(struct walk *w)
{
    size_t i = key_index(w->c, w->key);

    if (i != SIZE_MAX && w->c->values[i].line) {
        return errmsg_set(w->why, ERR_INVALID, "%s:%zu: %s stands in line %zu already", w->origin,
                          w->line, w->key, w->c->values[i].line);
    }
    return ERR_OK;
}

/* What YAML reads as no value: a key left open drops no default. */
static bool is_null(const yaml_event_t *ev)
{
    const char *text = (const char *)ev->data.scalar.value;

    return ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ||
            strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0);
}

static enum err walk_scalar(struct walk *w, const char *text, bool null)
{
    struct errmsg inner = {""};
    bool kept;
    enum err e;

    if (w->list != SIZE_MAX) {
        struct value *v = w->aside ? &w->unchosen : &w->c->values[w->list];

        e = list_add(v, &w->c->keys[w->list], text, null ? 0 : strlen(text), true, &inner);
        return e ? walk_error(w, e, inner.text) : ERR_OK;
    }
    if (w->depth == 0) {
        return *text ? walk_error(w, ERR_INVALID, "a map of keys is expected") : ERR_OK;
    }
    if (!w->have_key) {
        return walk_key(w, text);
    }
    w->have_key = false;
    if (null) {
        return errmsg_set(w->why, ERR_INVALID,
                          "%s:%zu: %s has no value; leave the key out for its default, or write ''",
                          w->origin, w->line, w->key);
    }
    e = note_name(w->c, w->key, &kept);
    if (!e && kept) {
        e = walk_first(w);
    }
    if (e) {
        return e;
    }
    e = conf_set(w->c, w->key, text, &inner);
    if (e) {
        return walk_error(w, e, inner.text);
    }
    if (kept) {
        w->c->values[key_index(w->c, w->key)].line = w->line;
    }
    return ERR_OK;
}

static enum err walk_map(struct walk *w)
{
    if (w->list != SIZE_MAX || w->depth == CONF_DEPTH || (w->depth && !w->have_key)) {
        return walk_error(w, ERR_INVALID, "a map is not expected here");
    }
    w->map_end[w->depth++] = w->have_key ? strlen(w->key) : 0;
    w->have_key = false;
    return ERR_OK;
}

static enum err walk_list(struct walk *w)
{
    struct errmsg inner = {""};
    bool kept;
    enum err e;

    if (w->list != SIZE_MAX || !w->have_key) {
        return walk_error(w, ERR_INVALID, "a list is not expected here");
    }
    e = note_name(w->c, w->key, &kept);
    if (!e && kept) {
        e = walk_first(w);
    }
    if (e) {
        return e;
    }
    w->aside = !kept;
    e = conf_set(w->c, w->key, "", &inner);
    if (e) {
        return walk_error(w, e, inner.text);
    }
    w->list = key_index(w->c, w->key);
    if (kept) {
        w->c->values[w->list].line = w->line;
    }
    if (w->c->keys[w->list].type != CONF_LIST) {
        return walk_error(w, ERR_INVALID, "this key takes one value, not a list");
    }
    w->have_key = false;
    return ERR_OK;
}

/* What would be read as something else than is meant. */
static enum err walk_plain(const struct walk *w, const yaml_event_t *ev)
{
    const yaml_char_t *tag = ev->type == YAML_SCALAR_EVENT           ? ev->data.scalar.tag
                             : ev->type == YAML_SEQUENCE_START_EVENT ? ev->data.sequence_start.tag
                             : ev->type == YAML_MAPPING_START_EVENT  ? ev->data.mapping_start.tag
                                                                     : NULL;

    if (tag) {
        return walk_error(w, ERR_INVALID, "tags are not supported");
    }
    if (ev->type == YAML_SCALAR_EVENT &&
        strlen((const char *)ev->data.scalar.value) != ev->data.scalar.length) {
        return walk_error(w, ERR_INVALID, "a NUL is no part of a text");
    }
    return ERR_OK;
}

static enum err walk_event(struct walk *w, const yaml_event_t *ev)
{
    enum err e;

    w->line = ev->start_mark.line + 1;
    e = walk_plain(w, ev);
    if (e) {
        return e;
    }
    switch (ev->type) {
    case YAML_SCALAR_EVENT:
        return walk_scalar(w, (const char *)ev->data.scalar.value, is_null(ev));
    case YAML_MAPPING_START_EVENT:
        return walk_map(w);
    case YAML_MAPPING_END_EVENT:
        w->depth--;
        return ERR_OK;
    case YAML_SEQUENCE_START_EVENT:
        return walk_list(w);
    case YAML_SEQUENCE_END_EVENT:
        w->list = SIZE_MAX;
        value_fini(&w->unchosen);
        return ERR_OK;
    case YAML_ALIAS_EVENT:
        return walk_error(w, ERR_INVALID, "aliases are not supported");
    default:
        return ERR_OK;
    }
}

enum err conf_load_text(struct conf *c, const char *text, size_t n, const char *origin,
                        struct errmsg *why)
{
    struct walk w = {.c = c, .origin = origin, .list = SIZE_MAX, .why = why};
    yaml_parser_t parser;
    bool more = true;
    enum err e = ERR_OK;

    mem_free(c->origin);
    c->origin = mem_strdup(origin);
    if (!c->origin || !yaml_parser_initialize(&parser)) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < c->n_keys; i++) {
        c->values[i].line = 0; /* lines of an earlier file */
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    while (more && !e) {
        yaml_event_t ev;

        if (!yaml_parser_parse(&parser, &ev)) {
            e = errmsg_set(why, ERR_INVALID, "%s:%zu: %s", origin, parser.problem_mark.line + 1,
                           parser.problem ? parser.problem : "not YAML");
            break;
        }
        more = ev.type != YAML_STREAM_END_EVENT;
        e = walk_event(&w, &ev);
        yaml_event_delete(&ev);
    }
    value_fini(&w.unchosen);
    yaml_parser_delete(&parser);
    return e;
}

enum err conf_load_file(struct conf *c, const char *path, struct errmsg *why)
{
    uint8_t *text;
    size_t n;
    enum err e = os_read_file(&text, &n, path, CONF_FILE_MAX);

    if (e) {
        return errmsg_set(why, e, "cannot read configuration %s: %s", path, os_read_text(e));
    }
    e = conf_load_text(c, (const char *)text, n, path, why);
    mem_free(text);
    return e;
}

/* -- reading -- */

static const struct value *value_of(const struct conf *c, const char *key)
{
    size_t i = key_index(c, key);

    assert(i != SIZE_MAX);
    return &c->values[i];
}

const char *conf_text(const struct conf *c, const char *key)
{
    const struct value *v = value_of(c, key);

    return v->text ? v->text : "";
}

bool conf_bool(const struct conf *c, const char *key)
{
    return value_of(c, key)->number != 0;
}

int64_t conf_int(const struct conf *c, const char *key)
{
    return value_of(c, key)->number;
}

size_t conf_list(const struct conf *c, const char *key, const char *const **items)
{
    const struct value *v = value_of(c, key);

    *items = (const char *const *)v->items;
    return v->n_items;
}

bool conf_is_set(const struct conf *c, const char *key)
{
    return value_of(c, key)->set;
}

size_t conf_line(const struct conf *c, const char *key)
{
    return value_of(c, key)->line;
}

enum err conf_wrong(const struct conf *c, const char *key, struct errmsg *why, const char *text)
{
    size_t line = value_of(c, key)->line;

    return line ? errmsg_set(why, ERR_INVALID, "%s:%zu: %s: %s", c->origin, line, key, text)
                : errmsg_set(why, ERR_INVALID, "%s: %s", key, text);
}

/* The table of keys as people read it: in --help and as a sample file. Limits are written in the
 * largest unit that holds them without a remainder, so that what is printed can be typed in. */

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
