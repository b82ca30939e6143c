/* What opens which ticket, for how long, and what the file of the keys may be. */
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/tls/tls_ticket.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define CONTENT   "a session"
#define CONTENT_N 9u
#define TICKET_N  (TLS_TICKET_HEAD + CONTENT_N + TLS_TICKET_TAIL)
#define LIFE_NS   ((int64_t)TLS_TICKET_LIFE_S * CLK_S)
#define FILE_MAX  4096u

static const uint8_t here[32] = {1}, elsewhere[32] = {2};
static char dir[256], path[300];
static int64_t now; /* real enough for the thread that rotates */

static struct tls_ticket *open_keys(int64_t now_ns)
{
    struct tls_ticket *t = NULL;

    assert_ok(tls_ticket_open(&t, path, now_ns, NULL));
    return t;
}

static void seal(struct tls_ticket *t, int64_t now_ns, uint8_t ticket[TICKET_N])
{
    memcpy(ticket + TLS_TICKET_HEAD, CONTENT, CONTENT_N);
    assert_ok(tls_ticket_seal(t, here, now_ns, ticket, CONTENT_N));
}

/* Opening changes the ticket: on a copy. */
static enum err unseal(struct tls_ticket *t, const uint8_t binding[32], int64_t now_ns,
                       const uint8_t ticket[TICKET_N])
{
    uint8_t copy[TICKET_N];
    size_t n = 0;
    enum err e;

    memcpy(copy, ticket, sizeof copy);
    e = tls_ticket_unseal(t, binding, now_ns, copy, sizeof copy, &n);
    if (!e) {
        assert_int_equal(n, CONTENT_N);
        assert_memory_equal(copy + TLS_TICKET_HEAD, CONTENT, CONTENT_N);
    }
    return e;
}

static void a_ticket_opens_for_an_hour_under_its_binding(void **state)
{
    static const struct {
        const uint8_t *binding;
        int64_t age_ns;
        enum err e;
    } rows[] = {
        {here, 0, ERR_OK},
        {here, LIFE_NS - CLK_S, ERR_OK},
        {here, LIFE_NS, ERR_TIMEOUT},
        {here, 100 * LIFE_NS, ERR_TIMEOUT},
        {here, -CLK_S, ERR_TIMEOUT}, /* of the future */
        {elsewhere, 0, ERR_CORRUPT},
    };
    struct tls_ticket *t = open_keys(now);
    uint8_t ticket[TICKET_N];

    seal(t, now, ticket);
    assert_memory_not_equal(ticket + TLS_TICKET_HEAD, CONTENT, CONTENT_N);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_err(unseal(t, rows[i].binding, now + rows[i].age_ns, ticket), rows[i].e);
    }
    tls_ticket_close(t);
}

static void no_changed_and_no_shorter_ticket_opens(void **state)
{
    struct tls_ticket *t = open_keys(now);
    uint8_t ticket[TICKET_N], copy[TICKET_N];
    size_t n;

    seal(t, now, ticket);
    for (size_t i = 0; i < sizeof ticket; i++) {
        memcpy(copy, ticket, sizeof copy);
        assert_err(tls_ticket_unseal(t, here, now, copy, i, &n), ERR_CORRUPT);
        memcpy(copy, ticket, sizeof copy);
        copy[i] ^= 1;
        assert_err(unseal(t, here, now, copy), ERR_CORRUPT);
    }
    assert_ok(unseal(t, here, now, ticket));
    tls_ticket_close(t);
}

static void two_tickets_of_one_content_differ(void **state)
{
    struct tls_ticket *t = open_keys(now);
    uint8_t a[TICKET_N], b[TICKET_N];

    seal(t, now, a);
    seal(t, now, b);
    assert_memory_not_equal(a, b, sizeof a);
    tls_ticket_close(t);
}

static void a_ticket_survives_one_rotation_and_not_two(void **state)
{
    struct tls_ticket *t = open_keys(now - LIFE_NS);
    uint8_t before[TICKET_N], after[TICKET_N];

    tls_ticket_rotate(t, now - 1); /* not yet due */
    seal(t, now - CLK_S, before);
    tls_ticket_rotate(t, now);
    seal(t, now, after);
    assert_memory_not_equal(before, after, 16);
    assert_ok(unseal(t, here, now, before));
    assert_ok(unseal(t, here, now, after));
    tls_ticket_rotate(t, now + LIFE_NS);
    /* It would be too old as well; that is looked at later. */
    assert_err(unseal(t, here, now, before), ERR_CORRUPT);
    assert_ok(unseal(t, here, now + LIFE_NS - CLK_S, after));
    tls_ticket_close(t);
}

static void a_clock_that_was_set_back_makes_a_new_key(void **state)
{
    struct tls_ticket *t = open_keys(now);
    uint8_t before[TICKET_N], after[TICKET_N];

    seal(t, now, before);
    tls_ticket_rotate(t, now - LIFE_NS);
    seal(t, now - LIFE_NS, after);
    assert_memory_not_equal(before, after, 16);
    assert_ok(unseal(t, here, now - LIFE_NS, after));
    tls_ticket_close(t);
}

static void the_next_start_opens_what_the_last_one_sealed(void **state)
{
    uint8_t old[TICKET_N], ticket[TICKET_N];
    struct tls_ticket *t = open_keys(now - LIFE_NS);

    seal(t, now - CLK_S, old);
    tls_ticket_rotate(t, now);
    seal(t, now, ticket);
    tls_ticket_close(t);
    assert_ok(os_check_private(path));
    t = open_keys(now);
    assert_ok(unseal(t, here, now, ticket));
    assert_ok(unseal(t, here, now, old));
    tls_ticket_close(t);
    t = open_keys(now + LIFE_NS); /* rotates */
    assert_ok(unseal(t, here, now + LIFE_NS - CLK_S, ticket));
    assert_err(unseal(t, here, now, old), ERR_CORRUPT);
    tls_ticket_close(t);
}

static void write_keys(const uint8_t *p, size_t n, bool private_file)
{
    assert_ok(os_write_file(path, p, n, private_file));
}

static void a_damaged_file_makes_new_keys(void **state)
{
    uint8_t ticket[TICKET_N], file[FILE_MAX], *p;
    struct tls_ticket *t = open_keys(now);
    size_t n;

    seal(t, now, ticket);
    tls_ticket_close(t);
    assert_ok(os_read_file(&p, &n, path, sizeof file - 1));
    memcpy(file, p, n);
    mem_free(p);
    for (size_t i = 0; i <= n; i++) {
        write_keys(file, i, true);
        t = open_keys(now);
        assert_err(unseal(t, here, now, ticket), i < n ? ERR_CORRUPT : ERR_OK);
        tls_ticket_close(t);
    }
    for (size_t i = 0; i < n; i++) {
        file[i] ^= 0x80;
        write_keys(file, n, true);
        file[i] ^= 0x80;
        t = open_keys(now);
        assert_err(unseal(t, here, now, ticket), ERR_CORRUPT);
        tls_ticket_close(t);
    }
    file[n] = 0;
    write_keys(file, n + 1, true);
    t = open_keys(now);
    assert_err(unseal(t, here, now, ticket), ERR_CORRUPT);
    seal(t, now, ticket); /* and what was made instead is kept */
    tls_ticket_close(t);
    t = open_keys(now);
    assert_ok(unseal(t, here, now, ticket));
    tls_ticket_close(t);
}

static void a_file_that_others_can_read_is_refused(void **state)
{
    struct tls_ticket *t = NULL;
    struct errmsg why = {""};

    write_keys((const uint8_t *)"", 0, false);
    assert_err(tls_ticket_open(&t, path, now, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, path));
    assert_ok(os_remove(path));
}

static void without_a_place_for_the_file_tickets_still_work(void **state)
{
    struct tls_ticket *t = NULL;
    uint8_t ticket[TICKET_N];

    assert_ok(tls_ticket_open(&t, "/nowhere/at/all/keys", now, NULL));
    seal(t, now, ticket);
    assert_ok(unseal(t, here, now, ticket));
    tls_ticket_close(t);
}

static void running_out_of_memory_leaves_nothing(void **state)
{
    long live = mem_live();
    enum err e = ERR_NOMEM;

    for (long i = 0; e; i++) {
        struct tls_ticket *t = NULL;

        assert_true(i < 100);
        mem_fail_after(i);
        e = tls_ticket_open(&t, path, now, NULL);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        tls_ticket_close(t);
        assert_int_equal(mem_live(), live);
    }
}

static int set_up(void **state)
{
    support_temp_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/tickets", dir);
    now = os_utc_ns() / CLK_S * CLK_S;
    return log_open(LOG_ERROR, LOG_TEXT, NULL);
}

static int tear_down(void **state)
{
    log_close();
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_opens_for_an_hour_under_its_binding),
        cmocka_unit_test(no_changed_and_no_shorter_ticket_opens),
        cmocka_unit_test(two_tickets_of_one_content_differ),
        cmocka_unit_test(a_ticket_survives_one_rotation_and_not_two),
        cmocka_unit_test(a_clock_that_was_set_back_makes_a_new_key),
        cmocka_unit_test(the_next_start_opens_what_the_last_one_sealed),
        cmocka_unit_test(a_damaged_file_makes_new_keys),
        cmocka_unit_test(a_file_that_others_can_read_is_refused),
        cmocka_unit_test(without_a_place_for_the_file_tickets_still_work),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
