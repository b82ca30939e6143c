/* A change, and what a crash leaves:
 *
 *   1  KEY.new, CA.new, CERT.try   nothing counts yet: mending removes them
 *   2  CERT.try -> CERT.new        the change counts: mending goes on with 3
 *   3  KEY.new -> KEY, CA.new -> CA
 *   4  CERT.new -> CERT            done
 *
 * Each file is written to a neighbour, synced and renamed (os_write_file), so that none is ever
 * half there; directories are synced between the steps. Copying the old key aside first was
 * rejected: it would leave more keys lying about, and a certificate is of use only with its own. */
#include "agent/enroll/trust_files.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/net/net.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"

#define PATH_MAX_BYTES 4096

/* A path with something behind it. */
struct path {
    char text[PATH_MAX_BYTES];
};

static const char *with(struct path *p, const char *path, const char *ending)
{
    (void)snprintf(p->text, sizeof p->text, "%s%s", path, ending);
    return p->text;
}

static const char *parent_of(struct path *p, const char *path)
{
    size_t n = (size_t)(os_path_base(path) - path);

    (void)snprintf(p->text, sizeof p->text, "%.*s", n > 1 ? (int)n - 1 : (int)n, path);
    return n == 0 ? "." : p->text;
}

static enum err failed(struct errmsg *why, enum err e, const char *what, const char *path)
{
    return errmsg_set(why, e, "cannot %s %s: %s", what, path, err_text(e));
}

static enum err remove_if_there(const char *path, struct errmsg *why)
{
    enum err e = os_exists(path) ? os_remove(path) : ERR_OK;

    return e && e != ERR_NOTFOUND ? failed(why, e, "remove", path) : ERR_OK;
}

bool trust_files_exist(const struct trust_files *f)
{
    return os_exists(f->cert) || os_exists(f->key);
}

/* -- before -- */

/* What it writes is of no change: an agent may be in the middle of one. */
static enum err prepare_one(const char *path, struct errmsg *why)
{
    struct path dir, probe;
    enum err e;

    if (strlen(path) + sizeof ".probe.12345678.tmp" > PATH_MAX_BYTES) {
        return errmsg_set(why, ERR_INVALID, "the path %.64s... is too long", path);
    }
    (void)parent_of(&dir, path);
    e = os_exists(dir.text) ? ERR_OK : os_mkdirs(dir.text, true);
    if (e) {
        return failed(why, e, "make the directory", dir.text);
    }
    e = os_write_file(with(&probe, path, ".probe"), "x", 1, true);
    if (!e) {
        e = os_remove(probe.text);
    }
    return e ? failed(why, e, "write", probe.text) : ERR_OK;
}

enum err trust_files_prepare(const struct trust_files *f, struct errmsg *why)
{
    enum err e = prepare_one(f->key, why);

    if (!e) {
        e = prepare_one(f->ca, why);
    }
    return e ? e : prepare_one(f->cert, why);
}

static enum err keep_one(const char *path, bool private_file, struct errmsg *why)
{
    struct path old;
    uint8_t *p = NULL;
    size_t n = 0;
    enum err e = os_read_file(&p, &n, path, PKI_FILE_MAX);

    if (e == ERR_NOTFOUND) {
        return ERR_OK;
    }
    if (!e) {
        e = os_write_file(with(&old, path, ".old"), p, n, private_file);
        memset(p, 0, n);
    }
    mem_free(p);
    return e ? failed(why, e, "keep a copy of", path) : ERR_OK;
}

enum err trust_files_keep(const struct trust_files *f, struct errmsg *why)
{
    enum err e = keep_one(f->key, true, why);

    if (!e) {
        e = keep_one(f->cert, false, why);
    }
    return e ? e : keep_one(f->ca, false, why);
}

/* -- the change -- */

static enum err move(const char *from, const char *to, struct errmsg *why)
{
    const struct fio *io = fio_os();
    enum err e = os_exists(from) ? io->rename(io->ctx, from, to) : ERR_OK;
    struct path dir;

    if (!e) {
        e = io->sync_dir(io->ctx, parent_of(&dir, to));
    }
    return e ? errmsg_set(why, e,
                          "cannot rename %s to %s: %s; the new certificate is taken when the agent "
                          "starts again",
                          from, to, err_text(e))
             : ERR_OK;
}

/* Steps 3 and 4. */
static enum err finish(const struct trust_files *f, struct errmsg *why)
{
    struct path from;
    enum err e = move(with(&from, f->key, ".new"), f->key, why);

    if (!e) {
        e = move(with(&from, f->ca, ".new"), f->ca, why);
    }
    return e ? e : move(with(&from, f->cert, ".new"), f->cert, why);
}

/* What a writer that was killed has left: "NAME.new.PID.tmp". */
struct sweep {
    const char *dir, *base;
    enum err e;
};

static enum err sweep_one(void *ctx, const char *name)
{
    struct sweep *s = ctx;
    size_t n = strlen(s->base), len = strlen(name);
    char *path;

    if (strncmp(name, s->base, n) != 0 || len < n + 4 || strcmp(name + len - 4, ".tmp") != 0) {
        return ERR_OK;
    }
    path = os_path_join(s->dir, name);
    s->e = path ? os_remove(path) : ERR_NOMEM;
    mem_free(path);
    return ERR_OK;
}

/* That much cannot be removed keeps nobody from going on. */
static void sweep(const char *path)
{
    struct path dir, base;
    struct sweep s = {.dir = parent_of(&dir, path), .base = with(&base, os_path_base(path), ".")};

    err_ignore(os_list_dir(s.dir, sweep_one, &s));
    err_ignore(s.e);
}

static enum err undo(const struct trust_files *f, struct errmsg *why)
{
    struct path p;
    enum err e = remove_if_there(with(&p, f->cert, ".try"), why);

    if (!e) {
        e = remove_if_there(with(&p, f->key, ".new"), why);
    }
    if (!e) {
        e = remove_if_there(with(&p, f->ca, ".new"), why);
    }
    sweep(f->key);
    sweep(f->ca);
    sweep(f->cert);
    return e;
}

enum err trust_files_mend(const struct trust_files *f, struct errmsg *why)
{
    struct path p;

    return os_exists(with(&p, f->cert, ".new")) ? finish(f, why) : undo(f, why);
}

/* What the files will be, tried as they are used. */
static enum err try_them(const char *ca, const char *cert, const char *key, struct errmsg *why)
{
    struct net_tls_conf conf = {
        .ca = ca, .cert = cert, .key = key, .server_name = PKI_SERVER_NAME, .lapsed = true};
    struct tls_config *tls = NULL;
    enum err e = tls_config_load(&tls, &conf, false, why);

    tls_config_free(tls);
    return e;
}

static enum err write_pem(const char *path, const void *der, size_t n, const void *more,
                          size_t more_n, struct errmsg *why)
{
    struct buf pem;
    enum err e;

    buf_init(&pem, PKI_FILE_MAX);
    e = pki_pem_put(&pem, der, n);
    if (!e) {
        buf_put(&pem, more, more_n);
        e = pem.bad ? pem.bad : os_write_file(path, pem.p, pem.n, false);
    }
    buf_fini(&pem);
    return e ? failed(why, e, "write", path) : ERR_OK;
}

/* The authority in front of those that are there already. */
static enum err write_authorities(const struct trust_files *f, const struct trust_change *c,
                                  const char *path, struct errmsg *why)
{
    uint8_t *old = NULL;
    size_t n = 0;
    enum err e = c->replace ? ERR_NOTFOUND : os_read_file(&old, &n, f->ca, PKI_FILE_MAX);

    if (!e || e == ERR_NOTFOUND) {
        e = write_pem(path, c->authority, c->authority_n, old, n, why);
    } else {
        e = failed(why, e, "read", f->ca);
    }
    mem_free(old);
    return e;
}

/* Step 1, up to a certificate that is known to fit. */
static enum err write_new(const struct trust_files *f, const struct trust_change *c,
                          struct errmsg *why)
{
    struct path key, ca, cert;
    enum err e = pki_key_save(c->key, with(&key, f->key, ".new"), why);

    (void)with(&ca, f->ca, ".new");
    if (!e) {
        e = write_pem(with(&cert, f->cert, ".try"), c->certificate, c->certificate_n, NULL, 0, why);
    }
    if (!e && !c->replace && try_them(f->ca, cert.text, key.text, why) == ERR_OK) {
        return ERR_OK;
    }
    if (!e) {
        e = write_authorities(f, c, ca.text, why);
    }
    return e ? e : try_them(ca.text, cert.text, key.text, why);
}

enum err trust_files_change(const struct trust_files *f, const struct trust_change *c,
                            struct errmsg *why)
{
    struct path from, to;
    enum err e = trust_files_mend(f, why);

    if (e) {
        return e;
    }
    e = write_new(f, c, why);
    if (!e) {
        const struct fio *io = fio_os();

        e = io->rename(io->ctx, with(&from, f->cert, ".try"), with(&to, f->cert, ".new"));
        if (e) {
            e = failed(why, e, "rename", from.text);
        }
    }
    if (e) {
        struct errmsg rest;

        err_ignore(undo(f, &rest));
        return e;
    }
    return finish(f, why);
}
