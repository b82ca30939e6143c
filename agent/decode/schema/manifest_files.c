#include "agent/decode/schema/manifest_files.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/schema/wevt.h"
#include "common/base/mem.h"
#include "common/os/os.h"

struct place {
    uint8_t guid[16];
    uint16_t file;
};

struct manifest_files {
    char *files[MANIFEST_FILES_FILES];
    struct place places[MANIFEST_FILES_PROVIDERS];
    size_t n_places;
    struct manifest_files_counts counts;
    struct etw_manifest manifest; /* the one that is read */
};

enum err manifest_files_create(struct manifest_files **out)
{
    struct manifest_files *ms = mem_zalloc(sizeof *ms);

    if (!ms) {
        return ERR_NOMEM;
    }
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

static void events_begin(void *ctx, const char *name, const char *const *attributes)
{
    struct reading *r = ctx;

    etw_manifest_begin(&r->ms->manifest, name, attributes);
}

static void events_end(void *ctx, const char *name)
{
    struct reading *r = ctx;

    etw_manifest_end(&r->ms->manifest, name);
}

static enum err events_stopped(void *ctx)
{
    const struct reading *r = ctx;

    return r->ms->manifest.bad;
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
                                           .begin = events ? events_begin : places_begin,
                                           .end = events ? events_end : places_end,
                                           .stopped = events ? events_stopped : places_stopped};
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

enum err manifest_files_put(struct manifest_files *ms, struct schema *s, const uint8_t guid[16],
                            struct str name)
{
    struct reading r = {.ms = ms};
    uint64_t events;
    enum err e;
    size_t i = 0;

    while (i < ms->n_places && memcmp(ms->places[i].guid, guid, 16) != 0) {
        i++;
    }
    if (i == ms->n_places) {
        return ERR_NOTFOUND;
    }
    r.number = ms->places[i].file;
    etw_manifest_init(&ms->manifest);
    etw_manifest_only(&ms->manifest, guid);
    ms->manifest.origin = SCHEMA_FROM_FILE;
    e = read_file(&r, true);
    if (!e) {
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
