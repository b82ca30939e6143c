#include "agent/etl/etl_name.h"

#include <stdio.h>
#include <string.h>

/* A pattern is a text, then fields, each with the text behind it. */
struct part {
    struct str key;  /* of the field */
    struct str text; /* behind it */
};

struct pattern {
    struct str head;
    size_t n;
    struct part parts[ETL_NAME_FIELDS];
};

static bool key_is_sound(struct str key)
{
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i];
        bool letter = c >= 'a' && c <= 'z';

        if (!letter && (i == 0 || !((c >= '0' && c <= '9') || c == '_'))) {
            return false;
        }
    }
    return key.n > 0 && key.n <= 31;
}

static enum err pattern_parse(struct pattern *out, const char *text, struct errmsg *why)
{
    size_t n = strcspn(text, "{}");

    *out = (struct pattern){.head = {text, n}};
    if (strlen(text) > ETL_NAME_MAX) {
        return errmsg_set(why, ERR_USAGE, "--name: at most %u bytes", ETL_NAME_MAX);
    }
    for (text += n; *text == '{'; text += n) {
        struct part *p = &out->parts[out->n];
        size_t end = strcspn(text + 1, "{}");

        if (out->n == ETL_NAME_FIELDS) {
            return errmsg_set(why, ERR_USAGE, "--name: at most %u fields", ETL_NAME_FIELDS);
        }
        p->key = (struct str){text + 1, end};
        if (text[1 + end] != '}' || !key_is_sound(p->key)) {
            return errmsg_set(
                why, ERR_USAGE,
                "--name: '%.40s' is no field such as {case}: small letters, digits, _", text);
        }
        text += end + 2;
        n = strcspn(text, "{}");
        p->text = (struct str){text, n};
        if (out->n && out->parts[out->n - 1].text.n == 0) {
            return errmsg_set(why, ERR_USAGE,
                              "--name: between {%.*s} and {%.*s} nothing tells where one ends",
                              (int)out->parts[out->n - 1].key.n, out->parts[out->n - 1].key.p,
                              (int)p->key.n, p->key.p);
        }
        out->n++;
    }
    return *text ? errmsg_set(why, ERR_USAGE, "--name: '%.40s': a } without its {", text) : ERR_OK;
}

enum err etl_name_check(const char *pattern, struct errmsg *why)
{
    struct pattern p;

    return pattern_parse(&p, pattern, why);
}

/* {ms} is a number, {time} digits and what separates them; any other text may be anything. */
static bool value_fits(struct str key, struct str value)
{
    const char *of = str_eq(key, str_make("ms"))     ? "0123456789"
                     : str_eq(key, str_make("time")) ? "0123456789-_.:TZ"
                                                     : NULL;

    for (size_t i = 0; of && i < value.n; i++) {
        if (!value.p[i] || !strchr(of, value.p[i])) {
            return false;
        }
    }
    return value.n > 0;
}

/* The first place from `at` on where the text behind a field stands, s.n + 1: none. A last field
 * without text takes the rest. */
static size_t text_find(struct str s, size_t at, struct str text, bool last)
{
    if (last) {
        size_t end = s.n >= text.n ? s.n - text.n : s.n + 1;

        return end <= s.n && end >= at && memcmp(s.p + end, text.p, text.n) == 0 ? end : s.n + 1;
    }
    for (; at + text.n <= s.n; at++) {
        if (memcmp(s.p + at, text.p, text.n) == 0) {
            return at;
        }
    }
    return s.n + 1;
}

/* Ends of the fields: tries longer texts for a field once nothing fits behind it. Each step moves a
 * place of a field to the right, so it ends after at most n ^ fields; a budget keeps it short. */
static bool pattern_fit(const struct pattern *p, struct str s, size_t ends[ETL_NAME_FIELDS])
{
    size_t begins[ETL_NAME_FIELDS + 1], i = 0;
    unsigned budget = 100000;

    if (s.n < p->head.n || memcmp(s.p, p->head.p, p->head.n) != 0) {
        return false;
    }
    begins[0] = p->head.n;
    ends[0] = begins[0];
    while (i < p->n && budget-- > 0) {
        size_t end = text_find(s, ends[i] + 1, p->parts[i].text, i + 1 == p->n);

        if (end > s.n) { /* back to the one before */
            if (i == 0) {
                return false;
            }
            i--;
            continue;
        }
        ends[i] = end;
        if (value_fits(p->parts[i].key, (struct str){s.p + begins[i], end - begins[i]})) {
            begins[i + 1] = end + p->parts[i].text.n;
            i++;
            if (i < p->n) {
                ends[i] = begins[i];
            }
        }
    }
    return i == p->n && p->n > 0;
}

static void run_name(struct etl_name *out, struct str text)
{
    size_t n = text.n < RUN_FILE_NAME_MAX ? text.n : RUN_FILE_NAME_MAX;

    for (size_t i = 0; i < n; i++) {
        char c = text.p[i];
        bool sound = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '.' || c == '_' || c == '-';

        out->run_text[i] = sound ? c : '-';
    }
    out->run = (struct str){out->run_text, n};
}

bool etl_name_match(struct etl_name *out, const char *pattern, const char *file)
{
    struct str stem = etl_name_stem(file);
    size_t ends[ETL_NAME_FIELDS], at, key = 0;
    struct pattern p;

    *out = (struct etl_name){.n_labels = 0};
    stem.n = stem.n < ETL_NAME_MAX ? stem.n : ETL_NAME_MAX;
    memcpy(out->text, stem.p, stem.n);
    stem.p = out->text;
    run_name(out, stem);
    if (!pattern) {
        return stem.n > 0;
    }
    if (pattern_parse(&p, pattern, NULL) != ERR_OK || !pattern_fit(&p, stem, ends)) {
        return false;
    }
    at = p.head.n;
    for (size_t i = 0; i < p.n; i++) {
        struct str value = {stem.p + at, ends[i] - at};

        if (str_eq(p.parts[i].key, str_make("case"))) {
            run_name(out, value);
        } else if (str_eq(p.parts[i].key, str_make("host"))) {
            out->host = value;
            out->host.n = value.n < MODEL_HOST_NAME_MAX ? value.n : MODEL_HOST_NAME_MAX;
        } else {
            memcpy(out->keys + key, p.parts[i].key.p, p.parts[i].key.n);
            out->labels[out->n_labels++] =
                (struct run_pair){{out->keys + key, p.parts[i].key.n}, value};
            key += p.parts[i].key.n;
        }
        at = ends[i] + p.parts[i].text.n;
    }
    return true;
}

/* -- files -- */

const char *etl_name_base(const char *path)
{
    const char *base = path;

    for (; *path; path++) {
        base = *path == '/' || *path == '\\' ? path + 1 : base;
    }
    return base;
}

static bool ends_with(struct str s, const char *end)
{
    size_t n = strlen(end);

    if (s.n <= n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = s.p[s.n - n + i];

        if ((c >= 'A' && c <= 'Z' ? (char)(c + 32) : c) != end[i]) {
            return false;
        }
    }
    return true;
}

struct str etl_name_stem(const char *file)
{
    struct str s = str_make(file);

    s.n -= ends_with(s, ".xz") ? 3 : 0;
    s.n -= ends_with(s, ".etl") ? 4 : 0;
    return s;
}

bool etl_name_is_recording(const char *file)
{
    struct str s = str_make(file);

    return ends_with(s, ".etl") || ends_with(s, ".etl.xz");
}
