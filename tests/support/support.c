#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/os/os.h"

static void die(const char *what, const char *path)
{
    fprintf(stderr, "cannot %s: %s\n", what, path);
    exit(1);
}

const char *support_temp_dir(char *text, size_t size)
{
    const char *base = getenv("TMPDIR");
    uint64_t id = 0;

    if (!base) {
        base = getenv("TEMP");
    }
    if (os_random(&id, sizeof id) != ERR_OK ||
        snprintf(text, size, "%s/procfleet-%016llx", base ? base : "/tmp",
                 (unsigned long long)id) >= (int)size ||
        os_mkdirs(text, true) != ERR_OK) {
        die("make a temporary directory", text);
    }
    return text;
}

struct found {
    const char *dir;
    char path[1024];
};

/* Files first; what cannot be removed as a file is a directory one level down. */
static enum err remove_entry(void *ctx, const char *name)
{
    struct found *f = ctx;
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    if (os_remove(path) != ERR_OK) {
        snprintf(f->path, sizeof f->path, "%s", path);
        return ERR_END;
    }
    return ERR_OK;
}

void support_remove_dir(const char *path)
{
    char stack[16][1024];
    size_t depth = 1;

    snprintf(stack[0], sizeof stack[0], "%s", path);
    while (depth > 0) {
        struct found f = {stack[depth - 1], ""};
        enum err e = os_list_dir(stack[depth - 1], remove_entry, &f);

        if (e == ERR_END && depth < 16 && strlen(f.path) < sizeof stack[0]) {
            memcpy(stack[depth], f.path, sizeof stack[depth]);
            depth++;
        } else if (os_remove_dir(stack[depth - 1])) { /* or what is in it would be tried for ever */
            fprintf(stderr, "%s cannot be removed\n", stack[depth - 1]);
            return;
        } else {
            depth--;
        }
    }
}

void support_empty_dir(const char *path)
{
    support_remove_dir(path);
    if (os_mkdirs(path, true) != ERR_OK) {
        die("make a directory", path);
    }
}

void support_write_file(const char *path, const void *p, size_t n)
{
    FILE *f = os_fopen(path, "wb");

    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) {
        die("write a file", path);
    }
}

int support_dir_setup(void **state)
{
    support_temp_dir(*state, 256);
    return 0;
}

int support_dir_teardown(void **state)
{
    support_remove_dir(*state);
    return 0;
}
