#include "agent/doctor/doctor_dump.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/jsonw.h"

#define WORD_MAX   64
#define WORD_LEAST 3
#define PAYLOAD    (64u << 10)

struct doctor_dump {
    char *dir;
    bool anonymous;
    char words[DOCTOR_DUMP_WORDS][WORD_MAX];
    size_t n_words;
    struct buf tables, calls, records[DOCTOR_DUMP_STREAMS], hex[DOCTOR_DUMP_STREAMS];
    uint64_t n_records[DOCTOR_DUMP_STREAMS], left_out[DOCTOR_DUMP_STREAMS];
    uint8_t room[DOCTOR_DUMP_STREAMS][PAYLOAD]; /* a payload that is changed */
    enum err failed;                            /* of the first file */
};

enum err doctor_dump_open(struct doctor_dump **out, const char *dir, bool anonymous,
                          struct errmsg *why)
{
    struct doctor_dump *d = mem_zalloc(sizeof *d);
    enum err e;

    if (!d) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    d->anonymous = anonymous;
    buf_init(&d->tables, DOCTOR_DUMP_BYTES);
    buf_init(&d->calls, DOCTOR_DUMP_BYTES);
    for (size_t i = 0; i < DOCTOR_DUMP_STREAMS; i++) {
        buf_init(&d->records[i], DOCTOR_DUMP_BYTES);
        buf_init(&d->hex[i], 2 * PAYLOAD);
    }
    d->dir = mem_strdup(dir);
    e = d->dir ? os_mkdirs(dir, true) : ERR_NOMEM;
    if (e) {
        d->failed = e;
        err_ignore(doctor_dump_close(d, NULL));
        return errmsg_set(why, e, "%s: cannot be made: %s", dir, err_text(e));
    }
    *out = d;
    return ERR_OK;
}

void doctor_dump_cover(struct doctor_dump *d, const char *word)
{
    size_t n = strlen(word);

    if (d && n >= WORD_LEAST && n < WORD_MAX && d->n_words < DOCTOR_DUMP_WORDS) {
        memcpy(d->words[d->n_words++], word, n + 1);
    }
}

/* -- covering -- */

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

/* Whether `word` stands at p, each letter `step` bytes wide. */
static bool dump_word_at(const uint8_t *p, size_t n, const char *word, size_t step)
{
    size_t letters = strlen(word);

    if (n / step < letters) {
        return false;
    }
    for (size_t i = 0; i < letters; i++) {
        if (lower(p[i * step]) != lower((uint8_t)word[i]) || (step == 2 && p[i * step + 1])) {
            return false;
        }
    }
    return true;
}

static void dump_cover_word(uint8_t *p, size_t n, const char *word, size_t step)
{
    size_t letters = strlen(word);

    for (size_t at = 0; at + letters * step <= n; at++) {
        if (dump_word_at(p + at, n - at, word, step)) {
            for (size_t i = 0; i < letters; i++) {
                p[at + i * step] = 'x';
            }
        }
    }
}

/* Who stands behind "\Users\". */
static void dump_cover_homes(uint8_t *p, size_t n, size_t step)
{
    static const char users[] = "\\users\\";

    for (size_t at = 0; at < n; at++) {
        size_t i = at + (sizeof users - 1) * step;

        if (!dump_word_at(p + at, n - at, users, step)) {
            continue;
        }
        for (; i + step <= n; i += step) {
            unsigned letter = step == 2 ? p[i] | (unsigned)p[i + 1] << 8 : p[i];

            if (letter == 0 || letter == '\\' || letter == '"') {
                break;
            }
            p[i] = 'x';
            p[i + step - 1] = step == 2 ? 0 : 'x';
        }
    }
}

/* S-1-5-21-a-b-c-…: a, b and c are the domain's or the machine's. */
static void dump_cover_sids(uint8_t *p, size_t n)
{
    static const uint8_t head[] = {0, 0, 0, 0, 0, 5, 21, 0, 0, 0};

    for (size_t at = 0; n >= 24 && at <= n - 24; at++) {
        if (p[at] == 1 && p[at + 1] >= 4 && memcmp(p + at + 2, head, sizeof head) == 0) {
            memset(p + at + 12, 0, 12);
        }
    }
}

static void dump_cover_all(const struct doctor_dump *d, uint8_t *p, size_t n)
{
    for (size_t i = 0; i < d->n_words; i++) {
        dump_cover_word(p, n, d->words[i], 1);
        dump_cover_word(p, n, d->words[i], 2);
    }
    dump_cover_homes(p, n, 1);
    dump_cover_homes(p, n, 2);
    dump_cover_sids(p, n);
}

/* -- lines -- */

static void dump_hex(struct buf *hex, struct jsonw *j, const char *key, const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    buf_reset(hex);
    for (size_t i = 0; i < n; i++) {
        buf_put_u8(hex, (uint8_t)digits[p[i] >> 4]);
        buf_put_u8(hex, (uint8_t)digits[p[i] & 15]);
    }
    jsonw_text(j, key, (struct str){(const char *)hex->p, hex->n});
}

static void dump_begin(struct jsonw *j, struct buf *to)
{
    jsonw_init_buf(j, to);
    jsonw_object(j, NULL);
}

static void dump_end(struct jsonw *j, struct buf *to)
{
    jsonw_end(j);
    buf_put_str(to, "\n");
}

static void dump_file(struct doctor_dump *d, const char *name, const void *p, size_t n)
{
    char *path = os_path_join(d->dir, name);
    enum err e = path ? os_write_file(path, p, n, true) : ERR_NOMEM;

    d->failed = d->failed ? d->failed : e;
    mem_free(path);
}

/* mem_free; NULL: no memory. */
static uint8_t *dump_copy(struct doctor_dump *d, const void *p, size_t n)
{
    uint8_t *copy = mem_dup(p, n);

    if (!copy) {
        d->failed = d->failed ? d->failed : ERR_NOMEM;
    } else if (d->anonymous) {
        dump_cover_all(d, copy, n);
    }
    return copy;
}

void doctor_dump_table(struct doctor_dump *d, unsigned class, uint64_t base, const void *p,
                       size_t n)
{
    char name[32];
    struct jsonw j;
    uint8_t *copy = d ? dump_copy(d, p, n) : NULL;

    if (!copy) {
        return;
    }
    (void)snprintf(name, sizeof name, "class-%u.bin", class);
    dump_file(d, name, copy, n);
    dump_begin(&j, &d->tables);
    jsonw_uint(&j, "class", class);
    jsonw_wide(&j, "base", base);
    jsonw_uint(&j, "bytes", n);
    jsonw_text(&j, "file", str_make(name));
    dump_end(&j, &d->tables);
    mem_free(copy);
}

void doctor_dump_record(struct doctor_dump *d, unsigned stream, const struct raw_event *raw)
{
    const uint8_t *p = raw->payload;
    struct jsonw j;
    struct buf *b;

    if (!d) {
        return;
    }
    b = &d->records[stream];
    if (d->n_records[stream] >= DOCTOR_DUMP_RECORDS || raw->payload_n > PAYLOAD ||
        b->n + 2 * raw->payload_n + 1024 > DOCTOR_DUMP_BYTES) {
        d->left_out[stream]++;
        return;
    }
    d->n_records[stream]++;
    if (d->anonymous) {
        memcpy(d->room[stream], raw->payload, raw->payload_n);
        dump_cover_all(d, d->room[stream], raw->payload_n);
        p = d->room[stream];
    }
    dump_begin(&j, b);
    dump_hex(&d->hex[stream], &j, "guid", raw->guid, sizeof raw->guid);
    jsonw_uint(&j, "form", raw->form);
    jsonw_uint(&j, "id", raw->id);
    jsonw_uint(&j, "version", raw->version);
    jsonw_uint(&j, "opcode", raw->opcode);
    jsonw_uint(&j, "level", raw->level);
    jsonw_uint(&j, "pointer_size", raw->pointer_size);
    jsonw_uint(&j, "cpu", raw->cpu);
    jsonw_uint(&j, "pid", raw->pid);
    jsonw_uint(&j, "tid", raw->tid);
    jsonw_wide(&j, "ticks", (uint64_t)raw->ticks);
    dump_hex(&d->hex[stream], &j, "payload", p, raw->payload_n);
    dump_end(&j, b);
}

void doctor_dump_call(struct doctor_dump *d, const char *call, uint32_t code, const void *p,
                      size_t n)
{
    struct jsonw j;
    uint8_t *copy = d ? dump_copy(d, p, n) : NULL;

    if (!copy) {
        return;
    }
    dump_begin(&j, &d->calls);
    jsonw_text(&j, "call", str_make(call));
    jsonw_uint(&j, "code", code);
    dump_hex(&d->hex[0], &j, "properties", copy, n);
    dump_end(&j, &d->calls);
    mem_free(copy);
}

enum err doctor_dump_close(struct doctor_dump *d, struct errmsg *why)
{
    struct jsonw j;
    enum err e;

    if (!d) {
        return ERR_OK;
    }
    for (unsigned i = 0; i < DOCTOR_DUMP_STREAMS; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "records-%u.jsonl", i);
        if (d->records[i].n) {
            dump_file(d, name, d->records[i].p, d->records[i].n);
        }
        if (d->left_out[i]) {
            dump_begin(&j, &d->calls);
            jsonw_uint(&j, "stream", i);
            jsonw_uint(&j, "records_left_out", d->left_out[i]);
            dump_end(&j, &d->calls);
        }
    }
    if (d->tables.n) {
        dump_file(d, "tables.jsonl", d->tables.p, d->tables.n);
    }
    if (d->calls.n) {
        dump_file(d, "calls.jsonl", d->calls.p, d->calls.n);
    }
    e = d->failed;
    if (e && d->dir) {
        e = errmsg_set(why, e, "%s: what was dumped could not be written: %s", d->dir, err_text(e));
    }
    for (size_t i = 0; i < DOCTOR_DUMP_STREAMS; i++) {
        buf_fini(&d->records[i]);
        buf_fini(&d->hex[i]);
    }
    buf_fini(&d->tables);
    buf_fini(&d->calls);
    mem_free(d->dir);
    mem_free(d);
    return e;
}
