#include "agent/enroll/trust_files.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "tests/agent/enroll/identity.h"
#include "tests/support/net_rig.h"
#include "tests/support/support.h"

static struct certs *pki, *foreign;

static enum err count_one(void *ctx, const char *name)
{
    unsigned *n = ctx;

    (void)name;
    *n += 1;
    return ERR_OK;
}

static void assert_files(const char *dir, unsigned wanted)
{
    unsigned n = 0;

    assert_ok(os_list_dir(dir, count_one, &n));
    assert_int_equal(n, wanted);
}

static void assert_is(const struct trust_files *f, const struct identity *x)
{
    struct net_identity who, wanted;
    struct errmsg why = {""};

    if (identity_of(&who, f, &why)) {
        fail_msg("%s", why.text);
    }
    assert_ok(tls_cert_parse(&wanted, x->der.p, x->der.n));
    assert_memory_equal(who.fingerprint, wanted.fingerprint, sizeof who.fingerprint);
}

/* A host that is a, and b, whom it may become. */
struct host {
    char dir[256];
    struct places p;
    struct identity a, b;
};

static void host_init(struct host *h, struct certs *of_b)
{
    struct errmsg why = {""};

    support_temp_dir(h->dir, sizeof h->dir);
    places_in(&h->p, h->dir);
    identity_make(&h->a, pki, NULL);
    identity_make(&h->b, of_b, NULL);
    assert_ok(identity_install(&h->a, pki, &h->p.files, true, &why));
}

static void host_fini(struct host *h)
{
    identity_free(&h->a);
    identity_free(&h->b);
    support_remove_dir(h->dir);
}

static void a_first_identity_makes_its_directories(void **state)
{
    char dir[256], sub[300];
    struct places p;
    struct identity a;
    struct errmsg why = {""};

    support_temp_dir(dir, sizeof dir);
    (void)snprintf(sub, sizeof sub, "%s/tls", dir);
    places_in(&p, sub);
    identity_make(&a, pki, NULL);
    assert_false(trust_files_exist(&p.files));
    assert_ok(trust_files_prepare(&p.files, &why));
    assert_files(sub, 0);
    assert_ok(trust_files_mend(&p.files, &why));
    assert_ok(identity_install(&a, pki, &p.files, true, &why));
    assert_is(&p.files, &a);
    assert_files(sub, 3);
    assert_ok(os_check_private(p.key));
    assert_true(trust_files_exist(&p.files));
    identity_free(&a);
    support_remove_dir(dir);
}

static void preparing_leaves_a_change_under_way_alone(void **state)
{
    static const char *const steps[] = {".try", ".new"};
    char dir[256], path[500];
    struct places p;
    struct errmsg why = {""};
    uint8_t *text;
    size_t n;

    support_temp_dir(dir, sizeof dir);
    places_in(&p, dir);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        (void)snprintf(path, sizeof path, "%s%s", p.cert, steps[i]);
        assert_ok(os_write_file(path, "an agent's", 10, false));
        assert_ok(trust_files_prepare(&p.files, &why)); /* doctor, for one */
        assert_ok(os_read_file(&text, &n, path, 100));
        assert_int_equal(n, 10);
        mem_free(text);
    }
    assert_files(dir, 2);
    support_remove_dir(dir);
}

static void what_was_there_is_kept_when_asked(void **state)
{
    char dir[256], old[3][500];
    struct trust_files kept = {.ca = old[0], .cert = old[1], .key = old[2]};
    struct places p;
    struct identity a, b;
    struct errmsg why = {""};

    support_temp_dir(dir, sizeof dir);
    places_in(&p, dir);
    (void)snprintf(old[0], sizeof old[0], "%s.old", p.ca);
    (void)snprintf(old[1], sizeof old[1], "%s.old", p.cert);
    (void)snprintf(old[2], sizeof old[2], "%s.old", p.key);
    identity_make(&a, pki, NULL);
    identity_make(&b, foreign, NULL);
    assert_ok(trust_files_keep(&p.files, &why)); /* nothing there: nothing to keep */
    assert_ok(identity_install(&a, pki, &p.files, true, &why));
    assert_ok(trust_files_keep(&p.files, &why));
    assert_ok(identity_install(&b, foreign, &p.files, true, &why));
    assert_is(&p.files, &b);
    assert_is(&kept, &a);
    assert_ok(os_check_private(old[2]));
    identity_free(&a);
    identity_free(&b);
    support_remove_dir(dir);
}

/* The directory as a crash can leave it, from the table in trust_files.c. */
static void every_state_of_a_change_is_mended(void **state)
{
    static const struct {
        const char *key, *ca, *cert; /* where the new one is; "" = its place */
        bool is_new;
    } rows[] = {
        {".new", NULL, NULL, false},
        {NULL, ".new", NULL, false},
        {".new", ".new", NULL, false},
        {".new", NULL, ".try", false},
        {".new", ".new", ".try", false},
        {".new", ".new", ".new", true},
        {"", ".new", ".new", true},
        {"", "", ".new", true},
        {"", "", "", true},
    };
    char dir[256], from[300], to[500];
    struct errmsg why = {""};
    struct places p, fresh;
    struct identity a, b;

    identity_make(&a, pki, NULL);
    identity_make(&b, foreign, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *const endings[] = {rows[i].key, rows[i].ca, rows[i].cert};

        support_temp_dir(dir, sizeof dir);
        (void)snprintf(from, sizeof from, "%s/fresh", dir);
        places_in(&p, dir);
        places_in(&fresh, from);
        assert_ok(trust_files_prepare(&fresh.files, &why));
        assert_ok(identity_install(&a, pki, &p.files, true, &why));
        assert_ok(identity_install(&b, foreign, &fresh.files, true, &why));
        for (size_t k = 0; k < 3; k++) {
            const char *const olds[] = {p.key, p.ca, p.cert};
            const char *const news[] = {fresh.key, fresh.ca, fresh.cert};

            if (endings[k]) {
                (void)snprintf(to, sizeof to, "%s%s", olds[k], endings[k]);
                assert_ok(os_rename(news[k], to));
            }
        }
        (void)snprintf(to, sizeof to, "%s.new.123.tmp", p.key);
        assert_ok(os_write_file(to, "half a key", 10, true));
        assert_ok(trust_files_mend(&p.files, &why));
        assert_ok(trust_files_mend(&p.files, &why));
        assert_is(&p.files, rows[i].is_new ? &b : &a);
        support_remove_dir(from);
        assert_files(dir, 3);
        support_remove_dir(dir);
    }
    identity_free(&a);
    identity_free(&b);
}

static void what_does_not_fit_changes_nothing(void **state)
{
    struct identity mixed;
    struct host h;
    struct errmsg why = {""};

    host_init(&h, pki);
    mixed = (struct identity){.key = h.a.key, .der = h.b.der}; /* the key of another certificate */
    assert_err(identity_install(&mixed, pki, &h.p.files, false, &why), ERR_TRUST);
    assert_err(identity_install(&h.b, foreign, &h.p.files, true, &why), ERR_TRUST);
    h.b.der.n -= 10;
    assert_int_not_equal(identity_install(&h.b, pki, &h.p.files, false, &why), ERR_OK);
    h.b.der.n += 10;
    assert_is(&h.p.files, &h.a);
    assert_files(h.dir, 3);
    host_fini(&h);
}

static void another_authority_joins_those_there(void **state)
{
    struct host h;
    struct errmsg why = {""};
    uint8_t *before, *after;
    size_t before_n, after_n;

    host_init(&h, foreign);
    assert_ok(os_read_file(&before, &before_n, h.p.ca, 8192));
    assert_ok(identity_install(&h.a, pki, &h.p.files, false, &why)); /* is there already */
    assert_ok(os_read_file(&after, &after_n, h.p.ca, 8192));
    assert_int_equal(after_n, before_n);
    mem_free(after);
    assert_ok(identity_install(&h.b, foreign, &h.p.files, false, &why));
    assert_is(&h.p.files, &h.b);
    assert_ok(os_read_file(&after, &after_n, h.p.ca, 8192));
    assert_true(after_n > before_n);
    assert_memory_equal(after + after_n - before_n, before, before_n);
    mem_free(before);
    mem_free(after);
    assert_ok(identity_install(&h.a, pki, &h.p.files, false, &why)); /* the old one still counts */
    assert_is(&h.p.files, &h.a);
    host_fini(&h);
}

static void a_place_that_cannot_be_written_is_told(void **state)
{
    char dir[256], file[300], below[400];
    struct places p;
    struct errmsg why = {""};

    support_temp_dir(dir, sizeof dir);
    (void)snprintf(file, sizeof file, "%s/file", dir);
    assert_ok(os_write_file(file, "x", 1, false));
    (void)snprintf(below, sizeof below, "%s/tls", file);
    places_in(&p, below);
    assert_int_not_equal(trust_files_prepare(&p.files, &why), ERR_OK);
    assert_non_null(strstr(why.text, "/file"));
    support_remove_dir(dir);
}

static void running_out_of_memory_changes_nothing_or_all(void **state)
{
    struct host h;
    struct errmsg why = {""};
    enum err e = ERR_NOMEM;

    host_init(&h, pki);
    for (long i = 0; e; i++) {
        mem_fail_after(i);
        e = identity_install(&h.b, pki, &h.p.files, false, &why);
        mem_fail_after(-1);
        assert_ok(trust_files_mend(&h.p.files, &why));
        assert_is(&h.p.files, e ? &h.a : &h.b);
        assert_files(h.dir, 3);
    }
    host_fini(&h);
}

static int set_up(void **state)
{
    net_rig_begin(&pki, &foreign);
    return 0;
}

static int tear_down(void **state)
{
    return net_rig_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_identity_makes_its_directories),
        cmocka_unit_test(preparing_leaves_a_change_under_way_alone),
        cmocka_unit_test(what_was_there_is_kept_when_asked),
        cmocka_unit_test(every_state_of_a_change_is_mended),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
        cmocka_unit_test(another_authority_joins_those_there),
        cmocka_unit_test(a_place_that_cannot_be_written_is_told),
        cmocka_unit_test(running_out_of_memory_changes_nothing_or_all),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
