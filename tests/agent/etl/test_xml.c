/* The elements of XML documents: by expat, or on Windows by the system's own reader. */
#include "agent/decode/schema/etw_manifest.h"
#include "common/base/buf.h"

#include "tests/support/t.h"

struct seen {
    const uint8_t *p;
    size_t n, step; /* left to read; at most so many at once */
    char text[400]; /* "<name key=value>" and "</name>" */
    size_t used, stop_after;
};

static void say(struct seen *s, const char *a, const char *b, const char *c, const char *d)
{
    int n = snprintf(s->text + s->used, sizeof s->text - s->used, "%s%s%s%s", a, b, c, d);

    assert_true(n >= 0 && (size_t)n < sizeof s->text - s->used);
    s->used += (size_t)n;
}

static size_t on_read(void *ctx, void *p, size_t n)
{
    struct seen *s = ctx;

    n = n < s->n ? n : s->n;
    n = n < s->step ? n : s->step;
    memcpy(p, s->p, n);
    s->p += n;
    s->n -= n;
    return n;
}

static void on_begin(void *ctx, const char *name, const char *const *attributes)
{
    say(ctx, "<", name, "", "");
    for (; attributes[0]; attributes += 2) {
        say(ctx, " ", attributes[0], "=", attributes[1]);
    }
    say(ctx, ">", "", "", "");
}

static void on_end(void *ctx, const char *name)
{
    say(ctx, "</", name, ">", "");
}

static enum err on_stopped(void *ctx)
{
    struct seen *s = ctx;

    return s->stop_after && s->used >= s->stop_after ? ERR_FULL : ERR_OK;
}

static enum err read_xml(struct seen *s, const void *p, size_t n, size_t step, bool utf8)
{
    const struct etw_manifest_sink sink = {.ctx = s,
                                           .utf8 = utf8,
                                           .read = on_read,
                                           .begin = on_begin,
                                           .end = on_end,
                                           .stopped = on_stopped};

    s->p = p;
    s->n = n;
    s->step = step;
    s->used = 0;
    s->text[0] = '\0';
    return etw_manifest_stream(&sink);
}

#define DOCUMENT                                                                               \
    "<?xml version='1.0' encoding='utf-8'?><!-- a note --><a xmlns:w='u'>\n<w:b c='1 &lt; 2' " \
    "w:d=\"\xc3\xa4\"/>text<e></e></a>\n"
#define ELEMENTS "<b c=1 < 2 w:d=\xc3\xa4></b><e></e></a>"

static void elements_have_names_and_attributes(void **state)
{
    struct seen s = {0};

    (void)state;
    for (size_t step = 1; step < 200; step += 37) {
        assert_err(read_xml(&s, DOCUMENT, sizeof DOCUMENT - 1, step, step % 2 == 0), ERR_OK);
        assert_non_null(strstr(s.text, ELEMENTS));
        assert_int_equal(strncmp(s.text, "<a", 2), 0);
    }
}

static void what_a_document_says_of_its_text_counts(void **state)
{
    static const char text[] = "<?xml version='1.0' encoding='utf-16'?><a b='\xc3\xa4'/>";
    uint8_t wide[2 + 2 * sizeof text] = {0xff, 0xfe};
    struct seen s = {0};
    size_t n = 2;

    (void)state;
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        bool two = (uint8_t)text[i] == 0xc3;

        wide[n++] = two ? 0xe4 : (uint8_t)text[i];
        wide[n++] = 0;
        i += two;
    }
    assert_err(read_xml(&s, wide, n, 1000, false), ERR_OK);
    assert_string_equal(s.text, "<a b=\xc3\xa4></a>");
}

/* More of these: test_manifest, where the reader is expat. */
static void damaged_documents_are_refused(void **state)
{
    static const char *const documents[] = {"", "no xml", "<a>", "<!DOCTYPE a SYSTEM \"x\"><a/>"};
    struct seen s = {0};

    (void)state;
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        assert_err(read_xml(&s, documents[i], strlen(documents[i]), 1000, true), ERR_CORRUPT);
    }
}

static void whoever_has_enough_stops(void **state)
{
    struct seen s = {.stop_after = 4};

    (void)state;
    assert_err(read_xml(&s, "<a><b/><c/></a>", 15, 1000, true), ERR_FULL);
    assert_null(strstr(s.text, "<c"));
}

static size_t endless(void *ctx, void *p, size_t n)
{
    (void)ctx;
    memset(p, ' ', n);
    return n;
}

static void an_endless_document_ends(void **state)
{
    struct seen s = {0};
    const struct etw_manifest_sink sink = {.ctx = &s,
                                           .utf8 = true,
                                           .read = endless,
                                           .begin = on_begin,
                                           .end = on_end,
                                           .stopped = on_stopped};

    (void)state;
    assert_err(etw_manifest_stream(&sink), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_have_names_and_attributes),
        cmocka_unit_test(what_a_document_says_of_its_text_counts),
        cmocka_unit_test(damaged_documents_are_refused),
        cmocka_unit_test(whoever_has_enough_stops),
        cmocka_unit_test(an_endless_document_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
