#include "collector/notify/notify_told.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/wire/wire_events.h"
#include "common/wire/wire_query.h"

#define PAGE      1000u
#define REPLY_MAX (4u << 20)

static enum err page_give(const struct wire_answer *a,
                          enum err (*each)(void *ctx, const struct notify_told *list, size_t n),
                          void *ctx)
{
    struct notify_told *list = mem_array(a->n_events + 1, sizeof *list);
    size_t n = 0;
    enum err e;

    if (!list) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < a->n_events; i++) {
        struct str host = a->hosts[a->events[i].host].name;

        if (notice_read(&list[n].notice, &a->events[i].event) == ERR_OK) {
            list[n++].host = str_eq(host, str_make(NOTICE_NO_HOST)) ? str_make("") : host;
        }
    }
    e = each(ctx, list, n);
    mem_free(list);
    return e;
}

static enum err page_ask(struct consumer *c, struct wire_query *q, struct consumer_ask *ask,
                         struct wire_answer **out, struct errmsg *why)
{
    struct buf request, reply;
    enum err e;

    buf_init(&request, 64u << 10);
    buf_init(&reply, REPLY_MAX);
    e = wire_query_encode(&request, q);
    ask->p = request.p;
    ask->n = request.n;
    e = e ? e : consumer_ask(c, ask, &reply, why);
    e = e ? e : wire_answer_decode(out, reply.p, reply.n);
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

enum err notify_told_ask(struct consumer *c,
                         enum err (*each)(void *ctx, const struct notify_told *list, size_t n),
                         void *ctx, bool *again, struct errmsg *why)
{
    struct consumer_ask ask = {.method = RPC_QUERY_RULES, .more = true};
    struct wire_query q = {.limit = PAGE, .rules_ask = WIRE_RULES_TOLD};
    enum err e = ERR_OK;

    *again = false;
    while (!e && ask.more) {
        struct wire_answer *a;

        q.cursor = (struct str){(const char *)ask.cursor, ask.n_cursor};
        e = page_ask(c, &q, &ask, &a, why);
        *again = ask.again;
        if (e) {
            break;
        }
        if (a->partial) {
            *again = true;
            e = errmsg_set(why, ERR_BUSY, "the collector's rules are being filled");
        }
        e = e ? e : page_give(a, each, ctx);
        wire_answer_free(a);
    }
    return e;
}
