/* The book of older versions becomes a database: one that such a version wrote, damaged ones, and a
 * process that is killed at any step. */
#include "collector/ca/ca_import.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/ca/ca_cert.h"
#include "collector/ca/ca_token.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "tests/support/sqlite_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define FIXTURE "tests/collector/fixtures/ca-book-v1/"
#define NOW     (INT64_C(1763750000) * CLK_S)

static char dir[256];
static struct errmsg why;
static uint8_t *old; /* the fixture's book */
static size_t old_n;

static const char *path_of(const char *name)
{
    static char path[400];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* A new one: the bytes of a file that is written over are flushed when it is closed. */
static void put(const char *name, const void *p, size_t n)
{
    err_ignore(os_remove(path_of(name)));
    support_write_file(path_of(name), p, n);
}

static int setup(void **state)
{
    support_temp_dir(dir, sizeof dir);
    assert_ok(os_read_file(&old, &old_n, FIXTURE "book", 1u << 20));
    put("book", old, old_n);
    return 0;
}

static int teardown(void **state)
{
    mem_free(old);
    support_remove_dir(dir);
    return 0;
}

/* -- what is in it, as text: the older version wrote the fixture's in the same words -- */

static void put_hex(struct buf *b, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(b, "%02x", p[i]);
    }
}

static bool put_cert(void *ctx, const struct ca_cert *c)
{
    struct buf *b = ctx;
    char u[UUID_TEXT];

    buf_put_str(b, "cert ");
    put_hex(b, c->who.fingerprint, 32);
    buf_printf(b,
               " %s roles=%u name=%s scope=%s from=%lld until=%lld issued=%lld replaced=%d "
               "revoked=%lld reason=%s\n",
               c->who.has_host ? uuid_format(u, &c->who.host) : "-", c->who.roles, c->who.name,
               c->who.scope, (long long)c->who.not_before_ns, (long long)c->who.not_after_ns,
               (long long)c->issued_ns, c->replaced, (long long)c->revoked_ns, c->reason);
    return true;
}

static bool put_token(void *ctx, const struct ca_token *t)
{
    struct buf *b = ctx;

    buf_put_str(b, "token ");
    put_hex(b, t->id, sizeof t->id);
    buf_printf(b, " names=%s again=%d made=%lld expires=%lld used=%lld by=%s withdrawn=%d\n",
               t->names, t->again, (long long)t->made_ns, (long long)t->expires_ns,
               (long long)t->used_ns, t->used_by, t->withdrawn);
    return true;
}

/* Known and unknown ones: the fixture says of each whether it is revoked. */
static struct net_identity identity(size_t i)
{
    static const struct {
        const char *name;
        uint8_t n, k;
    } rows[] = {{"web-01", 1, 1},    {"web-01", 1, 2}, {"web-02", 2, 1}, {"Web-03", 3, 1},
                {"db-01", 4, 1},     {"alice", 0, 1},  {"bob", 0, 2},    {"carl", 0, 3},
                {"collector", 0, 4}, {"gone", 5, 1},   {"web-02", 2, 2}, {"web-02", 2, 3},
                {"alice", 0, 7},     {"dora", 0, 8},   {"never", 6, 1}};
    struct net_identity who = {.has_host = rows[i].n != 0};

    (void)snprintf(who.name, sizeof who.name, "%s", rows[i].name);
    if (who.has_host) {
        who.host = (struct uuid){{rows[i].n, 1}};
        memcpy(who.fingerprint, (uint8_t[]){rows[i].n, rows[i].k, 0xab, 0xcd, 0xef}, 5);
    } else {
        memcpy(who.fingerprint, (uint8_t[]){0xee, rows[i].k, 0x12, 0x34}, 4);
    }
    return who;
}

static void put_all(struct buf *b, struct ca_db *db)
{
    struct ca_rows_counts n;

    assert_ok(ca_cert_list(db, put_cert, b, &why));
    assert_ok(ca_token_list(db, put_token, b, &why));
    for (size_t i = 0; i < 15; i++) {
        struct net_identity who = identity(i);

        buf_printf(b, "judge %zu %s\n", i, ca_db_judge(db, &who) ? "revoked" : "-");
    }
    for (size_t i = 0; i < 15; i++) {
        struct net_identity who = identity(i);

        if (who.has_host) {
            buf_printf(b, "host %zu %d\n", i, ca_db_host_revoked(db, &who.host));
        }
    }
    assert_ok(ca_db_count(db, &n, &why));
    buf_printf(b, "stats certs=%zu tokens=%zu revocations=%zu\n", n.certs, n.tokens, n.revocations);
}

/* The database says what the book said, line by line; gives its open token. */
static void assert_imported(char token[PKI_TOKEN_TEXT])
{
    struct ca_db *db;
    struct buf b;
    uint8_t *expected;
    size_t n;
    enum err e = ca_db_open(&db, dir, sqlite_fault_fio(), &why);

    if (e) {
        fail_msg("%s: %s", err_name(e), why.text);
    }
    buf_init(&b, 1u << 20);
    put_all(&b, db);
    assert_ok(os_read_file(&expected, &n, FIXTURE "expected.txt", 1u << 20));
    assert_int_equal(sscanf((const char *)expected, "open %s", token), 1);
    assert_string_equal(buf_cstr(&b), strchr((const char *)expected, '\n') + 1);
    mem_free(expected);
    buf_fini(&b);
    ca_db_close(db);
    assert_false(os_exists(path_of("book")));
    assert_true(os_exists(path_of("book.imported")));
    assert_false(os_exists(path_of("book.db.new")));
    assert_ok(os_check_private(path_of("book.db")));
}

static void a_book_of_an_older_version_is_imported_whole(void **state)
{
    char text[PKI_TOKEN_TEXT];
    struct net_identity who = identity(14);
    struct pki_token t;
    struct ca_db *db;
    uint8_t *p;
    size_t n;

    assert_imported(text);
    assert_imported(text); /* the second start finds nothing to do */
    assert_ok(os_read_file(&p, &n, path_of("book.imported"), 1u << 20));
    assert_int_equal(n, old_n);
    assert_memory_equal(p, old, n);
    mem_free(p);
    assert_ok(ca_db_open(&db, dir, sqlite_fault_fio(), &why));
    assert_ok(pki_token_parse(&t, text));
    (void)snprintf(who.name, sizeof who.name, "db-77");
    who.roles = NET_AGENT;
    assert_ok(ca_token_enroll(db, &t, &who, NOW + 60 * CLK_S, &why)); /* it was not used yet */
    ca_db_close(db);
}

static void a_torn_end_is_no_line(void **state)
{
    static const char half[] = "4fa858fda5d99e2f issued 2025-11-2";
    char text[PKI_TOKEN_TEXT];
    struct buf b;

    buf_init(&b, 1u << 20);
    for (int nuls = 0; nuls < 2; nuls++) {
        buf_reset(&b);
        buf_put(&b, old, old_n);
        buf_put_str(&b, half);
        buf_put(&b, (const char[100]){0}, nuls ? 100 : 0);
        support_empty_dir(dir);
        put("book", b.p, b.n);
        assert_imported(text);
    }
    buf_fini(&b);
}

/* -- killed, and failing -- */

/* Opens in a process of its own, with a fault at the k-th change of a file. Gives how it ended: 0
 * well, 1 with the error of the fault, 9 killed. */
static int open_failing(enum sqlite_fault fault, long k)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct ca_db *db;
        enum err e;

        why.text[0] = '\0';
        sqlite_fault_arm(fault, k);
        e = ca_db_open(&db, dir, sqlite_fault_fio(), &why);
        _exit(!e                                                                        ? 0
              : e == (fault == SQLITE_FAULT_FULL ? ERR_NOSPACE : ERR_IO) && why.text[0] ? 1
                                                                                        : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_start_that_ends_anywhere_is_begun_again(void **state)
{
    static const int ends[] = {
        [SQLITE_FAULT_EIO] = 1, [SQLITE_FAULT_FULL] = 1, [SQLITE_FAULT_KILL] = 9};
    char text[PKI_TOKEN_TEXT];

    for (unsigned fault = SQLITE_FAULT_EIO; fault <= SQLITE_FAULT_KILL; fault++) {
        int end = 1;
        long k = 0;

        for (; end; k++) {
            support_empty_dir(dir);
            put("book", old, old_n);
            end = open_failing((enum sqlite_fault)fault, k);
            assert_true(end == 0 || end == ends[fault]);
            if (k % 3 == 0) {
                (void)open_failing(SQLITE_FAULT_KILL, k / 2);
            }
            assert_imported(text);
        }
        assert_true(k > 10);
    }
}

/* -- damaged -- */

static enum err try_import(const void *p, size_t n)
{
    struct ca_db *db;
    enum err e;

    support_empty_dir(dir);
    put("book", p, n);
    e = ca_db_open(&db, dir, sqlite_fault_fio(), &why);
    if (!e) {
        ca_db_close(db);
    } else {
        assert_false(os_exists(path_of("book.db")));
        assert_true(os_exists(path_of("book")));
    }
    return e;
}

static size_t entries;

static enum err count_entry(void *ctx, const struct ca_import_entry *x)
{
    (void)ctx;
    (void)x;
    entries++;
    return ERR_OK;
}

/* Reads a file of these bytes. */
static enum err try_read(const void *p, size_t n)
{
    struct ca_import_stamp stamp;

    entries = 0;
    put("try", p, n);
    return ca_import_read(path_of("try"), count_entry, NULL, &stamp, &why);
}

static void a_flipped_bit_anywhere_is_refused(void **state)
{
    for (size_t bit = 0; bit < 8 * old_n; bit += bit < 8 * (old_n - 200) ? 7 : 1) {
        enum err e;

        old[bit / 8] ^= (uint8_t)(1 << bit % 8);
        e = try_read(old, old_n);
        old[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(e == ERR_CORRUPT || e == ERR_VERSION);
    }
    old[100] ^= 1;
    assert_err(try_import(old, old_n), ERR_CORRUPT);
    assert_non_null(strstr(why.text, "book:2"));
}

static void a_book_cut_anywhere_has_its_whole_lines(void **state)
{
    size_t lines = 0;

    for (size_t n = 0; n <= old_n; n++) {
        enum err e = try_read(old, n);

        if (n < 51) { /* its first line is cut */
            assert_err(e, ERR_CORRUPT);
            continue;
        }
        lines += n > 51 && old[n - 1] == '\n';
        if (n < old_n && old[n] == '\n') { /* only the break is missing: a flipped bit, perhaps */
            assert_err(e, ERR_CORRUPT);
        } else {
            assert_ok(e);
            assert_int_equal(entries, lines);
        }
    }
    assert_int_equal(lines, 22);
}

static void another_book_beside_the_database_is_refused(void **state)
{
    char text[PKI_TOKEN_TEXT];
    struct ca_db *db;

    assert_imported(text);
    put("book", old, old_n - 223); /* of another moment */
    assert_err(ca_db_open(&db, dir, sqlite_fault_fio(), &why), ERR_EXISTS);
    assert_non_null(strstr(why.text, "not imported"));
    assert_ok(os_remove(path_of("book")));
    assert_imported(text);
}

/* -- entries -- */

#define TIME "2026-11-21T19:00:00.123456789Z"
#define HEX8 "0001020304050607"
#define HEX  "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf"
#define UUID "01234567-89ab-cdef-0123-456789abcdef"
#define CERT HEX " " UUID " agent " TIME " " TIME " web-01 -"

/* A book of this line alone, tried by `try`. */
static enum err with_line(const char *text, enum err (*try_it)(const void *p, size_t n))
{
    struct buf b;
    enum err e;

    buf_init(&b, 4096);
    buf_put(&b, old, 51);
    buf_printf(&b, "%016llx %s\n",
               (unsigned long long)hash_bytes(text, strlen(text), 0x949689312c3cce91ull), text);
    e = try_it(b.p, b.n);
    buf_fini(&b);
    return e;
}

static void entries_are_read_by_their_rules(void **state)
{
    static const struct {
        const char *text;
        enum err e;
    } rows[] = {
        {"issued " TIME " " CERT, ERR_OK},
        {"issued " TIME " " HEX " - query " TIME " " TIME " alice web-*", ERR_OK},
        {"issued " TIME " " HEX " - collector " TIME " " TIME " c1 -", ERR_OK},
        {"enrolled " TIME " " HEX8 " new " CERT, ERR_OK},
        {"enrolled " TIME " " HEX8 " again " CERT, ERR_OK},
        {"token " TIME " " HEX8 " " HEX " " TIME " web-?? new", ERR_OK},
        {"token " TIME " " HEX8 " " HEX " " TIME " - again", ERR_OK},
        {"withdrawn " TIME " " HEX8, ERR_OK},
        {"revoked " TIME " cert " HEX " key was stolen", ERR_OK},
        {"revoked " TIME " host " UUID " -", ERR_OK},
        {"revoked " TIME " user alice left", ERR_OK},
        {"issued", ERR_CORRUPT},
        {"Issued " TIME " " CERT, ERR_VERSION},
        {"promoted " TIME " " CERT, ERR_VERSION},
        {"issued " TIME "  " CERT, ERR_CORRUPT},
        {"issued " TIME " " CERT " more", ERR_CORRUPT},
        {"issued " TIME " " CERT " ", ERR_CORRUPT},
        {"issued yesterday " CERT, ERR_CORRUPT},
        {"issued 2026-13-21T19:00:00.123456789Z " CERT, ERR_CORRUPT},
        {"issued " TIME " " HEX "00 - query " TIME " " TIME " alice -", ERR_CORRUPT},
        {"issued " TIME " " HEX " - king " TIME " " TIME " alice -", ERR_CORRUPT},
        {"issued " TIME " " HEX " x query " TIME " " TIME " alice -", ERR_CORRUPT},
        {"token " TIME " " HEX8 " " HEX " " TIME " web-01 maybe", ERR_CORRUPT},
        {"revoked " TIME " king alice left", ERR_CORRUPT},
        {"revoked " TIME " host - left", ERR_CORRUPT},
        {"revoked " TIME " user alice", ERR_CORRUPT},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        enum err e = with_line(rows[i].text, try_read);

        if (e != rows[i].e) {
            fail_msg("%s: %s", rows[i].text, err_name(e));
        }
        for (size_t n = strlen(rows[i].text); !rows[i].e && n > 1; n--) { /* read, or refused */
            char *shorter = mem_strndup(rows[i].text, n - 1);

            e = with_line(shorter, try_read);
            assert_true(e == ERR_OK || e == ERR_CORRUPT || e == ERR_VERSION);
            mem_free(shorter);
        }
    }
}

/* Words that are of a line's shape, and nothing that the authority writes. */
static void names_that_cannot_be_are_not_imported(void **state)
{
    static const char *const rows[] = {
        "issued " TIME " " HEX " - query " TIME " " TIME " al(ice -",
        "issued " TIME " " HEX " - query " TIME " " TIME " alice web,db",
        "token " TIME " " HEX8 " " HEX " " TIME " web[1] new",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_err(with_line(rows[i], try_import), ERR_INVALID);
        assert_non_null(strstr(why.text, "book:2"));
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_book_of_an_older_version_is_imported_whole),
        T(a_torn_end_is_no_line),
        T(a_start_that_ends_anywhere_is_begun_again),
        T(a_flipped_bit_anywhere_is_refused),
        T(a_book_cut_anywhere_has_its_whole_lines),
        T(another_book_beside_the_database_is_refused),
        T(entries_are_read_by_their_rules),
        T(names_that_cannot_be_are_not_imported),
    };

    sqlite_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
