/* The authority's database when processes are killed, disks fail or are full, bits flip, and
 * several processes use it at once. */
#include "collector/ca/ca_db.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/ca/ca_cert.h"
#include "collector/ca/ca_token.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/sqlite_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define NOW (INT64_C(1763750000) * CLK_S)
#define DAY (86400 * CLK_S)

struct rig {
    char dir[256], path[300];
    struct ca_db *db;
    struct pki_token token;
    struct errmsg why;
};

static const uint8_t pin[PKI_PIN_BYTES] = {9, 8, 7};

static struct net_identity agent(const char *name, uint8_t n)
{
    struct net_identity who = {.has_host = true,
                               .host = {{n, 1}},
                               .roles = NET_AGENT,
                               .fingerprint = {n, 0xab, 0xcd, 0xef},
                               .not_before_ns = NOW - DAY,
                               .not_after_ns = NOW + 90 * DAY};

    snprintf(who.name, sizeof who.name, "%s", name);
    return who;
}

static void reopen(struct rig *r)
{
    enum err e;

    ca_db_close(r->db);
    r->db = NULL;
    e = ca_db_open(&r->db, r->dir, sqlite_fault_fio(), &r->why);
    if (e) {
        fail_msg("%s: %s", err_name(e), r->why.text);
    }
}

/* With one host, one that is revoked, and a token. */
static void rig_open(struct rig *r)
{
    struct ca_token what = {.made_ns = NOW, .expires_ns = NOW + DAY, .again = true};
    struct net_identity a = agent("web-01", 1), b = agent("web-02", 2);
    struct ca_cert_meant meant;
    char text[PKI_TOKEN_TEXT];

    memset(r, 0, sizeof *r);
    support_temp_dir(r->dir, sizeof r->dir);
    snprintf(r->path, sizeof r->path, "%s/book.db", r->dir);
    reopen(r);
    assert_ok(ca_cert_issued(r->db, &a, NOW, &r->why));
    assert_ok(ca_cert_issued(r->db, &b, NOW, &r->why));
    assert_ok(ca_cert_revoke(r->db, "web-02", "lost", NOW, &meant, &r->why));
    assert_ok(ca_token_make(r->db, &what, pin, text, &r->why));
    assert_ok(pki_token_parse(&r->token, text));
}

static void rig_close(struct rig *r)
{
    sqlite_fault_arm(SQLITE_FAULT_EIO, -1);
    ca_db_close(r->db);
    support_remove_dir(r->dir);
}

static bool count_cert(void *ctx, const struct ca_cert *c)
{
    (void)c;
    ++*(size_t *)ctx;
    return true;
}

static bool find_token(void *ctx, const struct ca_token *t)
{
    *(struct ca_token *)ctx = *t;
    return false;
}

/* The enrolment of web-01 with a new key happened as a whole, or not at all. */
static bool is_enrolled(struct rig *r)
{
    struct net_identity before = agent("web-01", 1), other = agent("web-02", 2);
    struct ca_token t;
    size_t certs = 0;

    assert_ok(ca_cert_list(r->db, count_cert, &certs, &r->why));
    assert_ok(ca_token_list(r->db, find_token, &t, &r->why));
    assert_true(certs == 2 || certs == 3);
    assert_int_equal(t.used_ns != 0, certs == 3);
    assert_int_equal(ca_db_judge(r->db, &before) != NULL, certs == 3);
    assert_non_null(ca_db_judge(r->db, &other));
    return certs == 3;
}

static enum err enroll(struct rig *r)
{
    struct net_identity who = agent("web-01", 1);

    who.fingerprint[1] = 0x77;
    r->why.text[0] = '\0';
    return ca_token_enroll(r->db, &r->token, &who, NOW, &r->why);
}

static void an_enrolment_that_is_killed_happens_whole_or_not_at_all(void **state)
{
    unsigned whole = 0, none = 0;
    bool killed = true;

    (void)state;
    for (long k = 0; killed; k++) {
        struct rig r;
        int status = 0;
        pid_t child;

        rig_open(&r);
        ca_db_close(r.db);
        r.db = NULL;
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (ca_db_open(&r.db, r.dir, sqlite_fault_fio(), &r.why) != ERR_OK) {
                _exit(1);
            }
            sqlite_fault_arm(SQLITE_FAULT_KILL, k);
            _exit(enroll(&r) == ERR_OK ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9));
        killed = WEXITSTATUS(status) == 9;
        reopen(&r);
        if (is_enrolled(&r)) {
            whole++;
            assert_err(enroll(&r), ERR_EXISTS);
        } else {
            none++;
            assert_true(killed); /* what was answered did happen */
            assert_ok(enroll(&r));
        }
        rig_close(&r);
    }
    assert_true(none > 5);
    assert_true(whole >= 1);
}

static void a_failing_or_full_disk_loses_nothing(void **state)
{
    (void)state;
    for (int fault = SQLITE_FAULT_EIO; fault <= SQLITE_FAULT_FULL; fault++) {
        enum err e = ERR_IO;

        for (long k = 0; e; k++) {
            struct rig r;

            rig_open(&r);
            sqlite_fault_arm((enum sqlite_fault)fault, k);
            e = enroll(&r);
            assert_true(e == ERR_OK || e == (fault == SQLITE_FAULT_EIO ? ERR_IO : ERR_NOSPACE));
            assert_true(!e || strstr(r.why.text, "book.db"));
            sqlite_fault_arm((enum sqlite_fault)fault, -1);
            if (e) {
                bool whole = is_enrolled(&r); /* with the same connection */

                assert_err(enroll(&r), whole ? ERR_EXISTS : ERR_OK);
            }
            reopen(&r);
            assert_true(is_enrolled(&r));
            rig_close(&r);
        }
    }
}

static void put(const char *path, const void *p, size_t n)
{
    FILE *f;

    (void)remove(path); /* a new file: its bytes are not flushed when it is closed */
    f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fchmod(fileno(f), 0600), 0);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Every byte of some, and one of each stretch of the others. */
static void a_flipped_bit_anywhere_is_found(void **state)
{
    struct rig r;
    struct ca_db *db;
    uint8_t *p;
    size_t n, found = 0, tried = 0;

    (void)state;
    rig_open(&r);
    assert_ok(os_read_file(&p, &n, r.path, 1u << 20));
    for (size_t bit = 0; bit < 8 * n; bit += bit < 8 * 120 ? 1 : 1009) {
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        put(r.path, p, n);
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        r.why.text[0] = '\0';
        if (ca_db_open(&db, r.dir, sqlite_fault_fio(), &r.why) == ERR_CORRUPT) {
            assert_non_null(strstr(r.why.text, "book.db is damaged"));
            found++;
        }
        tried++;
    }
    assert_int_equal(found, tried);
    assert_ok(os_write_file(r.path, p, n - 4096, true)); /* cut */
    assert_err(ca_db_open(&db, r.dir, sqlite_fault_fio(), &r.why), ERR_CORRUPT);
    assert_ok(os_write_file(r.path, "", 0, true));
    assert_err(ca_db_open(&db, r.dir, sqlite_fault_fio(), &r.why), ERR_CORRUPT);
    mem_free(p);
    rig_close(&r);
}

static void others_cannot_read_it_under_any_umask(void **state)
{
    static const mode_t umasks[] = {0, 022, 077};
    struct ca_db *db;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(umasks); i++) {
        mode_t before = umask(umasks[i]);
        struct rig r;

        rig_open(&r);
        assert_ok(os_check_private(r.path));
        assert_int_equal(chmod(r.path, 0640), 0);
        assert_err(ca_db_open(&db, r.dir, sqlite_fault_fio(), &r.why), ERR_ACCESS);
        assert_non_null(strstr(r.why.text, "chmod"));
        rig_close(&r);
        (void)umask(before);
    }
}

static void no_directory_is_said_with_its_remedy(void **state)
{
    struct ca_db *db;
    struct errmsg why;

    (void)state;
    assert_err(ca_db_open(&db, "/nonexistent/pki", NULL, &why), ERR_NOTFOUND);
    assert_non_null(strstr(why.text, "pki init"));
}

static enum err open_readonly(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    (void)out;
    (void)path;
    return ERR_READONLY;
}

static enum err open_denied(void *ctx, struct fio_file **out, const char *path)
{
    (void)ctx;
    (void)out;
    (void)path;
    return ERR_ACCESS;
}

static void what_cannot_be_written_is_said_with_its_remedy(void **state)
{
    const struct fio readonly = {.open = open_readonly}, denied = {.open = open_denied};
    struct ca_rows r = {.path = "/x/book.db", .fio = &readonly};
    struct errmsg why;

    (void)state;
    assert_err(ca_rows_explain(&r, ERR_READONLY, &why), ERR_READONLY);
    assert_non_null(strstr(why.text, "mount it writable"));
    assert_null(strstr(why.text, "run this as"));
    r.fio = &denied;
    assert_err(ca_rows_explain(&r, ERR_READONLY, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "run this as"));
    assert_err(ca_rows_failed(&r, ERR_NOSPACE, &why), ERR_NOSPACE);
    assert_err(ca_rows_failed(&r, ERR_BUSY, &why), ERR_IO);
    assert_non_null(strstr(why.text, "another program"));
}

/* Another file takes its place, as when it is brought back from a copy. */
static void a_file_that_takes_its_place_is_followed(void **state)
{
    struct net_identity a = agent("web-01", 1), b = agent("web-02", 2);
    struct ca_cert_meant meant;
    bool changed;
    struct rig r;
    uint8_t *p;
    size_t n;

    (void)state;
    rig_open(&r);
    assert_ok(os_read_file(&p, &n, r.path, 1u << 20));
    assert_ok(ca_cert_revoke(r.db, "web-01", "", NOW, &meant, &r.why));
    assert_ok(ca_db_refresh(r.db, &changed, &r.why));
    assert_true(changed);
    assert_ok(os_write_file(r.path, "", 0, true));
    assert_err(ca_db_refresh(r.db, &changed, &r.why), ERR_CORRUPT);
    assert_non_null(ca_db_judge(r.db, &a)); /* what was known stays known */
    assert_err(enroll(&r), ERR_IO);
    assert_ok(os_write_file(r.path, p, n, true));
    assert_ok(ca_db_refresh(r.db, &changed, &r.why));
    assert_true(changed);
    assert_null(ca_db_judge(r.db, &a));
    assert_non_null(ca_db_judge(r.db, &b));
    assert_ok(enroll(&r));
    mem_free(p);
    rig_close(&r);
}

/* -- several processes -- */

enum { PROCESSES = 6, EACH = 25 };

static void write_much(struct rig *r, unsigned process)
{
    struct ca_db *db;

    if (ca_db_open(&db, r->dir, sqlite_fault_fio(), &r->why) != ERR_OK) {
        _exit(1);
    }
    for (unsigned i = 0; i < EACH; i++) {
        struct net_identity who = agent("host", (uint8_t)(10 + process));

        who.fingerprint[5] = (uint8_t)i;
        if (ca_cert_issued(db, &who, NOW, &r->why) != ERR_OK) {
            _exit(2);
        }
    }
    _exit(0);
}

static void processes_write_at_once_and_each_row_is_there(void **state)
{
    struct rig r;
    size_t certs = 0;

    (void)state;
    rig_open(&r);
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            write_much(&r, i);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status = 0;

        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_ok(ca_cert_list(r.db, count_cert, &certs, &r.why));
    assert_int_equal(certs, 2 + PROCESSES * EACH);
    rig_close(&r);
}

/* All of them make it at once. */
static void it_is_made_once(void **state)
{
    char dir[256];

    (void)state;
    support_temp_dir(dir, sizeof dir);
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            struct rig r = {.db = NULL};

            snprintf(r.dir, sizeof r.dir, "%s", dir);
            write_much(&r, i);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status = 0;

        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_enrolment_that_is_killed_happens_whole_or_not_at_all),
        cmocka_unit_test(a_failing_or_full_disk_loses_nothing),
        cmocka_unit_test(a_flipped_bit_anywhere_is_found),
        cmocka_unit_test(others_cannot_read_it_under_any_umask),
        cmocka_unit_test(no_directory_is_said_with_its_remedy),
        cmocka_unit_test(what_cannot_be_written_is_said_with_its_remedy),
        cmocka_unit_test(a_file_that_takes_its_place_is_followed),
        cmocka_unit_test(processes_write_at_once_and_each_row_is_there),
        cmocka_unit_test(it_is_made_once),
    };

    sqlite_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
