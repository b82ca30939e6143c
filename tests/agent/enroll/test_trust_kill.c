/* A change of the identity's files, killed at every system call: a child runs it under ptrace, and
 * the parent lets it make so many calls. */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/pki/pki.h"
#include "tests/agent/enroll/identity.h"
#include "tests/support/support.h"

static struct certs *pki, *foreign;
static struct identity first, second;
static char dir[256];
static struct places place;

static int change(void)
{
    struct errmsg why;

    return identity_install(&second, foreign, &place.files, true, &why);
}

static int mend(void)
{
    struct errmsg why;

    return trust_files_mend(&place.files, &why);
}

/* Lets `work` enter or leave `calls` system calls, then kills it. Its result, or -1 when killed. */
static int run_for(int (*work)(void), long calls)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(99);
        }
        raise(SIGSTOP);
        _exit(work());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    while (WIFSTOPPED(status) && calls-- > 0) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (WIFSTOPPED(status)) {
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        return -1;
    }
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static enum err count_one(void *ctx, const char *name)
{
    unsigned *n = ctx;

    (void)name;
    *n += 1;
    return ERR_OK;
}

/* Whether the directory holds the second pair; it must be it or the first, and nothing else. */
static bool is_second(void)
{
    struct net_identity who, one, two;
    struct errmsg why = {""};
    unsigned n = 0;

    if (identity_of(&who, &place.files, &why)) {
        fail_msg("%s", why.text);
    }
    assert_ok(tls_cert_parse(&one, first.der.p, first.der.n));
    assert_ok(tls_cert_parse(&two, second.der.p, second.der.n));
    assert_ok(os_list_dir(dir, count_one, &n));
    assert_int_equal(n, 3);
    if (memcmp(who.fingerprint, two.fingerprint, sizeof who.fingerprint) == 0) {
        return true;
    }
    assert_memory_equal(who.fingerprint, one.fingerprint, sizeof who.fingerprint);
    return false;
}

/* Whether the change counts by what the kill left: CERT.new is there, or is in its place already.
 */
static bool counts(void)
{
    struct net_identity who, two;
    char path[500];
    struct buf der;

    (void)snprintf(path, sizeof path, "%s.new", place.cert);
    if (os_exists(path)) {
        return true;
    }
    buf_init(&der, PKI_FILE_MAX);
    assert_ok(pki_pem_read(&der, place.cert));
    assert_ok(tls_cert_parse(&who, der.p, der.n));
    assert_ok(tls_cert_parse(&two, second.der.p, second.der.n));
    buf_fini(&der);
    return memcmp(who.fingerprint, two.fingerprint, sizeof who.fingerprint) == 0;
}

static void begin(void)
{
    struct errmsg why = {""};

    support_temp_dir(dir, sizeof dir);
    places_in(&place, dir);
    assert_ok(identity_install(&first, pki, &place.files, true, &why));
}

static void a_kill_at_any_call_leaves_one_pair_whole(void **state)
{
    int result = -1, counted = 0;

    for (long calls = 1; result < 0; calls++) {
        bool wanted;

        begin();
        result = run_for(change, calls);
        wanted = counts();
        assert_int_equal(mend(), ERR_OK);
        assert_int_equal(is_second(), wanted);
        assert_true(wanted || result < 0);
        counted += wanted;
        support_remove_dir(dir);
    }
    assert_int_equal(result, ERR_OK);
    assert_true(counted > 1); /* some were killed when it counted already */
}

/* And the mending is killed as well, each time a little later, until it gets through. */
static void a_kill_while_mending_is_mended_too(void **state)
{
    int result = -1;

    for (long calls = 1; result < 0; calls += 29) {
        begin();
        result = run_for(change, calls);
        for (long more = 1; run_for(mend, more) < 0; more += 11) {
        }
        (void)is_second();
        support_remove_dir(dir);
    }
    assert_int_equal(result, ERR_OK);
}

static int set_up(void **state)
{
    pki = certs_create();
    foreign = certs_create();
    identity_make(&first, pki, NULL);
    identity_make(&second, foreign, NULL);
    return 0;
}

static int tear_down(void **state)
{
    identity_free(&first);
    identity_free(&second);
    certs_destroy(pki);
    certs_destroy(foreign);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_call_leaves_one_pair_whole),
        cmocka_unit_test(a_kill_while_mending_is_mended_too),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
