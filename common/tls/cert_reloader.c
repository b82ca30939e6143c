#include "common/tls/cert_reloader.h"

#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define PEM_BYTES (1u << 20)

static uint64_t reloader_hash_file(const char *path, uint64_t seed)
{
    uint8_t *p = NULL;
    size_t n = 0;

    if (os_read_file(&p, &n, path, PEM_BYTES) == ERR_OK) {
        seed = hash_bytes(p, n, seed);
    }
    mem_free(p);
    return seed;
}

static uint64_t reloader_hash_all(const struct cert_reloader *f)
{
    uint64_t hash = reloader_hash_file(f->cert, reloader_hash_file(f->ca, 1));

    return f->crl ? reloader_hash_file(f->crl, hash) : hash;
}

void cert_reloader_begin(struct cert_reloader *f, struct tls_config *tls, const char *ca,
                         const char *cert, const char *crl)
{
    *f = (struct cert_reloader){.tls = tls, .ca = ca, .cert = cert, .crl = crl};
    f->seen = f->refused = reloader_hash_all(f);
}

enum err cert_reloader_poll(struct cert_reloader *f, bool *changed, struct errmsg *why)
{
    uint64_t now =
        reloader_hash_all(f); /* before they are read: what changes meanwhile is seen later */
    enum err e;

    *changed = false;
    if (now == f->seen) {
        return ERR_OK;
    }
    e = tls_config_reload(f->tls, why);
    if (e) {
        *changed = now != f->refused;
        f->refused = now;
        return e;
    }
    *changed = true;
    f->seen = f->refused = now;
    return ERR_OK;
}
