#include "common/pki/pki.h"

#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static void in_file(char path[300], const char *dir, const void *p, size_t n)
{
    snprintf(path, 300, "%s/c.pem", dir);
    assert_ok(os_write_file(path, p, n, false));
}

static void a_file_gives_back_what_was_wrapped(void **state)
{
    uint8_t der[700];
    struct buf pem, back;
    char dir[256], path[300];

    support_temp_dir(dir, sizeof dir);
    for (size_t n = 1; n < sizeof der; n += 33) {
        memset(der, (int)n, n);
        der[n / 2] = 7;
        buf_init(&pem, PKI_FILE_MAX);
        buf_init(&back, PKI_FILE_MAX);
        assert_ok(pki_pem_put(&pem, der, n));
        in_file(path, dir, pem.p, pem.n);
        assert_ok(pki_pem_read(&back, path));
        assert_int_equal(back.n, n);
        assert_memory_equal(back.p, der, n);
        buf_fini(&pem);
        buf_fini(&back);
    }
    support_remove_dir(dir);
}

static void other_files_are_told_apart(void **state)
{
    static const char *const texts[] = {
        "",
        "-----BEGIN CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n",
        "-----BEGIN CERTIFICATE-----\nA!AA\n-----END CERTIFICATE-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n",
    };
    struct buf der;
    char dir[256], path[300];

    support_temp_dir(dir, sizeof dir);
    buf_init(&der, PKI_FILE_MAX);
    snprintf(path, sizeof path, "%s/none.pem", dir);
    assert_err(pki_pem_read(&der, path), ERR_NOTFOUND);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        in_file(path, dir, texts[i], strlen(texts[i]));
        assert_err(pki_pem_read(&der, path), ERR_CORRUPT);
        assert_int_equal(der.n, 0);
    }
    buf_fini(&der);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gives_back_what_was_wrapped),
        cmocka_unit_test(other_files_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
