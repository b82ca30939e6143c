#include "agent/decode/schema/manifest_files.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/schema/wevt.h"
#include "common/base/buf.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define TAPE_MAX    (2 * ETW_MANIFEST_FILE_MAX)
#define TAPE_VALUES 128 /* names and values of an element's attributes */

struct place {
    uint8_t guid[16];
    uint16_t file;
};

/* The elements of one file, as they came: a file with many providers is read once, and not again
 * for each of them. "b", name, attributes as name and value, "" is a begin, "e" and name an end;
 * "p" is the begin of a provider: where it ends (u32) stands before its name. */
struct tape {
    struct buf b;
    bool held;       /* the whole file */
    uint16_t file;   /* its number */
    size_t provider; /* the open one: where its u32 is, plus one */
};

struct manifest_files {
    char *files[MANIFEST_FILES_FILES];
    struct place places[MANIFEST_FILES_PROVIDERS];
    size_t n_places;
    struct manifest_files_counts counts;
    struct tape tape;
    struct etw_manifest manifest; /* the one that is read */
};

enum err manifest_files_create(struct manifest_files **out)
{
    struct manifest_files *ms = mem_zalloc(sizeof *ms);

    if (!ms) {
        return ERR_NOMEM;
    }
    buf_init(&ms->tape.b, TAPE_MAX);
    *out = ms;
    return ERR_OK;
}

void manifest_files_destroy(struct manifest_files *ms)
{
    if (!ms) {
        return;
    }
    for (size_t i = 0; i < ms->counts.files; i++) {
        mem_free(ms->files[i]);
    }
    buf_fini(&ms->tape.b);
    mem_free(ms);
}

/* -- reading a file -- */

struct reading {
    struct manifest_files *ms;
    FILE *file;
    uint16_t number; /* of the file */
    bool found;      /* an element of a manifest */
    enum err e;
};

static size_t reading_read(void *ctx, void *p, size_t n)
{
    struct reading *r = ctx;

    return fread(p, 1, n, r->file);
}

static void places_begin(void *ctx, const char *name, const char *const *attributes)
{
    struct reading *r = ctx;
    struct manifest_files *ms = r->ms;
    uint8_t guid[16];

    r->found |= strcmp(name, "instrumentationManifest") == 0;
    if (strcmp(name, "provider") != 0 || !r->found) {
        return;
    }
    for (; attributes[0]; attributes += 2) {
        if (strcmp(attributes[0], "guid") != 0 || !etw_manifest_guid(guid, attributes[1])) {
            continue;
        }
        if (ms->n_places == MANIFEST_FILES_PROVIDERS) {
            ms->counts.no_room++;
            continue;
        }
        memcpy(ms->places[ms->n_places].guid, guid, sizeof guid);
        ms->places[ms->n_places++].file = r->number;
        ms->counts.providers++;
    }
}

static void places_end(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
}

static enum err places_stopped(void *ctx)
{
    (void)ctx;
    return ERR_OK;
}

static void tape_text(struct tape *t, const char *text)
{
    buf_put(&t->b, text, strlen(text) + 1);
}

static void tape_begin(void *ctx, const char *name, const char *const *attributes)
{
    struct tape *t = &((struct reading *)ctx)->ms->tape;
    bool provider = strcmp(name, "provider") == 0 && !t->provider;
    size_t n = 0;

    buf_put_u8(&t->b, provider ? 'p' : 'b');
    if (provider) {
        t->provider = t->b.n + 1;
        buf_put_u32le(&t->b, 0);
    }
    tape_text(t, name);
    for (; attributes[n]; n++) {
        tape_text(t, attributes[n]);
    }
    tape_text(t, "");
    if (n >= TAPE_VALUES && !t->b.bad) {
        t->b.bad = ERR_FULL;
    }
}

static void tape_end(void *ctx, const char *name)
{
    struct tape *t = &((struct reading *)ctx)->ms->tape;

    buf_put_u8(&t->b, 'e');
    tape_text(t, name);
    if (t->provider && !t->b.bad && strcmp(name, "provider") == 0) {
        for (size_t i = 0; i < 4; i++) {
            t->b.p[t->provider - 1 + i] = (uint8_t)(t->b.n >> 8 * i);
        }
        t->provider = 0;
    }
}

static enum err tape_stopped(void *ctx)
{
    const struct reading *r = ctx;

    return r->ms->tape.b.bad;
}

static const char *tape_next(const struct tape *t, size_t *at)
{
    const char *text = (const char *)t->b.p + *at;

    *at += strlen(text) + 1;
    return text;
}

static bool tape_is(const char *const *attributes, const uint8_t guid[16])
{
    uint8_t own[16];

    for (; attributes[0]; attributes += 2) {
        if (strcmp(attributes[0], "guid") == 0) {
            return etw_manifest_guid(own, attributes[1]) && memcmp(own, guid, sizeof own) == 0;
        }
    }
    return false;
}

/* All elements but other providers'. */
static void tape_play(const struct tape *t, struct etw_manifest *m, const uint8_t guid[16])
{
    const char *values[TAPE_VALUES + 1], *name;

    for (size_t at = 0; at < t->b.n && !m->bad;) {
        uint8_t what = t->b.p[at++];
        size_t n = 0, end = 0;

        if (what == 'p') {
            end = cur_at32le(t->b.p + at);
            at += 4;
        }
        name = tape_next(t, &at);
        if (what == 'e') {
            etw_manifest_end(m, name);
            continue;
        }
        while (*(values[n] = tape_next(t, &at))) { /* the list ends where a name is "" */
            values[n + 1] = tape_next(t, &at);
            n += 2;
        }
        values[n] = NULL;
        if (what == 'p' && !tape_is(values, guid)) {
            at = end > at ? end : t->b.n;
        } else {
            etw_manifest_begin(m, name, values);
        }
    }
}

/* Whether the name ends with one of these, in whichever case. */
static bool ends_with(const char *name, const char *const *ends, size_t n)
{
    size_t size = strlen(name);

    for (size_t i = 0; i < n; i++) {
        size_t k = strlen(ends[i]), same = 0;

        while (same < k && size > k) {
            char c = name[size - k + same];

            if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != ends[i][same]) {
                break;
            }
            same++;
        }
        if (same == k && size > k) {
            return true;
        }
    }
    return false;
}

/* A program, in which the manifest is a resource. */
static bool is_program_name(const char *name)
{
    static const char *const ends[] = {".dll", ".exe", ".sys", ".mui"};

    return ends_with(name, ends, sizeof ends / sizeof *ends);
}

static bool program_read(void *ctx, uint64_t offset, void *p, size_t n)
{
    const struct reading *r = ctx;

    return offset <= INT64_MAX && fseeko(r->file, (off_t)offset, SEEK_SET) == 0 &&
           fread(p, 1, n, r->file) == n;
}

/* Texts of maps: of the program itself, or of a file of its language beside it, as the system's
 * own have them. None is no error: values stay numbers. */
static void read_messages(struct reading *r, uint8_t **out, size_t *n)
{
    static const char *const places[] = {"", "en-US/"};
    const char *path = r->ms->files[r->number], *name = path + strlen(path);
    char beside[4096];
    struct reading other = {.ms = r->ms};
    const struct wevt_input input = {program_read, r}, others = {program_read, &other};

    *out = NULL;
    *n = 0;
    if (wevt_resource(&input, WEVT_MESSAGES, out, n) == ERR_OK) {
        return;
    }
    while (name > path && name[-1] != '/' && name[-1] != '\\') {
        name--;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places && !*out; i++) {
        int used = snprintf(beside, sizeof beside, "%.*s%s%s.mui", (int)(name - path), path,
                            places[i], name);

        other.file = used > 0 && (size_t)used < sizeof beside ? os_fopen(beside, "rb") : NULL;
        if (other.file) {
            err_ignore(wevt_resource(&others, WEVT_MESSAGES, out, n));
            (void)fclose(other.file);
        }
    }
}

static enum err read_program(struct reading *r, const struct etw_manifest_sink *to, bool events)
{
    const struct wevt_input input = {program_read, r};
    const struct wevt_sink sink = {
        .ctx = r, .begin = to->begin, .end = to->end, .stopped = to->stopped};
    uint8_t *resource, *messages = NULL;
    size_t n, n_messages = 0;
    enum err e = wevt_resource(&input, WEVT_TEMPLATE, &resource, &n);

    if (e) {
        return e == ERR_NOTFOUND ? ERR_CORRUPT : e; /* no manifest */
    }
    if (events) {
        read_messages(r, &messages, &n_messages);
    }
    e = wevt_elements(resource, n, messages, n_messages, &sink);
    mem_free(messages);
    mem_free(resource);
    return e;
}

static enum err read_file(struct reading *r, bool events)
{
    const struct etw_manifest_sink sink = {.ctx = r,
                                           .read = reading_read,
                                           .begin = events ? tape_begin : places_begin,
                                           .end = events ? tape_end : places_end,
                                           .stopped = events ? tape_stopped : places_stopped};
    enum err e;

    r->file = os_fopen(r->ms->files[r->number], "rb");
    if (!r->file) {
        return ERR_IO;
    }
    e = is_program_name(r->ms->files[r->number]) ? read_program(r, &sink, events)
                                                 : etw_manifest_stream(&sink);
    (void)fclose(r->file);
    return e;
}

/* -- adding -- */

static enum err add_file(struct manifest_files *ms, const char *path)
{
    struct reading r = {.ms = ms, .number = (uint16_t)ms->counts.files};
    size_t before = ms->n_places;
    enum err e;

    if (ms->counts.files == MANIFEST_FILES_FILES) {
        ms->counts.no_room++;
        return ERR_FULL;
    }
    ms->files[r.number] = mem_strdup(path);
    if (!ms->files[r.number]) {
        return ERR_NOMEM;
    }
    ms->counts.files++;
    e = read_file(&r, false);
    e = !e && !r.found ? ERR_CORRUPT : e;
    if (e && ms->n_places == before) { /* nothing refers to it */
        ms->counts.files--;
        mem_free(ms->files[r.number]);
        ms->files[r.number] = NULL;
    }
    ms->counts.damaged += e == ERR_CORRUPT && r.found;
    return e;
}

static bool is_manifest_name(const char *name)
{
    static const char *const ends[] = {".man", ".xml", ".manifest"};

    return ends_with(name, ends, sizeof ends / sizeof *ends) || is_program_name(name);
}

struct listing {
    struct manifest_files *ms;
    const char *dir;
};

static enum err add_entry(void *ctx, const char *name)
{
    struct listing *l = ctx;
    char *path;
    enum err e;

    if (!is_manifest_name(name)) {
        return ERR_OK;
    }
    path = os_path_join(l->dir, name);
    if (!path) {
        return ERR_NOMEM;
    }
    e = add_file(l->ms, path);
    mem_free(path);
    return e == ERR_NOMEM || e == ERR_UNSUPPORTED ? e : ERR_OK;
}

enum err manifest_files_add(struct manifest_files *ms, const char *key, const char *path,
                            struct errmsg *why)
{
    struct listing l = {ms, path};
    enum err e = os_list_dir(path, add_entry, &l);

    if (e == ERR_OK) {
        return ERR_OK;
    }
    if (e != ERR_NOMEM && e != ERR_UNSUPPORTED) {
        e = os_exists(path) ? add_file(ms, path) : ERR_NOTFOUND; /* no directory, then */
    }
    if (e == ERR_UNSUPPORTED) {
        return errmsg_set(why, e, "%s: this build reads no XML", key);
    }
    if (e == ERR_CORRUPT) {
        return errmsg_set(why, e, "%s: %s is no instrumentation manifest", key, path);
    }
    return e ? errmsg_set(why, e, "%s: cannot read %s: %s", key, path, err_text(e)) : e;
}

/* -- asking -- */

/* The file's elements, which are read unless they are those of the last file. */
static enum err hold_file(struct manifest_files *ms, uint16_t number)
{
    struct reading r = {.ms = ms, .number = number};
    struct tape *t = &ms->tape;
    enum err e;

    if (t->held && t->file == number) {
        return ERR_OK;
    }
    buf_reset(&t->b);
    t->provider = 0;
    t->file = number;
    e = read_file(&r, true);
    e = e ? e : t->b.bad;
    t->held = !e;
    ms->counts.no_room += e == ERR_FULL;
    return e;
}

enum err manifest_files_put(struct manifest_files *ms, struct schema *s, const uint8_t guid[16],
                            struct str name)
{
    uint64_t events;
    enum err e;
    size_t i = 0;

    while (i < ms->n_places && memcmp(ms->places[i].guid, guid, 16) != 0) {
        i++;
    }
    if (i == ms->n_places) {
        return ERR_NOTFOUND;
    }
    e = hold_file(ms, ms->places[i].file);
    etw_manifest_init(&ms->manifest);
    etw_manifest_only(&ms->manifest, guid);
    ms->manifest.origin = SCHEMA_FROM_FILE;
    if (!e) {
        tape_play(&ms->tape, &ms->manifest, guid);
        if (!ms->manifest.provider.n) {
            ms->manifest.provider = name; /* programs do not have it */
        }
        e = etw_manifest_finish(&ms->manifest, guid, s, &events);
    }
    ms->counts.damaged += e == ERR_CORRUPT;
    etw_manifest_fini(&ms->manifest);
    return e;
}

void manifest_files_stats(const struct manifest_files *ms, struct manifest_files_counts *out)
{
    *out = ms->counts;
}
