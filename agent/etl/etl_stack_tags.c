/* A frame is `module!function`, `module.dll+0x12`, or a method without its module, for which those
 * entries count whose module may be any, or whose method says more than any. Modules are compared
 * without what stands behind their last dot, and everything in either case. */
#include "agent/etl/etl_stack_tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/schema/etw_manifest.h"
#include "common/base/arena.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define TEXT_MAX   ((size_t)4 << 20)
#define DEPTH_MAX  32
#define NAME_BYTES 1024

struct entry {
    struct str module, method;
    uint32_t tag;
};

struct tag {
    struct str name;
    int32_t priority;
};

struct etl_stack_tags {
    struct tag *tags;
    struct entry *entries;
    size_t n, cap, n_entries, cap_entries;
    struct arena texts;
};

struct reading {
    struct etl_stack_tags *to;
    size_t (*read)(void *ctx, void *p, size_t n);
    void *ctx;
    uint32_t open[DEPTH_MAX]; /* tags */
    size_t depth;
    enum err e;
};

static struct str text_keep(struct reading *r, struct str text)
{
    char *p = arena_dup(&r->to->texts, text.p, text.n);

    r->e = r->e ? r->e : p ? ERR_OK : ERR_FULL;
    return (struct str){p ? p : "", p ? text.n : 0};
}

static const char *attribute(const char *const *attributes, const char *name)
{
    for (; attributes[0]; attributes += 2) {
        if (strcmp(attributes[0], name) == 0) {
            return attributes[1];
        }
    }
    return "";
}

/* A number of an attribute, or what it is without. */
static int32_t priority_of(const char *text, int32_t def)
{
    char *end;
    long n = strtol(text, &end, 10);

    return end == text || *end ? def
           : n < -INT32_MAX    ? -INT32_MAX
           : n > INT32_MAX     ? INT32_MAX
                               : (int32_t)n;
}

static void tag_begin(struct reading *r, const char *const *attributes)
{
    struct etl_stack_tags *t = r->to;
    const char *name = attribute(attributes, "Name");
    uint32_t up = r->depth ? r->open[r->depth - 1] : 0;
    char whole[NAME_BYTES], clean[NAME_BYTES];
    struct str text = {clean, 0};

    if (r->depth == DEPTH_MAX || VEC_ROOM(&t->tags, &t->cap, t->n + 1, ETL_STACK_TAGS_MAX)) {
        r->e = r->e ? r->e : ERR_FULL;
        return;
    }
    (void)snprintf(whole, sizeof whole, "%.*s%s%s", (int)(up ? t->tags[up].name.n : 0),
                   up ? t->tags[up].name.p : "", up && name[0] ? "\\" : "", name);
    text.n = utf8_clean(clean, sizeof clean, whole, strlen(whole));
    if (name[0]) {
        t->tags[t->n].name = text_keep(r, text);
        t->tags[t->n].priority =
            priority_of(attribute(attributes, "Priority"), up ? t->tags[up].priority : 0);
        r->open[r->depth++] = (uint32_t)t->n++;
    } else {
        r->open[r->depth++] = up; /* the root has none */
    }
}

static struct str without_ending(struct str module)
{
    for (size_t i = module.n; i-- > 1;) {
        if (module.p[i] == '.') {
            return (struct str){module.p, i};
        }
    }
    return module;
}

static void on_begin(void *ctx, const char *name, const char *const *attributes)
{
    struct reading *r = ctx;
    struct etl_stack_tags *t = r->to;

    if (strcmp(name, "Tag") == 0 || strcmp(name, "HintTag") == 0) {
        tag_begin(r, attributes);
    } else if (strcmp(name, "Entrypoint") == 0 && r->depth && r->open[r->depth - 1]) {
        if (VEC_ROOM(&t->entries, &t->cap_entries, t->n_entries + 1, ETL_STACK_TAGS_ENTRIES)) {
            r->e = r->e ? r->e : ERR_FULL;
            return;
        }
        t->entries[t->n_entries++] = (struct entry){
            without_ending(text_keep(r, str_make(attribute(attributes, "Module")))),
            text_keep(r, str_make(attribute(attributes, "Method"))), r->open[r->depth - 1]};
    }
}

static void on_end(void *ctx, const char *name)
{
    struct reading *r = ctx;

    if (r->depth && (strcmp(name, "Tag") == 0 || strcmp(name, "HintTag") == 0)) {
        r->depth--;
    }
}

static enum err on_stopped(void *ctx)
{
    return ((const struct reading *)ctx)->e;
}

static size_t on_read(void *ctx, void *p, size_t n)
{
    struct reading *r = ctx;

    return r->read(r->ctx, p, n);
}

void etl_stack_tags_free(struct etl_stack_tags *t)
{
    if (t) {
        mem_free(t->tags);
        mem_free(t->entries);
        arena_fini(&t->texts);
        mem_free(t);
    }
}

enum err etl_stack_tags_stream(struct etl_stack_tags **out,
                               size_t (*read)(void *ctx, void *p, size_t n), void *ctx)
{
    struct reading r = {.to = mem_zalloc(sizeof *r.to), .read = read, .ctx = ctx};
    const struct etw_manifest_sink sink = {
        .ctx = &r, .read = on_read, .begin = on_begin, .end = on_end, .stopped = on_stopped};
    enum err e;

    if (!r.to) {
        return ERR_NOMEM;
    }
    arena_init(&r.to->texts, TEXT_MAX);
    e = VEC_ROOM(&r.to->tags, &r.to->cap, 1, ETL_STACK_TAGS_MAX);
    if (!e) {
        r.to->tags[r.to->n++] = (struct tag){str_make("(no tag)"), INT32_MIN};
        e = etw_manifest_stream(&sink);
    }
    e = !e && r.to->n_entries == 0 ? ERR_CORRUPT : e;
    if (e) {
        etl_stack_tags_free(r.to);
        return e;
    }
    *out = r.to;
    return ERR_OK;
}

static size_t file_read(void *ctx, void *p, size_t n)
{
    return fread(p, 1, n, ctx);
}

enum err etl_stack_tags_read(struct etl_stack_tags **out, const char *path, struct errmsg *why)
{
    FILE *f = os_fopen(path, "rb");
    enum err e = f ? etl_stack_tags_stream(out, file_read, f) : ERR_NOTFOUND;

    if (f) {
        fclose(f);
    }
    return e ? errmsg_set(why, e, "--tags: %s: %s", path,
                          e == ERR_CORRUPT       ? "no stack tags"
                          : e == ERR_UNSUPPORTED ? "this build reads no XML"
                                                 : err_text(e))
             : ERR_OK;
}

/* -- asking -- */

/* The module of a frame, and its function; without module a method. */
static void frame_split(struct str frame, struct str *module, struct str *method)
{
    const char *mark = frame.n ? memchr(frame.p, '!', frame.n) : NULL;

    *module = *method = str_make("");
    if (mark) {
        *module = (struct str){frame.p, (size_t)(mark - frame.p)};
        *method = (struct str){mark + 1, frame.n - module->n - 1};
        return;
    }
    for (size_t i = 0; i + 3 <= frame.n; i++) {
        if (memcmp(frame.p + i, "+0x", 3) == 0) {
            *module = without_ending((struct str){frame.p, i});
            return;
        }
    }
    *method = frame;
}

uint32_t etl_stack_tags_of(const struct etl_stack_tags *t, struct str frame)
{
    struct str module, method;

    frame_split(frame, &module, &method);
    for (size_t i = 0; i < t->n_entries; i++) {
        const struct entry *e = &t->entries[i];
        bool any_method = e->method.n == 0 || str_eq(e->method, str_make("*"));

        if (module.n ? glob_match(e->module, module)
                     : str_eq(e->module, str_make("*")) || !any_method) {
            if (any_method || glob_match(e->method, method)) {
                return e->tag;
            }
        }
    }
    return 0;
}

size_t etl_stack_tags_count(const struct etl_stack_tags *t)
{
    return t->n;
}

struct str etl_stack_tags_name(const struct etl_stack_tags *t, uint32_t tag)
{
    return t->tags[tag].name;
}

int32_t etl_stack_tags_priority(const struct etl_stack_tags *t, uint32_t tag)
{
    return t->tags[tag].priority;
}
