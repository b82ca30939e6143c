/* The console over a store, without sockets: every route, what the description says of them, who
 * may ask, and how many at once. */
#include "collector/console/api.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "collector/console/console.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/collector/lab.h"
#include "tests/support/t.h"

#define PATIENCE_NS (20 * CLK_S)

struct set {
    struct lab *lab;
    struct serve *serve;
    struct console *console;
    struct net_identity who;
};

static int set_up(void **state)
{
    struct set *t = mem_zalloc(sizeof *t);
    struct serve_conf conf = {.request_max = 64 << 10};
    struct console_conf console = {.workers = 4};

    assert_non_null(t);
    t->lab = lab_open(NULL, NULL);
    for (unsigned h = 1; h <= 2; h++) {
        lab_begin(t->lab, h, 7, 1);
        lab_tick(t->lab, 100);
        lab_tick(t->lab, 101);
        lab_cpu(t->lab, 11, false, 0, 2, (int64_t[]){0, 5});
        lab_name(t->lab, 11, "worker");
        lab_life(t->lab, LIFE_PROCESS_START, 100.5, 9, "late");
        lab_put(t->lab);
    }
    conf.store = lab_store(t->lab);
    assert_ok(serve_create(&t->serve, &conf));
    console.serve = t->serve;
    assert_ok(console_create(&t->console, &console));
    t->who = (struct net_identity){.name = "operator", .roles = NET_QUERY, .fingerprint = {1}};
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    struct set *t = *state;

    console_destroy(t->console);
    serve_destroy(t->serve);
    lab_close(t->lab);
    mem_free(t);
    return 0;
}

/* -- asking -- */

struct got {
    struct os_mutex *lock;
    struct os_cond *changed;
    unsigned n, busy; /* answers; of them 429 */
    bool held;        /* `done` waits until it is not */
    struct wire_web_reply last;
    char body[256 << 10];
};

static void got_init(struct got *g)
{
    memset(g, 0, sizeof *g);
    assert_ok(os_mutex_create(&g->lock));
    assert_ok(os_cond_create(&g->changed, g->lock));
}

static void got_fini(struct got *g)
{
    os_cond_destroy(g->changed);
    os_mutex_destroy(g->lock);
}

static void on_reply(void *ctx, const struct wire_web_reply *reply)
{
    struct got *g = ctx;

    os_mutex_lock(g->lock);
    while (g->held && reply->status == 200) {
        os_cond_wait(g->changed);
    }
    assert_true(reply->body.n < sizeof g->body);
    memcpy(g->body, reply->body.p, reply->body.n);
    g->body[reply->body.n] = '\0';
    g->last = *reply;
    g->n++;
    g->busy += reply->status == 429;
    os_cond_wake_all(g->changed);
    os_mutex_unlock(g->lock);
}

static void got_wait(struct got *g, unsigned n)
{
    int64_t until = os_mono_ns() + PATIENCE_NS;

    os_mutex_lock(g->lock);
    while (g->n < n) {
        assert_ok(os_cond_wait_until(g->changed, until));
    }
    os_mutex_unlock(g->lock);
}

static uint32_t ask(struct set *t, struct got *g, const char *path, const char *query)
{
    const struct wire_web_request r = {.path = str_make(path), .query = str_make(query)};
    unsigned before = g->n;

    console_ask(t->console, &t->who, &r, on_reply, g);
    got_wait(g, before + 1);
    return g->last.status;
}

static struct got got;

/* -- routes -- */

static void every_route_answers_and_none_changes_anything(void **state)
{
    static const char *const read[] = {"info",   "metrics", "openapi.json", "updates", "overview",
                                       "hosts",  "top",     "processes",    "tree",    "history",
                                       "series", "pulse",   "lifetimes",    "events",  "coverage",
                                       "rules",  "outliers"};
    struct set *t = *state;

    got_init(&got);
    assert_int_equal(api_routes_n, COUNT_OF(read));
    for (size_t i = 0; i < api_routes_n; i++) {
        char path[64];
        json_t *j;

        assert_string_equal(api_routes[i].name, read[i]); /* a new one is looked at by people */
        (void)snprintf(path, sizeof path, API_ROOT "%s", api_routes[i].name);
        assert_int_equal(ask(t, &got, path, ""), api_routes[i].kind == API_UPDATES ? 503 : 200);
        assert_true(str_eq(got.last.type, str_make("application/json")));
        j = json_loads(got.body, 0, NULL);
        assert_true(json_is_object(j));
        json_decref(j);
    }
    got_fini(&got);
}

static void other_paths_are_not_found(void **state)
{
    static const char *const paths[] = {"/api",          "/api/v1/",        "/api/v2/top",
                                        "/api/v1/topp",  "/api/v1/session", "/api/v1/top/",
                                        "/api/v1/admin", "/nothing",        "/a/0/app.js"};
    struct set *t = *state;

    got_init(&got);
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_int_equal(ask(t, &got, paths[i], ""), 404);
    }
    assert_int_equal(ask(t, &got, "/api/v1/topp", ""), 404);
    assert_non_null(strstr(got.body, "did you mean /api/v1/top?"));
    got_fini(&got);
}

static void the_scope_and_the_role_are_those_of_the_identity(void **state)
{
    struct set *t = *state;
    struct net_identity all = t->who;

    got_init(&got);
    (void)snprintf(t->who.scope, sizeof t->who.scope, "host-2");
    assert_int_equal(ask(t, &got, "/api/v1/hosts", ""), 200);
    assert_null(strstr(got.body, "host-1"));
    assert_non_null(strstr(got.body, "host-2"));
    assert_int_equal(ask(t, &got, "/api/v1/top", "host=host-1"), 403);
    assert_non_null(strstr(got.body, "PERMISSION_DENIED"));
    t->who.roles = NET_SUBSCRIBE;
    assert_int_equal(ask(t, &got, "/api/v1/hosts", ""), 403);
    t->who = all;
    got_fini(&got);
}

static void pages_go_on_behind_their_cursor(void **state)
{
    struct set *t = *state;
    char query[600];
    json_t *j;

    got_init(&got);
    assert_int_equal(ask(t, &got, "/api/v1/processes", "limit=1&shape=rows"), 200);
    j = json_loads(got.body, 0, NULL);
    assert_true(json_is_true(json_object_get(j, "more")));
    (void)snprintf(query, sizeof query, "limit=1&shape=rows&cursor=%s",
                   json_string_value(json_object_get(j, "cursor")));
    json_decref(j);
    assert_int_equal(ask(t, &got, "/api/v1/processes", query), 200);
    j = json_loads(got.body, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(j, "rows")), 1);
    assert_true(json_is_null(json_object_get(j, "coverage"))); /* told with the first page */
    json_decref(j);
    got_fini(&got);
}

static void a_page_that_is_too_large_is_asked_for_with_fewer_rows(void **state)
{
    struct set *t = *state;
    const struct api_env env = {.serve = t->serve, .who = &t->who};
    const char *closest;
    struct api_answer *x = mem_zalloc(sizeof *x);
    size_t whole;

    assert_non_null(x);
    api_init(x, 1 << 20);
    api_run(x, api_find(str_make("/api/v1/processes"), &closest), str_make("shape=rows"), &env);
    assert_int_equal(x->status, 200);
    assert_non_null(strstr(buf_cstr(&x->body), "\"more\":false"));
    whole = x->body.n;
    api_fini(x);
    api_init(x, whole - 1);
    api_run(x, api_find(str_make("/api/v1/processes"), &closest), str_make("shape=rows"), &env);
    assert_int_equal(x->status, 200);
    assert_non_null(strstr(buf_cstr(&x->body), "\"more\":true"));
    api_fini(x);
    api_init(x, 100); /* not even one row */
    api_run(x, api_find(str_make("/api/v1/processes"), &closest), str_make("shape=rows"), &env);
    assert_int_equal(x->status, 429);
    api_fini(x);
    mem_free(x);
}

/* -- bounds -- */

static void an_identity_has_eight_under_way_and_others_are_not_kept(void **state)
{
    const struct wire_web_request r = {.path = str_make("/api/v1/info")};
    struct set *t = *state;
    struct net_identity other = t->who;
    struct console_stats stats;
    static struct got held;

    got_init(&got);
    got_init(&held);
    held.held = true;
    for (unsigned i = 0; i < CONSOLE_EACH_MAX; i++) {
        console_ask(t->console, &t->who, &r, on_reply, &held);
    }
    assert_int_equal(ask(t, &got, "/api/v1/info", ""), 429);
    assert_int_equal(got.last.retry_after_s, 1);
    other.fingerprint[0] = 2;
    console_ask(t->console, &other, &r, on_reply, &got); /* two threads are free: */
    got_wait(&got, 2);                                   /* two are held by the first */
    assert_int_equal(got.last.status, 200);
    os_mutex_lock(held.lock);
    assert_int_equal(held.n, 0);
    held.held = false;
    os_cond_wake_all(held.changed);
    os_mutex_unlock(held.lock);
    got_wait(&held, CONSOLE_EACH_MAX);
    console_stats(t->console, &stats);
    assert_int_equal(stats.crowded, 1);
    assert_int_equal(stats.waiting, 0);
    got_fini(&held);
    got_fini(&got);
}

static void stopping_answers_what_waits(void **state)
{
    const struct wire_web_request r = {.path = str_make("/api/v1/info")};
    struct set *t = *state;

    got_init(&got);
    for (unsigned i = 0; i < CONSOLE_EACH_MAX; i++) {
        console_ask(t->console, &t->who, &r, on_reply, &got);
    }
    console_stop(t->console);
    got_wait(&got, CONSOLE_EACH_MAX);
    assert_int_equal(ask(t, &got, "/api/v1/info", ""), 503);
    got_fini(&got);
}

static void requests_are_counted_by_path_and_status(void **state)
{
    struct set *t = *state;
    const char *path;
    unsigned status;
    uint64_t n;

    got_init(&got);
    assert_false(console_requests(t->console, 0, &path, &status, &n));
    (void)ask(t, &got, "/api/v1/hosts", "");
    (void)ask(t, &got, "/api/v1/hosts", "x=1");
    (void)ask(t, &got, "/", "");
    assert_true(console_requests(t->console, 1, &path, &status, &n));
    assert_string_equal(path, "hosts");
    assert_true(status == 400 && n == 1);
    assert_true(console_requests(t->console, 2, &path, &status, &n));
    assert_string_equal(path, "page");
    assert_false(console_requests(t->console, 3, &path, &status, &n));
    got_fini(&got);
}

/* -- answers kept -- */

static uint64_t count_kept(struct set *t)
{
    struct console_stats stats;

    console_stats(t->console, &stats);
    return stats.kept;
}

static void a_series_of_a_sealed_range_is_asked_once(void **state)
{
    static const char query[] =
        "since=1700000090000000000&until=1700000110000000000&group_by=image";
    struct set *t = *state;
    struct net_identity all = t->who;
    char *first;

    got_init(&got);
    assert_int_equal(ask(t, &got, "/api/v1/series", query), 200);
    first = mem_dup(got.body, got.last.body.n + 1);
    assert_non_null(first);
    assert_non_null(strstr(first, "worker"));
    assert_int_equal(count_kept(t), 0);
    t->who.fingerprint[0]++; /* another certificate of the same scope */
    assert_int_equal(ask(t, &got, "/api/v1/series", query), 200);
    assert_string_equal(got.body, first);
    assert_int_equal(count_kept(t), 1);
    (void)snprintf(t->who.scope, sizeof t->who.scope, "host-2");
    assert_int_equal(ask(t, &got, "/api/v1/series", query), 200);
    assert_string_not_equal(got.body, first);
    t->who = all;
    assert_int_equal(count_kept(t), 1);
    lab_begin(t->lab, 3, 7, 1);
    lab_tick(t->lab, 100);
    lab_tick(t->lab, 101);
    lab_cpu(t->lab, 11, false, 0, 2, (int64_t[]){0, 5});
    lab_put(t->lab); /* sealed at once: what was kept is old */
    assert_int_equal(ask(t, &got, "/api/v1/series", query), 200);
    assert_int_equal(count_kept(t), 1);
    assert_non_null(strstr(got.body, "\"hosts_asked\":3"));
    mem_free(first);
    got_fini(&got);
}

static void what_moves_or_is_not_a_series_is_asked_anew(void **state)
{
    struct set *t = *state;

    got_init(&got);
    for (unsigned i = 0; i < 2; i++) {
        (void)ask(t, &got, "/api/v1/series", "since=20000d&until=1d&step=1d");
        (void)ask(t, &got, "/api/v1/series", "last=15m");
        (void)ask(t, &got, "/api/v1/top", "since=1700000090000000000&until=1700000110000000000");
    }
    assert_int_equal(count_kept(t), 0);
    got_fini(&got);
}

/* -- openapi.json -- */

static json_t *parameter_of(json_t *list, size_t i)
{
    const char *name = json_string_value(json_object_get(json_array_get(list, i), "$ref"));

    assert_non_null(name);
    return json_string(strrchr(name, '/') + 1);
}

static void the_description_and_the_routes_agree(void **state)
{
    json_t *doc = json_load_file("collector/console/openapi.json", 0, NULL);
    json_t *paths = json_object_get(doc, "paths");
    json_t *all = json_object_get(json_object_get(doc, "components"), "parameters");

    (void)state;
    assert_int_equal(json_object_size(paths), api_routes_n);
    assert_int_equal(json_object_size(all), API_ARGS);
    for (size_t i = 0; i < API_ARGS; i++) {
        assert_non_null(json_object_get(all, api_args_name((enum api_arg)i)));
    }
    for (size_t i = 0; i < api_routes_n; i++) {
        uint32_t takes = 0;
        char path[64];
        json_t *entry, *list;

        (void)snprintf(path, sizeof path, API_ROOT "%s", api_routes[i].name);
        entry = json_object_get(paths, path);
        assert_int_equal(json_object_size(entry), 1); /* GET only */
        list = json_object_get(json_object_get(entry, "get"), "parameters");
        for (size_t k = 0; k < json_array_size(list); k++) {
            json_t *name = parameter_of(list, k);

            for (size_t a = 0; a < API_ARGS; a++) {
                takes |= strcmp(api_args_name((enum api_arg)a), json_string_value(name)) == 0
                             ? 1u << a
                             : 0;
            }
            json_decref(name);
        }
        if (takes != api_routes[i].takes) {
            print_error("%s\n", api_routes[i].name);
        }
        assert_int_equal(takes, api_routes[i].takes);
    }
    json_decref(doc);
}

/* What the page has other means for: ids for hosts, expressions for labels, timelines for kin. */
static bool is_of_the_command_line(const char *field)
{
    static const char *const fields[] = {"hosts", "labels",    "ancestors",
                                         "rules", "rules_ask", "types"};

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        if (strcmp(fields[i], field) == 0) {
            return true;
        }
    }
    return false;
}

/* Each field of QueryRequest is a parameter: without its unit, and `metrics` is `metric`. */
static void every_field_of_a_question_is_a_parameter(void **state)
{
    uint8_t *text;
    size_t n, fields = 0;
    char *line, *end;

    (void)state;
    assert_ok(os_read_file(&text, &n, "proto/query.proto", 1 << 20));
    line = strstr((char *)text, "message QueryRequest {");
    assert_non_null(line);
    end = strstr(line, "\n}");
    assert_non_null(end);
    *end = '\0';
    while ((line = strchr(line, '\n')) != NULL) {
        char name[64];
        unsigned number;
        bool found = false;

        line++;
        if (sscanf(line, " %*s %*s %63[a-z_] = %u", name, &number) != 2 ||
            is_of_the_command_line(name)) {
            continue;
        }
        fields++;
        if (strlen(name) > 3 && strcmp(name + strlen(name) - 3, "_ns") == 0) {
            name[strlen(name) - 3] = '\0';
        }
        if (strcmp(name, "metrics") == 0) {
            name[strlen(name) - 1] = '\0';
        }
        for (size_t a = 0; a < API_ARGS; a++) {
            found |= strcmp(api_args_name((enum api_arg)a), name) == 0;
        }
        if (!found) {
            print_error("no parameter for %s\n", name);
        }
        assert_true(found);
    }
    assert_int_equal(fields + 3, API_ARGS); /* and wait, shape and firing */
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_route_answers_and_none_changes_anything, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(other_paths_are_not_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_scope_and_the_role_are_those_of_the_identity, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(pages_go_on_behind_their_cursor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_that_is_too_large_is_asked_for_with_fewer_rows,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_identity_has_eight_under_way_and_others_are_not_kept,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopping_answers_what_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_are_counted_by_path_and_status, set_up, tear_down),
        cmocka_unit_test(the_description_and_the_routes_agree),
        cmocka_unit_test(every_field_of_a_question_is_a_parameter),
    };

    const struct CMUnitTest sealed[] = {
        cmocka_unit_test_setup_teardown(a_series_of_a_sealed_range_is_asked_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_moves_or_is_not_a_series_is_asked_anew, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) +
           cmocka_run_group_tests_name("sealed", sealed, lab_seal_all, NULL);
}
