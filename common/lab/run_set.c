#include "common/lab/run_set.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

struct entry {
    struct run_file *f;
    char *path;        /* NULL: it was added whole */
    unsigned sections; /* that f has */
};

struct run_set {
    struct entry *entries; /* by time */
    const struct run_file **list;
    size_t n, cap, list_cap;
};

enum err run_set_create(struct run_set **out)
{
    *out = mem_zalloc(sizeof **out);
    return *out ? ERR_OK : ERR_NOMEM;
}

void run_set_destroy(struct run_set *s)
{
    for (size_t i = 0; s && i < s->n; i++) {
        run_file_free(s->entries[i].f);
        mem_free(s->entries[i].path);
    }
    if (s) {
        mem_free(s->entries);
        mem_free(s->list);
    }
    mem_free(s);
}

static bool same_id(const struct run_file *a, const struct run_file *b)
{
    static const struct uuid none;

    return memcmp(&a->head.id, &none, sizeof none) != 0 &&
           memcmp(&a->head.id, &b->head.id, sizeof none) == 0;
}

static void entry_drop(struct entry *e)
{
    run_file_free(e->f);
    mem_free(e->path);
}

/* f and path are moved. */
static enum err entry_add(struct run_set *s, struct run_file *f, char *path, unsigned sections)
{
    struct entry add = {f, path, sections};
    enum err e;

    for (size_t i = 0; i < s->n; i++) {
        struct entry *known = &s->entries[i];

        if (same_id(known->f, f)) {
            bool newer = f->head.revision > known->f->head.revision;
            struct entry old = newer ? *known : add;

            *known = newer ? add : *known;
            entry_drop(&old);
            return ERR_OK;
        }
    }
    e = VEC_ROOM(&s->entries, &s->cap, s->n + 1, RUN_SET_MAX);
    if (!e) {
        e = VEC_ROOM(&s->list, &s->list_cap, s->n + 1, RUN_SET_MAX);
    }
    if (e) {
        entry_drop(&add);
        return e;
    }
    s->entries[s->n++] = add;
    return ERR_OK;
}

static int by_time(const void *x, const void *y)
{
    const struct run_head *a = &((const struct entry *)x)->f->head,
                          *b = &((const struct entry *)y)->f->head;

    if (a->begin_ns != b->begin_ns) {
        return a->begin_ns < b->begin_ns ? -1 : 1;
    }
    return memcmp(&a->id, &b->id, sizeof a->id);
}

static void set_sort(struct run_set *s)
{
    if (s->n > 1) {
        qsort(s->entries, s->n, sizeof *s->entries, by_time);
    }
}

enum err run_set_add(struct run_set *s, struct run_file *f)
{
    enum err e = entry_add(s, f, NULL, RUN_FILE_ALL);

    set_sort(s);
    return e;
}

struct reading {
    struct run_set *set;
    const char *dir;
    struct errmsg *why;
};

static enum err dir_entry(void *ctx, const char *name)
{
    struct reading *r = ctx;
    struct errmsg why = {""};
    size_t n = strlen(name);
    struct run_file *f;
    char *path;
    enum err e;

    if (n < 5 || strcmp(name + n - 4, ".pfr") != 0) {
        return ERR_OK;
    }
    path = os_path_join(r->dir, name);
    if (!path) {
        return ERR_NOMEM;
    }
    e = run_file_read(&f, path, 0, &why);
    if (e) {
        mem_free(path);
        return errmsg_set(r->why, e, "%s: %s", name, why.text);
    }
    return entry_add(r->set, f, path, 0);
}

enum err run_set_add_dir(struct run_set *s, const char *dir, struct errmsg *why)
{
    struct reading r = {s, dir, why};
    enum err e;

    err_ignore(errmsg_set(why, ERR_OK, "%s", ""));
    e = os_list_dir(dir, dir_entry, &r);
    set_sort(s);
    if (e && why && !why->text[0]) {
        err_ignore(errmsg_set(why, e, "%s: %s", dir, err_text(e)));
    }
    return e;
}

size_t run_set_list(const struct run_set *s, const struct run_file *const **out)
{
    for (size_t i = 0; i < s->n; i++) {
        s->list[i] = s->entries[i].f;
    }
    *out = s->list;
    return s->n;
}

/* -- names -- */

/* How many runs of this name are newer, or as new. */
static size_t place_of(const struct run_set *s, const struct run_file *f)
{
    size_t place = 0;

    for (size_t i = s->n; i-- > 0;) {
        if (str_eq(s->entries[i].f->head.name, f->head.name)) {
            place++;
        }
        if (s->entries[i].f == f) {
            break;
        }
    }
    return place;
}

static bool pattern_matches(const struct run_set *s, const struct run_file *f, const char *pattern,
                            bool any_nth)
{
    const char *at = strrchr(pattern, '@');
    struct str name = {pattern, at ? (size_t)(at - pattern) : strlen(pattern)};
    char id[UUID_TEXT];

    if (glob_is_pattern(name) ? !glob_match(name, f->head.name) : !str_eq(name, f->head.name)) {
        return false;
    }
    if (!at || any_nth) {
        return true;
    }
    at++;
    if (strlen(at) <= 4 && strspn(at, "0123456789") == strlen(at)) {
        return (unsigned long)place_of(s, f) == strtoul(at, NULL, 10);
    }
    return *at && strncmp(uuid_format(id, &f->head.id), at, strlen(at)) == 0;
}

static bool matches(const struct run_set *s, const struct run_file *f, const char *const *patterns,
                    size_t n, bool any_nth)
{
    for (size_t i = 0; i < n; i++) {
        if (pattern_matches(s, f, patterns[i], any_nth)) {
            return true;
        }
    }
    return false;
}

static enum err entry_load(struct entry *x, unsigned sections, struct errmsg *why)
{
    struct errmsg inner = {""};
    struct run_file *f;
    enum err e;

    if (!x->path || (x->sections & sections) == sections) {
        return ERR_OK;
    }
    e = run_file_read(&f, x->path, sections, &inner);
    if (e) {
        return errmsg_set(why, e, "%s: %s", x->path, inner.text);
    }
    run_file_free(x->f);
    x->f = f;
    x->sections = sections;
    return ERR_OK;
}

enum err run_set_find(struct run_set *s, const char *const *patterns, size_t n, bool any_nth,
                      unsigned sections, const struct run_file **out, size_t *n_out,
                      struct errmsg *why)
{
    enum err e = ERR_OK;

    *n_out = 0;
    for (size_t i = 0; i < s->n && !e; i++) {
        if (matches(s, s->entries[i].f, patterns, n, any_nth)) {
            e = entry_load(&s->entries[i], sections, why);
            out[(*n_out)++] = s->entries[i].f;
        }
    }
    return e;
}
