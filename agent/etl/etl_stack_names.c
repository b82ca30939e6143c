#include "agent/etl/etl_stack_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/etl/symbol/etl_symbols.h"
#include "common/base/arena.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/base/vec.h"

#define NAME_BYTES 1024

struct etl_stack_names {
    struct etl_stack_names_how how;
    struct etl_stack_names_stats stats;
    struct str *all;
    size_t n, cap;
    struct map by_name;
    struct arena texts;
    uint64_t seed;
    uint32_t more;
};

enum err etl_stack_names_create(struct etl_stack_names **out, uint64_t seed)
{
    struct etl_stack_names *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    arena_init(&s->texts, ETL_STACK_NAMES_TEXT);
    s->seed = seed;
    s->more = etl_stack_names_put(s, str_make("(more)"));
    if (!s->n) {
        etl_stack_names_destroy(s);
        return ERR_NOMEM;
    }
    *out = s;
    return ERR_OK;
}

void etl_stack_names_destroy(struct etl_stack_names *s)
{
    if (s) {
        arena_fini(&s->texts);
        map_fini(&s->by_name);
        mem_free(s->all);
        mem_free(s);
    }
}

const struct str *etl_stack_names_all(const struct etl_stack_names *s, size_t *count)
{
    *count = s->n;
    return s->all;
}

const struct etl_stack_names_stats *etl_stack_names_stats(const struct etl_stack_names *s)
{
    return &s->stats;
}

uint32_t etl_stack_names_put(struct etl_stack_names *s, struct str text)
{
    uint64_t key, place;
    char clean[NAME_BYTES], *kept;
    struct str name = {clean, utf8_clean(clean, sizeof clean, text.p, text.n)};

    for (key = hash_bytes(name.p, name.n, s->seed); (place = map_get(&s->by_name, key)) != 0;
         key++) {
        if (str_eq(s->all[place - 1], name)) {
            return (uint32_t)place - 1;
        }
    }
    kept = VEC_ROOM(&s->all, &s->cap, s->n + 1, ETL_STACK_NAMES_MAX) == ERR_OK &&
                   map_reserve(&s->by_name) == ERR_OK
               ? arena_dup(&s->texts, name.p, name.n)
               : NULL;
    if (!kept) {
        s->stats.no_room++;
        return s->more;
    }
    s->all[s->n] = (struct str){kept, name.n};
    (void)map_put(&s->by_name, key, ++s->n);
    return (uint32_t)s->n - 1;
}

static uint32_t image_name(struct etl_stack_names *s, const struct etl_stack_frame *f)
{
    const struct etl_images_module *m = etl_images_module(s->how.images, f->index);
    char text[NAME_BYTES];
    int n;

    if (s->how.only_modules) {
        return etl_stack_names_put(s, m->name);
    }
    n = snprintf(text, sizeof text, "%.*s+0x%llx", (int)(m->name.n < 512 ? m->name.n : 512),
                 m->name.p, (unsigned long long)f->value);
    return etl_stack_names_put(s, (struct str){text, (size_t)n});
}

static uint32_t frame_name(struct etl_stack_names *s, const struct etl_stack_frame *f)
{
    char text[40];
    const char *method;

    switch (f->kind) {
    case ETL_STACK_IMAGE:
        return image_name(s, f);
    case ETL_STACK_METHOD:
        method = etl_methods_at(s->how.methods, (size_t)f->value)->name;
        return etl_stack_names_put(s, str_make(s->how.only_modules ? "[managed]"
                                               : method            ? method
                                                                   : "[method without a name]"));
    case ETL_STACK_ADDRESS:
        (void)snprintf(text, sizeof text, "0x%llx", (unsigned long long)f->value);
        return etl_stack_names_put(s, str_make(s->how.only_modules ? "[unknown]" : text));
    default:
        return f->value < s->n ? (uint32_t)f->value : s->more;
    }
}

struct in_image {
    uint32_t module, frame;
    uint64_t offset;
};

static int by_offset(const void *pa, const void *pb)
{
    const struct in_image *a = pa, *b = pb;

    if (a->module != b->module) {
        return a->module < b->module ? -1 : 1;
    }
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* "module!function", the module without what stands behind its last dot. */
static uint32_t function_name(struct etl_stack_names *s, const struct etl_images_module *m,
                              const char *function)
{
    char text[NAME_BYTES];
    size_t n = m->name.n < 256 ? m->name.n : 256, dot = n;
    int used;

    while (dot > 1 && m->name.p[dot - 1] != '.') {
        dot--;
    }
    used =
        snprintf(text, sizeof text, "%.*s!%s", (int)(dot > 1 ? dot - 1 : n), m->name.p, function);
    return etl_stack_names_put(s, (struct str){text, (size_t)used});
}

/* Functions at n places of one image. */
static enum err name_functions(struct etl_stack_names *s, struct etl_symbols_file *file,
                               const struct in_image *at, size_t n, uint32_t *names)
{
    struct etl_pdb_hit *hits = mem_array(n, sizeof *hits);
    uint32_t *rvas = mem_array(n, sizeof *rvas);
    char name[ETL_PDB_NAME];
    enum err e = hits && rvas ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; i < n && !e; i++) {
        rvas[i] = at[i].offset < UINT32_MAX ? (uint32_t)at[i].offset : UINT32_MAX;
    }
    e = e ? e : etl_pdb_find(etl_symbols_pdb(file), rvas, n, hits);
    for (size_t i = 0; i < n && !e; i++) {
        if (hits[i].kind) {
            etl_pdb_name(etl_symbols_pdb(file), &hits[i], name);
            if (name[0]) {
                names[at[i].frame] =
                    function_name(s, etl_images_module(s->how.images, at[i].module), name);
            }
        }
    }
    mem_free(hits);
    mem_free(rvas);
    return e;
}

static enum err name_image(struct etl_stack_names *s, const struct in_image *at, size_t n,
                           uint32_t *names)
{
    const struct etl_images_module *m = etl_images_module(s->how.images, at->module);
    struct etl_symbols_file *file = NULL;
    enum err e = ERR_NOTFOUND;

    if (m->has_symbols) {
        e = etl_symbols_open(&file, s->how.dirs, s->how.n_dirs, m);
    }
    s->stats.named += e == ERR_OK;
    s->stats.not_named += e == ERR_NOTFOUND;
    s->stats.others += e == ERR_VERSION;
    s->stats.unreadable += e && e != ERR_NOTFOUND && e != ERR_VERSION && e != ERR_NOMEM;
    if (e) {
        return e == ERR_NOMEM ? e : ERR_OK;
    }
    e = name_functions(s, file, at, n, names);
    etl_symbols_close(file);
    return e;
}

/* By the symbols of images; others keep UINT32_MAX. */
static enum err name_by_symbols(struct etl_stack_names *s, uint32_t *names)
{
    struct in_image *all = mem_array(s->how.tree->n_frames, sizeof *all);
    size_t n = 0, next;
    enum err e = all ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; i < s->how.tree->n_frames && !e; i++) {
        const struct etl_stack_frame *f = &s->how.tree->frames[i];

        if (f->kind == ETL_STACK_IMAGE) {
            all[n++] = (struct in_image){f->index, (uint32_t)i, f->value};
        }
    }
    if (n) {
        qsort(all, n, sizeof *all, by_offset);
    }
    for (size_t i = 0; i < n && !e; i = next) {
        for (next = i + 1; next < n && all[next].module == all[i].module; next++) {
        }
        e = name_image(s, &all[i], next - i, names);
    }
    mem_free(all);
    return e;
}

enum err etl_stack_names_apply(struct etl_stack_names *s, const struct etl_stack_names_how *how)
{
    uint32_t *names = mem_array(how->tree->n_frames, sizeof *names);
    enum err e = names ? ERR_OK : ERR_NOMEM;

    s->how = *how;
    for (size_t i = 0; i < how->tree->n_frames && !e; i++) {
        names[i] = UINT32_MAX;
    }
    if (!e && how->n_dirs && !how->only_modules) {
        e = name_by_symbols(s, names);
    }
    for (size_t i = 0; i < s->how.tree->n_frames && !e; i++) {
        names[i] = names[i] == UINT32_MAX ? frame_name(s, &s->how.tree->frames[i]) : names[i];
    }
    e = e ? e : etl_stack_tree_rename(s->how.tree, names);
    mem_free(names);
    return e;
}
