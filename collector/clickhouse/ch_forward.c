#include "collector/clickhouse/ch_forward.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

enum err ch_forward_ask(const char *data_dir, int64_t since_ns, int64_t until_ns, const char *hosts,
                        struct errmsg *why)
{
    char *dir = os_path_join(data_dir, "clickhouse");
    char *path = dir ? os_path_join(dir, "forward") : NULL;
    char *done = dir ? os_path_join(dir, "forward.done") : NULL;
    char text[512];
    enum err e = path && done ? os_mkdirs(dir, true) : ERR_NOMEM;

    (void)snprintf(text, sizeof text, "%" PRId64 " %" PRId64 " %.256s\n", since_ns, until_ns,
                   hosts);
    if (!e) {
        err_ignore(os_remove(done));
        e = os_write_file(path, text, strlen(text), true);
    }
    if (e) {
        (void)errmsg_set(why, e, "cannot write %s: %s", path ? path : data_dir, err_text(e));
    }
    mem_free(done);
    mem_free(path);
    mem_free(dir);
    return e;
}

bool ch_forward_done(const char *data_dir, uint64_t *batches, struct errmsg *failed)
{
    char *path = os_path_join(data_dir, "clickhouse/forward.done");
    uint8_t *p;
    size_t n;
    bool done = path && os_read_file(&p, &n, path, 256) == ERR_OK;

    if (done) {
        char *end;

        *batches = strtoull((const char *)p, &end, 10);
        (void)snprintf(failed->text, sizeof failed->text, "%.*s",
                       *end == ' ' ? (int)strcspn(end + 1, "\n") : 0, end + 1);
        mem_free(p);
    }
    mem_free(path);
    return done;
}

bool ch_forward_get(const char *dir, struct ch_forward *out)
{
    char *path = os_path_join(dir, "forward");
    long long since_ns = 0, until_ns = 0;
    uint8_t *p = NULL;
    size_t n;
    bool there = path && os_read_file(&p, &n, path, 1024) == ERR_OK;

    if (there &&
        sscanf((const char *)p, "%lld %lld %256[^\n]", &since_ns, &until_ns, out->hosts) != 3) {
        since_ns = until_ns = 0; /* nobody's request: it is answered with nothing */
        out->hosts[0] = 0;
    }
    out->since_ns = since_ns;
    out->until_ns = until_ns;
    mem_free(p);
    mem_free(path);
    return there;
}

enum err ch_forward_end(const char *dir, uint64_t batches, enum err failed)
{
    char *path = os_path_join(dir, "forward"), *done = os_path_join(dir, "forward.done");
    char text[200];
    enum err e = path && done ? ERR_OK : ERR_NOMEM;

    (void)snprintf(text, sizeof text, "%" PRIu64 "%s%s\n", batches, failed ? " " : "",
                   failed ? err_text(failed) : "");
    e = e ? e : os_write_file(done, text, strlen(text), true);
    e = e ? e : os_remove(path);
    mem_free(done);
    mem_free(path);
    return e;
}
