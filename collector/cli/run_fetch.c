#include "collector/cli/run_fetch.h"

#include "common/base/hash.h"
#include "common/lab/run_file.h"

#define ASK_MAX   (64u << 10)
#define REPLY_MAX (8u << 20)
#define TRIES     3u /* at a file that is made again while it comes */

enum err run_fetch_call(struct run_fetch *f, const char *method, enum wire_run_kind kind,
                        const void *ask, enum wire_run_kind answer, void *out)
{
    struct rpc_result result = {.code = RPC_OK};
    struct buf request, reply;
    enum err e;

    f->why.text[0] = '\0';
    buf_init(&request, ASK_MAX);
    buf_init(&reply, REPLY_MAX);
    e = wire_run_encode(&request, kind, ask);
    if (!e) {
        const struct cli_client_request q = {method, request.p, request.n,
                                             f->c->settings.timeout_ns, NULL};

        e = cli_client_call(f->client, &q, &reply, &result, &f->why);
    }
    e = e ? e : wire_run_decode(out, answer, reply.p, reply.n);
    f->code = e ? (int)cli_client_call_exit(e, &result) : CLI_OK;
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

static enum err pieces_fetch(struct run_fetch *f, struct str name, struct buf *out)
{
    struct wire_run_get get = {.name = name};
    uint64_t total = 1, hash = 0;
    enum err e = ERR_OK;

    buf_reset(out);
    while (!e && out->n < total) {
        struct wire_run_part *part;

        get.offset = out->n;
        e = run_fetch_call(f, RPC_QUERY_RUN_GET, WIRE_RUN_FETCH, &get, WIRE_RUN_PART, &part);
        if (e) {
            return e;
        }
        total = part->total;
        hash = out->n ? hash : part->hash;
        get.revision = part->revision;
        e = part->offset == out->n && part->data.n > 0 && total <= RUN_FILE_MAX ? ERR_OK
                                                                                : ERR_CORRUPT;
        buf_put(out, part->data.p, part->data.n);
        e = e ? e : out->bad;
        wire_run_free(part);
    }
    e = e ? e : hash == hash_bytes(out->p, out->n, 0) ? ERR_OK : ERR_CORRUPT;
    if (e) {
        f->code = CLI_FAILED;
    }
    return e != ERR_CORRUPT ? e : errmsg_set(&f->why, e, "a run's file came damaged");
}

enum err run_fetch_file(struct run_fetch *f, struct str name, struct buf *out)
{
    enum err e = ERR_OK;
    bool some = true;

    for (unsigned tries = 0; tries < TRIES && some; tries++) {
        e = pieces_fetch(f, name, out);
        some = e && !out->bad && out->n > 0; /* its begin came */
    }
    return e;
}

int run_fetch_fail(const struct run_fetch *f, enum err e)
{
    return cli_fail(f->c, (enum cli_exit)f->code, "%s", f->why.text[0] ? f->why.text : err_text(e));
}
