/* How boots ended, as far as what came of them and who is connected tell. */
#include "tests/support/t.h"

#include "common/wire/wire_boots.h"
#include "tests/collector/query/ask.h"

static bool connected;

static bool state_of(void *ctx, const struct uuid *host, struct query_host_state *out)
{
    (void)ctx;
    (void)host;
    *out = (struct query_host_state){.connected = connected};
    return true;
}

/* Of host 1 three boots, the newest one that of its batches; of host 2 none. */
static enum err boots_of(void *ctx, const struct uuid *host, int64_t since_ns, int64_t until_ns,
                         query_boot_each each, void *to)
{
    const struct uuid own = lab_host(1);
    enum err e = ERR_OK;

    (void)ctx;
    assert_true(since_ns == LAB_NS(10) && until_ns == INT64_MAX);
    for (unsigned i = 1; !e && i <= 3 && memcmp(host->b, own.b, sizeof own.b) == 0; i++) {
        struct query_boot b = {.booted_ns = i == 2 ? 0 : LAB_NS(30 * i),
                               .first_ns = LAB_NS(30 * i + 5),
                               .last_ns = LAB_NS(30 * i + 20),
                               .good_bye = i == 1};

        memset(b.boot.b, (int)i, sizeof b.boot.b);
        e = each(to, &b);
    }
    return e;
}

static void the_newest_boot_goes_on_or_is_silent_and_others_were_cut_or_clean(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query q = {.since_ns = LAB_NS(10)};
    struct query_env env = {.now_ns = LAB_NS(300), .host_state = state_of, .boots = boots_of};
    struct errmsg why = {""};

    (void)state;
    for (unsigned host = 1; host <= 2; host++) {
        lab_begin(l, host, 7, 1);
        lab_boot(l, 3);
        lab_tick(l, 120);
        lab_put(l);
    }
    env.view = lab_view(l);
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t ends[] = {WIRE_BOOT_CLEAN, WIRE_BOOT_CUT,
                                i ? WIRE_BOOT_GOES_ON : WIRE_BOOT_SILENT};
        struct query_answer a;

        connected = i == 1;
        assert_ok(query_run(&a, QUERY_BOOTS, &env, &q, &why));
        assert_int_equal(a.data.n_hosts, 1);
        assert_int_equal(a.data.boots->n, 3);
        for (unsigned k = 0; k < 3; k++) {
            assert_int_equal(a.data.boots->list[k].end, ends[k]);
            assert_int_equal(a.data.boots->list[k].host, 0);
        }
        assert_int_equal(a.data.boots->list[1].booted_ns, 0);
        assert_int_equal(a.data.boots->list[2].last_ns, LAB_NS(120)); /* the store knows more */
        query_answer_fini(&a);
    }
    q.limit = 2;
    {
        struct query_answer a;

        assert_ok(query_run(&a, QUERY_BOOTS, &env, &q, &why));
        assert_int_equal(a.data.boots->n, 2);
        assert_true(ask_note(&a.data, "there are more boots"));
        query_answer_fini(&a);
    }
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_boot_goes_on_or_is_silent_and_others_were_cut_or_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
