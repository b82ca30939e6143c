/* The file is one line of text: "procfleet-cursor 1", lines in decimal, the cursor in hex. */
#include "collector/cli/tail_cursor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/hash.h"
#include "common/base/mem.h"

#define MAGIC    "procfleet-cursor 1 "
#define FILE_MAX 4096u
#define HEX      "0123456789abcdef"

/* -- where -- */

static bool cursor_name_ok(const char *name)
{
    size_t n = strlen(name);

    return n >= 1 && n <= WIRE_FEED_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static char *cursor_dir(void)
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"XDG_STATE_HOME", "procfleet"},
        {"LOCALAPPDATA", "procfleet"},
        {"HOME", ".local/state/procfleet"},
    };

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);

        if (value && *value) {
            return os_path_join(value, places[i].below);
        }
    }
    return NULL;
}

static char *cursor_path(const char *dir, const char *collector, const char *owner,
                         const char *name)
{
    struct buf b;
    char *path;

    buf_init(&b, FILE_MAX);
    buf_put(&b, collector, strlen(collector) + 1);
    buf_put(&b, owner, strlen(owner) + 1);
    buf_printf(&b, "tail-%s-%016" PRIx64 ".cursor", name, hash_bytes(b.p, b.n, 0));
    path =
        b.bad ? NULL : os_path_join(dir, buf_cstr(&b) + strlen(collector) + 1 + strlen(owner) + 1);
    buf_fini(&b);
    return path;
}

/* -- what is in it -- */

static int hex_digit(char c)
{
    const char *at = c ? strchr(HEX, c) : NULL;

    return at ? (int)(at - HEX) : -1;
}

static enum err cursor_parse(struct tail_cursor *c, const char *text)
{
    char *end;

    if (strncmp(text, MAGIC, sizeof MAGIC - 1) != 0) {
        return ERR_CORRUPT;
    }
    c->lines = strtoull(text + sizeof MAGIC - 1, &end, 10);
    if (*end++ != ' ') {
        return ERR_CORRUPT;
    }
    for (; hex_digit(end[0]) >= 0 && hex_digit(end[1]) >= 0 && c->n < sizeof c->bytes; end += 2) {
        c->bytes[c->n++] = (uint8_t)(hex_digit(end[0]) << 4 | hex_digit(end[1]));
    }
    return c->n > 0 && strcmp(end, "\n") == 0 ? ERR_OK : ERR_CORRUPT;
}

static enum err cursor_read(struct tail_cursor *c, struct errmsg *why)
{
    uint8_t *p;
    size_t n;
    enum err e = os_read_file(&p, &n, c->path, FILE_MAX);

    if (e == ERR_NOTFOUND) {
        return ERR_OK;
    }
    if (!e) {
        e = cursor_parse(c, (const char *)p);
        mem_free(p);
    }
    return e ? errmsg_set(why, e,
                          "%s cannot be read: %s; without the file the collector's own cursor "
                          "counts",
                          c->path, err_text(e))
             : ERR_OK;
}

static enum err cursor_lock(struct tail_cursor *c, struct errmsg *why)
{
    size_t n = strlen(c->path) + sizeof ".lock";
    char *path = mem_alloc(n);
    enum err e = ERR_NOMEM;

    if (path) {
        snprintf(path, n, "%s.lock", c->path);
        e = os_lock(&c->lock, path);
    }
    mem_free(path);
    if (e == ERR_BUSY) {
        return errmsg_set(why, e, "another 'procfleet tail' follows this subscription");
    }
    return e ? errmsg_set(why, e, "cannot lock %s: %s", c->path, err_text(e)) : ERR_OK;
}

enum err tail_cursor_open(struct tail_cursor *c, const char *collector, const char *owner,
                          const char *name, struct errmsg *why)
{
    char *dir;
    enum err e;

    *c = (struct tail_cursor){.path = NULL};
    if (!cursor_name_ok(name)) {
        return errmsg_set(why, ERR_USAGE,
                          "--durable: a name has 1 to %u letters, digits, '.', '_' and '-'",
                          WIRE_FEED_NAME_MAX);
    }
    dir = cursor_dir();
    if (!dir) {
        return errmsg_set(why, ERR_NOTFOUND,
                          "there is no place for the cursor: set XDG_STATE_HOME to a directory");
    }
    e = os_mkdirs(dir, true);
    if (e) {
        errmsg_set(why, e, "cannot make %s: %s", dir, err_text(e));
    } else {
        c->path = cursor_path(dir, collector, owner, name);
        e = c->path ? cursor_lock(c, why) : ERR_NOMEM;
    }
    mem_free(dir);
    return e ? e : cursor_read(c, why);
}

enum err tail_cursor_write(const struct tail_cursor *c, struct errmsg *why)
{
    struct buf b;
    enum err e;

    buf_init(&b, FILE_MAX);
    buf_printf(&b, MAGIC "%" PRIu64 " ", c->lines);
    for (size_t i = 0; i < c->n; i++) {
        buf_printf(&b, "%02x", c->bytes[i]);
    }
    buf_put_u8(&b, '\n');
    e = b.bad ? b.bad : os_write_file(c->path, b.p, b.n, true);
    buf_fini(&b);
    return e ? errmsg_set(why, e, "cannot keep the cursor in %s: %s", c->path, err_text(e))
             : ERR_OK;
}

void tail_cursor_close(struct tail_cursor *c)
{
    os_unlock(c->lock);
    mem_free(c->path);
    *c = (struct tail_cursor){.path = NULL};
}
