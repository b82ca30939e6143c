#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/os.h"

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
        fprintf(stderr, "cannot make a temporary directory\n");
        exit(1);
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
        } else {
            err_ignore(os_remove_dir(stack[depth - 1]));
            depth--;
        }
    }
}
