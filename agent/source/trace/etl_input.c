#include "agent/source/trace/etl_input.h"

#include <errno.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

struct etl_input {
    FILE *f;
    uint64_t size;
};

static enum err err_of_errno(void)
{
    switch (errno) {
    case ENOENT:
        return ERR_NOTFOUND;
    case EACCES:
    case EPERM:
        return ERR_ACCESS;
    case ENOMEM:
        return ERR_NOMEM;
    case ENOSPC:
        return ERR_NOSPACE;
    default:
        return ERR_IO;
    }
}

static int is_xz(FILE *f)
{
    static const uint8_t magic[6] = {0xfd, '7', 'z', 'X', 'Z', 0};
    uint8_t head[sizeof magic];
    int yes =
        fread(head, 1, sizeof head, f) == sizeof head && memcmp(head, magic, sizeof head) == 0;

    rewind(f);
    return yes;
}

/* Replaces in->f, an .xz file, with a temporary file that has its content and no name. */
static enum err replace_packed(struct etl_input *in, const char *path, struct errmsg *why)
{
    FILE *plain = tmpfile();
    enum err e;

    if (!plain) {
        e = err_of_errno();
        return errmsg_set(why, e, "cannot make a temporary file to unpack %s: %s", path,
                          strerror(errno));
    }
    e = etl_input_unpack(plain, in->f, path, why);
    if (!e && fflush(plain) != 0) {
        e = err_of_errno();
        e = errmsg_set(why, e, "cannot unpack %s into a temporary file: %s", path, strerror(errno));
    }
    if (e) {
        (void)fclose(plain);
        return e;
    }
    (void)fclose(in->f);
    in->f = plain;
    return ERR_OK;
}

static enum err measure(struct etl_input *in)
{
    off_t end;

    if (fseeko(in->f, 0, SEEK_END) != 0) {
        return ERR_IO;
    }
    end = ftello(in->f);
    if (end < 0) {
        return ERR_IO;
    }
    in->size = (uint64_t)end;
    /* Reads are large or few: buffering would only copy. */
    return setvbuf(in->f, NULL, _IONBF, 0) == 0 ? ERR_OK : ERR_IO;
}

enum err etl_input_open(struct etl_input **out, const char *path, struct errmsg *why)
{
    struct etl_input *in = mem_zalloc(sizeof *in);
    enum err e;

    if (!in) {
        return errmsg_set(why, ERR_NOMEM, "out of memory opening %s", path);
    }
    in->f = os_fopen(path, "rb");
    if (!in->f) {
        e = errmsg_set(why, err_of_errno(), "cannot open %s: %s", path, strerror(errno));
        goto fail;
    }
    if (is_xz(in->f)) {
        e = replace_packed(in, path, why);
        if (e) {
            goto fail;
        }
    }
    e = measure(in);
    if (e) {
        e = errmsg_set(why, e, "cannot read %s: it must be a file", path);
        goto fail;
    }
    *out = in;
    return ERR_OK;

fail:
    etl_input_close(in);
    return e;
}

void etl_input_close(struct etl_input *in)
{
    if (!in) {
        return;
    }
    if (in->f) {
        (void)fclose(in->f);
    }
    mem_free(in);
}

uint64_t etl_input_size(const struct etl_input *in)
{
    return in->size;
}

enum err etl_input_read(struct etl_input *in, uint64_t offset, void *p, size_t n, size_t *got)
{
    size_t r;

    if (offset > INT64_MAX || fseeko(in->f, (off_t)offset, SEEK_SET) != 0) {
        return ERR_IO;
    }
    r = fread(p, 1, n, in->f);
    if (r < n && ferror(in->f)) {
        clearerr(in->f);
        return ERR_IO;
    }
    *got = r;
    return ERR_OK;
}
