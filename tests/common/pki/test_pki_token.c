#include "common/pki/pki_token.h"

#include <string.h>

#include "tests/support/t.h"

static struct pki_token example(void)
{
    struct pki_token t;

    for (size_t i = 0; i < sizeof t.id; i++) {
        t.id[i] = (uint8_t)(0xa0 + i);
    }
    for (size_t i = 0; i < sizeof t.secret; i++) {
        t.secret[i] = (uint8_t)(i * 17);
    }
    for (size_t i = 0; i < sizeof t.pin; i++) {
        t.pin[i] = (uint8_t)(255 - i);
    }
    return t;
}

static void a_token_is_read_as_it_was_written(void **state)
{
    struct pki_token t = example(), seen;
    char text[PKI_TOKEN_TEXT];

    assert_ok(pki_token_parse(&seen, pki_token_format(text, &t)));
    assert_memory_equal(&seen, &t, sizeof t);
    assert_int_equal(strlen(text), PKI_TOKEN_TEXT - 1);
    assert_memory_equal(text, "pf1-a0a1a2", 10);
    for (char *p = text + 4; *p; p++) {
        *p = *p >= 'a' ? (char)(*p - 'a' + 'A') : *p;
    }
    assert_ok(pki_token_parse(&seen, text));
    assert_memory_equal(&seen, &t, sizeof t);
}

static void every_shorter_text_is_no_token(void **state)
{
    struct pki_token t = example(), seen, none;
    char text[PKI_TOKEN_TEXT + 1];

    memset(&seen, 0, sizeof seen);
    memset(&none, 0, sizeof none);
    (void)pki_token_format(text, &t);
    text[PKI_TOKEN_TEXT - 1] = '0';
    text[PKI_TOKEN_TEXT] = '\0';
    assert_err(pki_token_parse(&seen, text), ERR_INVALID);
    for (size_t n = PKI_TOKEN_TEXT - 1; n-- > 0;) {
        text[n] = '\0';
        assert_err(pki_token_parse(&seen, text), ERR_INVALID);
    }
    assert_memory_equal(&seen, &none, sizeof seen);
}

static void every_wrong_letter_is_noticed(void **state)
{
    static const char others[] = "0f1 -g\n\xff";
    struct pki_token t = example(), seen;
    char text[PKI_TOKEN_TEXT];

    (void)pki_token_format(text, &t);
    for (size_t i = 0; text[i]; i++) {
        char right = text[i];

        for (const char *p = others; *p; p++) {
            text[i] = *p;
            assert_int_equal(pki_token_parse(&seen, text), *p == right ? ERR_OK : ERR_INVALID);
        }
        text[i] = right;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_read_as_it_was_written),
        cmocka_unit_test(every_shorter_text_is_no_token),
        cmocka_unit_test(every_wrong_letter_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
