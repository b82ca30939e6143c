#include "agent/source/trace/etl_input.h"

#include <errno.h>
#include <lzma.h>

#include "common/base/mem.h"

#define CHUNK 65536

struct unpack {
    lzma_stream z;
    FILE *plain;
    FILE *packed;
    uint64_t written;
    uint8_t in[CHUNK];
    uint8_t out[CHUNK];
};

static enum err err_of_lzma(lzma_ret r)
{
    switch (r) {
    case LZMA_MEM_ERROR:
    case LZMA_MEMLIMIT_ERROR:
        return ERR_NOMEM;
    case LZMA_OPTIONS_ERROR:
        return ERR_UNSUPPORTED;
    default:
        return ERR_CORRUPT;
    }
}

static enum err write_out(struct unpack *u)
{
    size_t n = CHUNK - u->z.avail_out;

    if (u->written + n > ETL_INPUT_UNPACKED_MAX) {
        return ERR_FULL;
    }
    if (fwrite(u->out, 1, n, u->plain) != n) {
        return errno == ENOSPC ? ERR_NOSPACE : ERR_IO;
    }
    u->written += n;
    u->z.next_out = u->out;
    u->z.avail_out = CHUNK;
    return ERR_OK;
}

static enum err unpack_all(struct unpack *u)
{
    lzma_action action = LZMA_RUN;
    lzma_ret r = LZMA_OK;
    enum err e;

    u->z.next_out = u->out;
    u->z.avail_out = CHUNK;
    while (r != LZMA_STREAM_END) {
        if (u->z.avail_in == 0 && action == LZMA_RUN) {
            u->z.next_in = u->in;
            u->z.avail_in = fread(u->in, 1, CHUNK, u->packed);
            if (ferror(u->packed)) {
                return ERR_IO;
            }
            action = feof(u->packed) ? LZMA_FINISH : LZMA_RUN;
        }
        r = lzma_code(&u->z, action);
        if (r != LZMA_OK && r != LZMA_STREAM_END) {
            return err_of_lzma(r);
        }
        if (u->z.avail_out == 0 || r == LZMA_STREAM_END) {
            e = write_out(u);
            if (e) {
                return e;
            }
        }
    }
    return ERR_OK;
}

enum err etl_input_unpack(FILE *plain, FILE *packed, const char *path, struct errmsg *why)
{
    static const lzma_stream fresh = LZMA_STREAM_INIT;
    struct unpack *u = mem_zalloc(sizeof *u);
    enum err e = ERR_NOMEM;
    lzma_ret r;

    if (!u) {
        return errmsg_set(why, ERR_NOMEM, "out of memory unpacking %s", path);
    }
    u->z = fresh;
    u->plain = plain;
    u->packed = packed;
    r = lzma_stream_decoder(&u->z, ETL_INPUT_XZ_MEMORY, LZMA_CONCATENATED);
    e = r == LZMA_OK ? unpack_all(u) : err_of_lzma(r);
    lzma_end(&u->z);
    mem_free(u);
    if (e) {
        return errmsg_set(why, e, "cannot unpack %s into a temporary file: %s%s", path, err_text(e),
                          e == ERR_CORRUPT ? " or cut short; 'xz -dc' may save a part of it" : "");
    }
    return ERR_OK;
}
