#include "agent/etl/symbol/etl_symbols.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define PATH_BYTES 4096

struct etl_symbols_file {
    FILE *f;
    struct etl_pdb_input input;
    struct etl_pdb *pdb;
};

static bool file_read(void *ctx, uint64_t offset, void *p, size_t n)
{
    struct etl_symbols_file *s = ctx;

    return offset <= INT64_MAX && fseeko(s->f, (off_t)offset, SEEK_SET) == 0 &&
           fread(p, 1, n, s->f) == n;
}

void etl_symbols_close(struct etl_symbols_file *f)
{
    if (f) {
        etl_pdb_close(f->pdb);
        if (f->f) {
            fclose(f->f);
        }
        mem_free(f);
    }
}

struct etl_pdb *etl_symbols_pdb(struct etl_symbols_file *f)
{
    return f->pdb;
}

static enum err file_open(struct etl_symbols_file **out, const char *path,
                          const struct etl_images_module *module)
{
    struct etl_symbols_file *s;
    enum err e = ERR_NOTFOUND;

    if (!os_exists(path)) {
        return e;
    }
    s = mem_zalloc(sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    s->input = (struct etl_pdb_input){file_read, s};
    s->f = os_fopen(path, "rb");
    if (s->f) {
        e = etl_pdb_open(&s->pdb, &s->input);
    }
    if (!e && !etl_pdb_is(s->pdb, module->guid, module->age)) {
        e = ERR_VERSION;
    }
    if (e) {
        etl_symbols_close(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

/* The image names its database as its maker's machine did; a name that leads elsewhere is none. */
static struct str pdb_name(const struct etl_images_module *module)
{
    struct str name = module->pdb;

    for (size_t i = name.n; i-- > 0;) {
        if (name.p[i] == '\\' || name.p[i] == '/' || name.p[i] == ':') {
            name = (struct str){name.p + i + 1, name.n - i - 1};
            break;
        }
    }
    return str_eq(name, str_make("..")) || str_eq(name, str_make(".")) ||
                   (name.n && memchr(name.p, 0, name.n))
               ? str_make("")
               : name;
}

static void put_identity(struct buf *b, const struct etl_images_module *module)
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

    for (size_t k = 0; k < 16; k++) {
        buf_printf(b, "%02X", module->guid[order[k]]);
    }
    buf_printf(b, "%X", module->age);
}

enum err etl_symbols_open(struct etl_symbols_file **out, const char *const *dirs, size_t n_dirs,
                          const struct etl_images_module *module)
{
    struct str name = pdb_name(module);
    enum err e, worst = ERR_NOTFOUND;
    struct buf path;

    buf_init(&path, PATH_BYTES);
    for (size_t i = 0; i < 2 * n_dirs && name.n; i++) {
        buf_reset(&path);
        buf_put_str(&path, dirs[i / 2]);
        buf_put_u8(&path, '/');
        buf_put(&path, name.p, name.n);
        if (i % 2) {
            buf_put_u8(&path, '/');
            put_identity(&path, module);
            buf_put_u8(&path, '/');
            buf_put(&path, name.p, name.n);
        }
        e = file_open(out, buf_cstr(&path), module);
        if (e == ERR_OK || e == ERR_NOMEM) {
            buf_fini(&path);
            return e;
        }
        worst = e == ERR_NOTFOUND ? worst : e;
    }
    buf_fini(&path);
    return worst;
}
