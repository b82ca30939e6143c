/* Any bytes as the short texts that strangers and operators write: byte 0 picks a pattern with its
 * text (a line each), a moment or span, an id, an address, or a text for a terminal. Patterns are
 * compared with the plainest way to match them; what is read is written and read again. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/utf8.h"
#include "common/net/net_nng.h"
#include "common/os/uuid.h"
#include "common/text/humanize.h"

#define TEXT_MAX 256u
#define NOW_NS   INT64_C(1795357258731000000)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* -- patterns -- */

static char fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t next_char(struct str text, size_t i)
{
    do {
        i++;
    } while (i < text.n && ((unsigned char)text.p[i] & 0xC0) == 0x80);
    return i;
}

/* One character of the pattern further: from the places of the text that were reached so far. */
static void advance(bool to[TEXT_MAX + 1], const bool from[TEXT_MAX + 1], char c, struct str text)
{
    memset(to, 0, TEXT_MAX + 1);
    for (size_t i = 0; i <= text.n; i++) {
        if (c == '*') {
            to[i] = from[i] || (i > 0 && to[i - 1]);
        } else if (from[i] && i < text.n && c == '?') {
            to[next_char(text, i)] = true;
        } else if (from[i] && i < text.n && fold(c) == fold(text.p[i])) {
            to[i + 1] = true;
        }
    }
}

static bool plainly_matches(struct str pattern, struct str text)
{
    bool reached[2][TEXT_MAX + 1] = {{true}};

    for (size_t i = 0; i < pattern.n; i++) {
        advance(reached[(i + 1) % 2], reached[i % 2], pattern.p[i], text);
    }
    return reached[pattern.n % 2][text.n];
}

static void try_glob(char *text, size_t n)
{
    char *line = memchr(text, '\n', n);
    size_t at = line ? (size_t)(line - text) : n / 2;
    struct str pattern = {text, at}, what = {text + at + (line != NULL), n - at - (line != NULL)};

    must(glob_match(pattern, what) == plainly_matches(pattern, what));
}

/* -- moments, spans, ids, addresses -- */

static void try_when(char *text, size_t n)
{
    char again[CLK_TEXT];
    int64_t ns, same_ns, span_ns;

    (void)n;
    if (clk_parse_when(&ns, text, NOW_NS) == ERR_OK) {
        clk_format_utc(again, sizeof again, ns, 9);
        must(clk_parse_when(&same_ns, again, NOW_NS) == ERR_OK && same_ns == ns);
    }
    if (clk_parse_span(&span_ns, text) == ERR_OK) {
        must(span_ns >= 0);
    }
}

static void try_uuid(char *text, size_t n)
{
    char again[UUID_TEXT];
    struct uuid id, same;

    if (uuid_parse(&id, text) == ERR_OK) {
        must(n >= UUID_TEXT - 1);
        uuid_format(again, &id);
        must(uuid_parse(&same, again) == ERR_OK && memcmp(&id, &same, sizeof id) == 0);
    }
}

static void try_address(char *text, size_t n)
{
    char url[NET_NNG_URL_MAX];
    struct errmsg why = {""};

    (void)n;
    if (net_nng_url(url, text, &why) == ERR_OK) {
        must(strstr(url, "://") != NULL && strlen(url) < sizeof url);
    } else {
        must(why.text[0]);
    }
}

/* -- texts for a terminal -- */

/* In any room the beginning of what it is in enough; as JSON with other escapes in the same places.
 */
static void try_clean(const char *text, size_t n, struct buf *whole)
{
    const char *cstr = buf_cstr(whole);
    char out[6 * TEXT_MAX];

    for (size_t size = 1; size <= sizeof out; size += size < 32 ? 1 : size / 2) {
        size_t made = utf8_clean(out, size, text, n);

        must(made < size && out[made] == '\0' && made <= whole->n);
        must(strncmp(out, cstr, made) == 0 && (made == whole->n || made + UTF8_ESCAPE > size));
        made = utf8_clean_json(out, size, text, n);
        must(made < size && out[made] == '\0' && utf8_harmless(out, made) == made);
    }
}

static void try_terminal(char *text, size_t n)
{
    struct buf b;
    size_t width;

    buf_init(&b, 64u << 10);
    humanize_text(&b, (struct str){text, n});
    must(!b.bad && utf8_whole((const char *)b.p, b.n) == b.n);
    for (size_t i = 0; i < b.n; i++) {
        must(b.p[i] >= 0x20 && b.p[i] != 0x7F);
    }
    must(utf8_harmless((const char *)b.p, b.n) == b.n);
    try_clean(text, n, &b);
    width = humanize_width((const char *)b.p, b.n);
    for (size_t columns = 0; columns <= width; columns += 7) {
        size_t cut = humanize_prefix((const char *)b.p, b.n, columns);

        must(cut <= b.n && humanize_width((const char *)b.p, cut) <= columns);
    }
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static void (*const tries[])(char *text, size_t n) = {try_glob, try_when, try_uuid, try_address,
                                                          try_terminal};
    char *text;

    if (n == 0 || n > TEXT_MAX) {
        return 0;
    }
    text = malloc(n); /* of exactly this size, for what takes no length */
    must(text != NULL);
    memcpy(text, p + 1, n - 1);
    text[n - 1] = '\0';
    tries[p[0] % (sizeof tries / sizeof *tries)](text, n - 1);
    free(text);
    return 0;
}
