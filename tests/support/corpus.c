#include "tests/support/corpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/os.h"

#define PATH_BYTES 1024
#define NAME_BYTES 256

const char *corpus_dir(void)
{
    const char *dir = getenv("PROCFLEET_CORPUS");
    char path[PATH_BYTES];

    if (!dir || !*dir) {
        dir = "../shared/corpus";
    }
    (void)snprintf(path, sizeof path, "%s/expected", dir);
    if (!os_exists(path)) {
        printf("skipped: corpus not found (PROCFLEET_CORPUS names another place)\n");
        return NULL;
    }
    return dir;
}

static void give_up(const char *what, const char *path)
{
    fprintf(stderr, "corpus: %s: %s\n", what, path);
    exit(1);
}

const char *corpus_path(char *text, size_t size, const char *name)
{
    const char *dir = corpus_dir();

    if (!dir) {
        exit(CORPUS_SKIP);
    }
    (void)snprintf(text, size, "%s/%s", dir, name);
    return text;
}

static bool has_recording(char *text, size_t size, const char *name)
{
    static const char *const ends[] = {".etl", ".etl.xz"};
    char relative[NAME_BYTES];

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(relative, sizeof relative, "public/%s%s", name, ends[i]);
        if (os_exists(corpus_path(text, size, relative))) {
            return true;
        }
    }
    return false;
}

const char *corpus_recording(char *text, size_t size, const char *name)
{
    if (!has_recording(text, size, name)) {
        give_up("no recording", name);
    }
    return text;
}

json_t *corpus_json(const char *name)
{
    char path[PATH_BYTES];
    json_error_t error;
    json_t *j = json_load_file(corpus_path(path, sizeof path, name), 0, &error);

    if (!j) {
        give_up(error.text, path);
    }
    return j;
}

#define NAMES_MAX 256

struct names {
    char name[NAMES_MAX][128];
    size_t n;
    const char *prefix;
};

static enum err take_name(void *ctx, const char *name)
{
    struct names *all = ctx;
    size_t n = strlen(name);

    if (n > 5 && strcmp(name + n - 5, ".json") == 0 && all->n < NAMES_MAX) {
        (void)snprintf(all->name[all->n++], sizeof all->name[0], "%s%.*s", all->prefix,
                       (int)(n - 5), name);
    }
    return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

size_t corpus_each(void (*each)(const char *name, const json_t *figures))
{
    static struct names all;
    static const char *const prefixes[] = {"", "sawbuck/"};
    char path[PATH_BYTES], name[NAME_BYTES];
    size_t n = 0;

    all.n = 0;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        all.prefix = prefixes[i];
        (void)snprintf(name, sizeof name, "expected/%s", prefixes[i]);
        if (os_list_dir(corpus_path(path, sizeof path, name), take_name, &all)) {
            give_up("cannot list", path);
        }
    }
    qsort(all.name, all.n, sizeof all.name[0], by_name);
    for (size_t i = 0; i < all.n; i++) {
        json_t *j;

        if (!has_recording(path, sizeof path, all.name[i])) {
            continue; /* of another subject than a recording as a whole */
        }
        n++;
        (void)snprintf(name, sizeof name, "expected/%s.json", all.name[i]);
        j = corpus_json(name);
        each(all.name[i], json_object_get(j, "figures"));
        json_decref(j);
    }
    return n;
}
