/* Events of providers, counted by provider and host and by what they are: against what the events
 * themselves say. */
#include "collector/query/query.h"
#include "common/wire/wire_providers.h"
#include "tests/collector/query/ask.h"
#include "tests/support/t.h"

static const struct str fields[] = {{"Status", 6}, {"User", 4}};
static const struct event_type types[] = {
    {.guid = {1}, .id = 1, .level = 2, .provider = {"MyTool", 6}, .name = {"Done", 4}},
    {.guid = {1},
     .id = 2,
     .level = 4,
     .provider = {"MyTool", 6},
     .task = {"Work", 4},
     .n_fields = 2,
     .fields = fields},
    {.guid = {2}, .id = 1, .provider = {"Other", 5}},
};

/* `n` events of the type at seconds `from` and on; values of two bytes where it has fields. */
static void put(struct lab *l, unsigned host, uint64_t seq, const struct event_type *type,
                unsigned from, unsigned n, uint8_t flags)
{
    lab_begin(l, host, 7, seq);
    lab_tick(l, from);
    for (unsigned i = 0; i < n; i++) {
        const struct life_event ev = {.kind = LIFE_PROVIDER,
                                      .value_flags = flags,
                                      .wall_ns = LAB_NS(from + i),
                                      .info = {.id = {2, 2}},
                                      .type = type,
                                      .values = {"\0\0", type->n_fields}};

        lab_event(l, &ev);
    }
    lab_put(l);
}

static struct lab *some_hosts(void)
{
    struct lab *l = lab_open(NULL, NULL);

    put(l, 1, 1, &types[0], 100, 3, 0);
    put(l, 1, 2, &types[1], 110, 5, LIFE_VALUES_REDACTED);
    put(l, 1, 3, &types[2], 120, 1, 0);
    put(l, 2, 1, &types[1], 100, 4, LIFE_VALUES_CUT);
    put(l, 3, 1, &types[2], 100, 2, 0);
    return l;
}

/* Runs the question page by page; the rows as "1 MyTool 8/10 redacted 5", newline between them. */
static unsigned ask_sums(struct lab *l, struct wire_query q, char *text, size_t size,
                         uint64_t *left_out)
{
    struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(1000)};
    char cursor[WIRE_CURSOR_MAX];
    unsigned pages = 0;
    size_t n = 0;
    bool more = true;

    *left_out = 0;
    text[0] = '\0';
    while (more) {
        const struct wire_providers *p;
        struct query_answer a;
        struct errmsg why = {""};

        assert_ok(query_run(&a, QUERY_PROVIDERS, &env, &q, &why));
        p = a.data.providers;
        for (size_t i = 0; i < p->n; i++) {
            const struct wire_provider_sum *s = &p->list[i];

            n += (size_t)snprintf(
                text + n, size - n, "%s%s%.*s %u %u: %llu/%llu r%llu c%llu h%u", n ? "\n" : "",
                q.types ? "" : a.data.hosts[s->host].name.p + 5, (int)s->type->provider.n,
                s->type->provider.p, (unsigned)s->type->id, (unsigned)s->type->n_fields,
                (unsigned long long)s->events, (unsigned long long)s->value_bytes,
                (unsigned long long)s->redacted, (unsigned long long)s->cut, (unsigned)s->hosts);
        }
        *left_out += p->left_out;
        pages++;
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q.cursor = (struct str){cursor, a.cursor_n};
        query_answer_fini(&a);
    }
    return pages;
}

static void each_host_has_its_providers_most_first(void **state)
{
    struct lab *l = some_hosts();
    uint64_t left_out;
    char got[1024];

    assert_int_equal(ask_sums(l, (struct wire_query){0}, got, sizeof got, &left_out), 1);
    assert_string_equal(got, "1MyTool 0 0: 8/10 r5 c0 h1\n"
                             "1Other 0 0: 1/0 r0 c0 h1\n"
                             "2MyTool 0 0: 4/8 r0 c4 h1\n"
                             "3Other 0 0: 2/0 r0 c0 h1");
    assert_int_equal(left_out, 0);
    /* pages of whole hosts, unless one has more than a page */
    assert_int_equal(ask_sums(l, (struct wire_query){.limit = 2}, got, sizeof got, &left_out), 2);
    assert_non_null(strstr(got, "2MyTool 0 0: 4/8"));
    assert_non_null(strstr(got, "3Other 0 0: 2/0"));
    assert_int_equal(left_out, 0);
    assert_int_equal(ask_sums(l, (struct wire_query){.limit = 1}, got, sizeof got, &left_out), 3);
    assert_null(strstr(got, "1Other"));
    assert_int_equal(left_out, 1);
    lab_close(l);
}

static void kinds_of_events_are_of_all_hosts(void **state)
{
    struct lab *l = some_hosts();
    struct wire_query q = {.types = true};
    uint64_t left_out;
    char got[1024];

    ask_sums(l, q, got, sizeof got, &left_out);
    assert_string_equal(got, "MyTool 2 2: 9/18 r5 c4 h2\n"
                             "MyTool 1 0: 3/0 r0 c0 h1\n"
                             "Other 1 0: 3/0 r0 c0 h2");
    q.events.provider = str_make("my*");
    q.events.event = str_make("2");
    ask_sums(l, q, got, sizeof got, &left_out);
    assert_string_equal(got, "MyTool 2 2: 9/18 r5 c4 h2");
    q = (struct wire_query){.types = true, .limit = 1};
    ask_sums(l, q, got, sizeof got, &left_out);
    assert_string_equal(got, "MyTool 2 2: 9/18 r5 c4 h2");
    assert_int_equal(left_out, 6);
    lab_close(l);
}

static void only_the_window_counts(void **state)
{
    struct lab *l = some_hosts();
    struct wire_query q = {.types = true,
                           .host = str_make("host-1"),
                           .since_ns = LAB_NS(102),
                           .until_ns = LAB_NS(112)};
    uint64_t left_out;
    char got[1024];

    ask_sums(l, q, got, sizeof got, &left_out);
    assert_string_equal(got, "MyTool 2 2: 2/4 r2 c0 h1\nMyTool 1 0: 1/0 r0 c0 h1");
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_host_has_its_providers_most_first),
        cmocka_unit_test(kinds_of_events_are_of_all_hosts),
        cmocka_unit_test(only_the_window_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
