/* Any bytes as a question to a store: byte 0 picks which kind and whether the asking certificate
 * has a scope, the rest is the message. What is answered can be sent and read, shows no host out of
 * scope, and its cursor is one that the next page takes. */
#include <stdlib.h>
#include <string.h>

#include "collector/query/query.h"
#include "common/base/glob.h"
#include "tests/fuzz/filled_store.h"

#define SCOPE "gen-1"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void judge(const struct query_answer *a, const struct query_env *env)
{
    struct wire_answer *again = NULL;
    struct buf out;

    buf_init(&out, QUERY_REPLY_MAX);
    filled_store_must(wire_answer_encode(&out, &a->data) == ERR_OK);
    filled_store_must(wire_answer_decode(&again, out.p, out.n) == ERR_OK);
    for (size_t i = 0; i < again->n_hosts && env->scope; i++) {
        filled_store_must(glob_match(str_make(env->scope), again->hosts[i].name));
    }
    wire_answer_free(again);
    buf_fini(&out);
}

/* Asks, and for one page more. */
static void ask(enum query_kind kind, const struct query_env *env, struct wire_query *q)
{
    uint8_t cursor[WIRE_CURSOR_MAX];
    bool more = true;

    for (int page = 0; page < 2 && more; page++) {
        struct query_answer a = {0};
        struct errmsg why = {""};
        enum err e = query_run(&a, kind, env, q, &why);

        filled_store_must(e == ERR_OK || (page == 0 && why.text[0]));
        if (!e) {
            judge(&a, env);
        }
        more = !e && a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q->cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct query_env env = {.now_ns = RIG_T0 + FILLED_STORE_SPAN_NS};
    struct store_view *view = NULL;
    struct wire_query *q;

    if (n == 0 || wire_query_decode(&q, p + 1, n - 1) != ERR_OK) {
        return 0;
    }
    env.scope = p[0] & 8 ? SCOPE : NULL;
    filled_store_must(store_view_open(&view, filled_store()) == ERR_OK);
    env.view = view;
    ask((enum query_kind)(p[0] % (QUERY_OVERVIEW + 1)), &env, q);
    store_view_close(view);
    wire_query_free(q);
    return 0;
}
