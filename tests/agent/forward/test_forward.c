#include "agent/forward/forward.h"

#include <stdlib.h>
#include <string.h>

#include "agent/decode/schema/schema_source.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/value_text.h"
#include "tests/support/t.h"

/* -- records that describe themselves -- */

struct record {
    uint8_t ext[1024], payload[1024];
    struct raw_event raw;
};

static size_t put_item(uint8_t *p, unsigned type, bool more, const struct buf *data)
{
    size_t size = (8 + data->n + 7) / 8 * 8;
    const uint16_t head[4] = {(uint16_t)size, (uint16_t)type, more, (uint16_t)data->n};

    memset(p, 0, size);
    memcpy(p, head, sizeof head);
    memcpy(p + 8, data->p, data->n);
    return size;
}

/* Of the provider, whose GUID is all `number`; fields as the schema has them. */
static void record_make(struct record *r, const char *provider, uint8_t number, const void *fields,
                        size_t n_fields, const void *payload, size_t n)
{
    struct buf data;
    size_t at;

    *r = (struct record){.raw = {.form = RAW_MANIFEST, .pointer_size = 8, .level = 4, .id = 7}};
    memset(r->raw.guid, number, sizeof r->raw.guid);
    buf_init(&data, 1024);
    buf_put_u16le(&data, (uint16_t)(2 + 1 + 6 + n_fields));
    buf_put(&data, "\0Event", 7);
    buf_put(&data, fields, n_fields);
    at = put_item(r->ext, 11, true, &data);
    buf_reset(&data);
    buf_put_u16le(&data, (uint16_t)(2 + strlen(provider) + 1));
    buf_put(&data, provider, strlen(provider) + 1);
    at += put_item(r->ext + at, 12, false, &data);
    buf_fini(&data);
    memcpy(r->payload, payload, n);
    r->raw.ext = r->ext;
    r->raw.ext_n = at;
    r->raw.payload = r->payload;
    r->raw.payload_n = n;
    r->raw.pid = 8;
    r->raw.tid = 9;
}

#define RECORD(r, provider, number, fields, payload)                              \
    record_make((r), (provider), (number), (fields), sizeof(fields) - 1, payload, \
                sizeof(payload) - 1)

static struct forward *make(const char *const *providers, size_t n, struct forward_conf conf)
{
    struct errmsg why = {""};
    struct forward *f;

    conf.providers = providers;
    conf.n_providers = n;
    assert_ok(forward_create(&f, &conf, &why));
    return f;
}

static const char *text_of(const struct life_event *ev)
{
    static char text[8192];
    struct value_people people;
    struct value_sink sink;
    struct buf b;

    buf_init(&b, sizeof text);
    sink = value_text_people(&people, &b);
    assert_ok(event_values_read(ev->type->fields, ev->type->n_fields, ev->values, &sink));
    (void)snprintf(text, sizeof text, "%s", buf_cstr(&b));
    buf_fini(&b);
    return text;
}

static bool passes(struct forward *f, struct record *r, struct life_event *ev)
{
    return forward_takes(f, &r->raw) && forward_event(f, &r->raw, NULL, ev) == ERR_OK;
}

static void choices_are_names_patterns_and_guids_with_ids(void **state)
{
    static const char *const bad[] = {"", "#1", "a#", "a#x", "a#1+", "a#65536", "a#-1", "a#1 2"};
    struct forward_choice c;
    struct errmsg why = {""};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_err(forward_choice_parse(&c, bad[i], &why), ERR_INVALID);
        assert_true(strlen(why.text) > 0);
    }
    assert_ok(forward_choice_parse(&c, "My-*#1+65535", &why));
    assert_true(str_eq(c.name, str_make("My-*")));
    assert_int_equal(c.n_ids, 2);
    assert_int_equal(c.ids[1], 65535);
    assert_ok(forward_choice_parse(&c, "{01010101-0101-0101-0101-010101010101}", &why));
    assert_int_equal(c.name.n, 0);
    assert_int_equal(c.guid[7], 1);
}

static void only_what_was_chosen_comes_out(void **state)
{
    static const struct {
        const char *choice;
        bool takes;
    } rows[] = {
        {"My-Tool", true},
        {"my-t*", true},
        {"*", true},
        {"{05050505-0505-0505-0505-050505050505}", true},
        {"My-Tool#7", true},
        {"My-Tool#6+7", true},
        {"My-Tool#6", false},
        {"Other", false},
        {"{06060606-0606-0606-0606-060606060606}", false},
    };
    struct life_event ev;
    struct record r;

    (void)state;
    RECORD(&r, "My-Tool", 5, "v\0\x08", "\x2a\0\0\0");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct forward *f = make(&rows[i].choice, 1, (struct forward_conf){.rate = 0});

        assert_int_equal(passes(f, &r, &ev), rows[i].takes);
        assert_int_equal(forward_stats(f)->in, rows[i].takes);
        if (rows[i].takes) {
            assert_string_equal(text_of(&ev), "v=42");
            assert_int_equal(ev.kind, LIFE_PROVIDER);
            assert_int_equal(ev.tid, 9);
            assert_int_equal(ev.info.id.pid, 8);
            assert_true(str_eq(ev.type->provider, str_make("My-Tool")));
            assert_true(str_eq(ev.type->name, str_make("Event")));
            assert_int_equal(ev.type->id, 7);
            assert_int_equal(ev.value_flags, 0);
        }
        forward_destroy(f);
    }
}

/* 100,000 a second for five seconds: out comes what the rate permits, the rest is counted, and
 * another provider has its own rate. */
static void a_flood_is_counted_to_the_last_event(void **state)
{
    static const char *const all[] = {"*"};
    struct forward *f = make(all, 1, (struct forward_conf){.rate = 100, .burst = 1000});
    const struct forward_stats *s = forward_stats(f);
    struct record loud, calm;
    struct life_event ev;
    uint64_t calm_out = 0;

    (void)state;
    RECORD(&loud, "Loud", 1, "v\0\x08", "\x01\0\0\0");
    RECORD(&calm, "Calm", 2, "v\0\x08", "\x02\0\0\0");
    for (int64_t i = 0; i < 500000; i++) {
        loud.raw.mono_ns = calm.raw.mono_ns = i * (CLK_S / 100000);
        (void)passes(f, &loud, &ev);
        if (i % 10000 == 0) {
            calm_out += passes(f, &calm, &ev);
        }
    }
    assert_int_equal(calm_out, 50);
    assert_int_equal(s->in, 500050);
    assert_int_equal(s->in, s->out + s->rate);
    assert_in_range(s->out - calm_out, 1000 + 495, 1000 + 500);
    forward_destroy(f);
}

static void the_host_has_a_rate_and_bytes_of_its_own(void **state)
{
    static const char *const all[] = {"*"};
    struct forward *f = make(all, 1, (struct forward_conf){.host_rate = 10});
    struct record a, b;
    struct life_event ev;

    (void)state;
    RECORD(&a, "A", 1, "v\0\x08", "\x01\0\0\0");
    RECORD(&b, "B", 2, "v\0\x08", "\x02\0\0\0");
    for (int i = 0; i < 10; i++) {
        (void)passes(f, &a, &ev);
        (void)passes(f, &b, &ev);
    }
    assert_int_equal(forward_stats(f)->out, 10);
    assert_int_equal(forward_stats(f)->rate, 10);
    a.raw.mono_ns = CLK_S / 2;
    for (int i = 0; i < 10; i++) {
        (void)passes(f, &a, &ev);
    }
    assert_int_equal(forward_stats(f)->out, 15);
    for (int i = 0; i < 100;
         i++) { /* time that goes back gives nothing, nor does it coming again */
        a.raw.mono_ns = i % 2 ? CLK_S / 2 : 0;
        assert_false(passes(f, &a, &ev));
    }
    forward_destroy(f);

    f = make(all, 1, (struct forward_conf){.host_bytes = 200});
    a.raw.mono_ns = 0;
    for (int i = 0; i < 10; i++) {
        (void)passes(f, &a, &ev);
    }
    assert_in_range(forward_stats(f)->out, 2, 3);
    assert_int_equal(forward_stats(f)->size + forward_stats(f)->out, 10);
    forward_destroy(f);
}

static void no_secret_leaves(void **state)
{
    static const char *const words[] = {"password", "secret", "token", "key"};
    static const char *const all[] = {"*"}, *const drop[] = {"cook*"};
    const struct privacy_conf conf = {
        .command_line = PRIVACY_NONE, .words = words, .n_words = 4, .hide_user = true};
    struct forward_conf with = {.drop_fields = drop, .n_drop_fields = 1};
    static const struct {
        const char *fields;
        size_t n_fields;
        const char *payload;
        size_t n;
        const char *want;
        bool redacted;
    } rows[] = {
#define ROW(fields, payload, want, redacted) \
    {fields, sizeof(fields) - 1, payload, sizeof(payload) - 1, want, redacted}
        ROW("Text\0\x02", "plain words\0", "Text=\"plain words\"", false),
        ROW("Text\0\x02", "run --password=hunter2 now\0", "Text=\"run --password=*** now\"", true),
        ROW("UserPassword\0\x02", "hunter2\0", "UserPassword=\"***\"", true),
        ROW("ApiKey\0\x02", "hunter2\0", "ApiKey=\"***\"", true),
        ROW("KeyCode\0\x08", "\x2a\0\0\0", "KeyCode=42", false),
        ROW("Pin\0\x08", "\x2a\0\0\0", "Pin=\"***\"", true),
        ROW("CommandLine\0\x02", "a b\0", "", true),
        ROW("Cookie\0\x02", "a\0", "", true),
        ROW("Secrets\0\x42", "\x02\0a\0b\0", "Secrets=[\"***\" \"***\"]", true),
        ROW("s\0\x98\x01Token\0\x02", "t0k3n\0", "s={Token=\"***\"}", true),
        ROW("Secret\0\x98\x02user\0\x02value\0\x02", "bob\0hunter2\0",
            "Secret={user=\"***\" value=\"***\"}", true),
        ROW("o\0\x98\x02Token\0\x98\x01v\0\x02l\0\x42", "t0k3n\0\x01\0w\0",
            "o={Token={v=\"***\"} l=[\"w\"]}", true),
        ROW("args\0\x42", "\x04\0run\0--password\0hunter2\0now\0",
            "args=[\"run\" \"--password\" \"***\" \"now\"]", true),
        ROW("ParamName\0\x02ParamValue\0\x02", "Password\0hunter2\0",
            "ParamName=\"Password\" ParamValue=\"***\"", true),
        ROW("Text\0\x02", "{\"a\": 1, \"password\": \"hunter2\"}\0",
            "Text=\"{\"a\": 1, \"password\": ***\"", true),
        ROW("Text\0\x02", "by S-1-5-21-10-20-30-500, not S-1-5\0", "Text=\"by S-1-***, not S-1-5\"",
            true),
        ROW("Blob\0\x0e", "\x12\0--password=hunter2", "Blob=\"***\"", true),
        ROW("Blob\0\x0e", "\x0a\0k\0e\0y\0=\0x\0", "Blob=\"***\"", true),
        ROW("cookies\0\x98\x01v\0\x02w\0\x08", "x\0\x01\0\0\0", "w=1", true),
    };
    struct privacy *p;
    struct forward *f;

    (void)state;
    assert_ok(privacy_create(&p, &conf));
    with.privacy = p;
    f = make(all, 1, with);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct life_event ev;
        struct record r;

        record_make(&r, "P", 1, rows[i].fields, rows[i].n_fields, rows[i].payload, rows[i].n);
        assert_true(passes(f, &r, &ev));
        assert_string_equal(text_of(&ev), rows[i].want);
        assert_int_equal((ev.value_flags & LIFE_VALUES_REDACTED) != 0, rows[i].redacted);
        assert_ok(forward_describe(f, &r.raw, &ev)); /* on this host it is whole */
        assert_int_equal(ev.value_flags, 0);
    }
    assert_true(privacy_stats(p)->redacted > 0);
    forward_destroy(f);
    privacy_destroy(p);
}

static void what_nobody_takes_what_is_hidden_and_what_is_unknown_is_counted(void **state)
{
    static const char *const all[] = {"*", "{09090909-0909-0909-0909-090909090909}"};
    atomic_bool refused = true;
    struct forward *f = make(all, 2, (struct forward_conf){.refused = &refused});
    const struct forward_stats *s = forward_stats(f);
    struct raw_event nameless = {.form = RAW_MANIFEST};
    struct life_event ev;
    struct record r;

    (void)state;
    RECORD(&r, "P", 1, "v\0\x08", "\x01\0\0\0");
    assert_false(passes(f, &r, &ev));
    assert_int_equal(s->refused, 1);
    atomic_store(&refused, false);
    assert_true(forward_takes(f, &r.raw));
    forward_hide(f);
    assert_int_equal(s->filtered, 1);
    memset(nameless.guid, 9, sizeof nameless.guid);
    assert_true(forward_takes(f, &nameless));
    assert_err(forward_event(f, &nameless, NULL, &ev), ERR_NOTFOUND);
    assert_int_equal(s->no_schema, 1);
    memset(nameless.guid, 8, sizeof nameless.guid); /* nobody knows its name: it is one of "*" */
    assert_true(forward_takes(f, &nameless));
    assert_err(forward_event(f, &nameless, NULL, &ev), ERR_NOTFOUND);
    assert_int_equal(s->no_schema, 2);
    r.raw.payload_n = 2;
    assert_false(passes(f, &r, &ev));
    assert_int_equal(s->undecodable, 1);
    assert_int_equal(s->in, s->out + s->refused + s->filtered + s->no_schema + s->undecodable);
    forward_destroy(f);
}

/* ... and does not take from the rate. */
static void only_events_whose_field_has_the_value_come_out(void **state)
{
    static const char *const all[] = {"*"};
    static const struct {
        const char *field, *value;
        bool passes;
    } rows[] = {{"v", "42", true},     {"v", "0x2a", true}, {"v", "43", false},
                {"v", "-42", false},   {"v", "42x", false}, {"w", "42", false},
                {"s", "Abc", true},    {"s", "aBC", true},  {"s", "ab", false},
                {"s", "abcd", false},  {"n", "-1", true},   {"n", "1", false},
                {"", "anything", true}};
    struct forward *f = make(all, 1, (struct forward_conf){.rate = 1, .burst = 1});
    struct life_event ev;
    struct record r;
    unsigned out = 0;

    (void)state;
    RECORD(&r, "P", 1, "v\0\x08s\0\x02n\0\x07", "\x2a\0\0\0aBc\0\xff\xff\xff\xff");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct source_provider only = {.level = 4};
        enum err e;

        (void)snprintf(only.field, sizeof only.field, "%s", rows[i].field);
        (void)snprintf(only.value, sizeof only.value, "%s", rows[i].value);
        assert_true(forward_takes(f, &r.raw));
        e = forward_event(f, &r.raw, &only, &ev);
        assert_int_equal(!e, rows[i].passes);
        out += !e;
        r.raw.mono_ns += e ? 0 : 2 * CLK_S;
    }
    assert_int_equal(forward_stats(f)->filtered, COUNT_OF(rows) - out);
    assert_int_equal(forward_stats(f)->rate, 0);
    forward_destroy(f);
}

static void what_cannot_be_read_takes_nothing_from_the_rate(void **state)
{
    static const char *const all[] = {"*", "{09090909-0909-0909-0909-090909090909}"};
    struct forward *f = make(all, 2, (struct forward_conf){.host_rate = 1});
    struct raw_event nameless = {.form = RAW_MANIFEST};
    struct life_event ev;
    struct record r;

    (void)state;
    RECORD(&r, "P", 1, "v\0\x08", "\x01\0\0\0");
    memset(nameless.guid, 9, sizeof nameless.guid);
    for (int i = 0; i < 3; i++) {
        assert_true(forward_takes(f, &nameless));
        assert_err(forward_event(f, &nameless, NULL, &ev), ERR_NOTFOUND);
    }
    assert_true(passes(f, &r, &ev));
    assert_false(passes(f, &r, &ev));
    assert_int_equal(forward_stats(f)->rate, 1);
    forward_destroy(f);
}

/* -- records that describe nothing -- */

#define DNS "Microsoft-Windows-DNS-Client"

/* A question of the resolver that has ended, event 3008: text, u32, u64, u32, text. */
static void question_make(struct record *r, uint16_t id, char name)
{
    static const uint8_t guid[16] = {0x6e, 0x12, 0x95, 0x1c, 0xea, 0x7e, 0xa9, 0x49,
                                     0xa3, 0xfe, 0xa3, 0x78, 0xb0, 0x3d, 0xdb, 0x4d};
    static const uint8_t payload[24] = {[4] = 1, [20] = '1'};

    *r = (struct record){.raw = {.form = RAW_MANIFEST, .pointer_size = 8, .id = id, .pid = 8}};
    memcpy(r->raw.guid, guid, sizeof guid);
    memcpy(r->payload, payload, sizeof payload);
    r->payload[0] = (uint8_t)name;
    r->raw.payload = r->payload;
    r->raw.payload_n = sizeof payload;
}

static void schemas_open(struct forward_conf *conf)
{
    struct schema_source *ss;
    struct errmsg why = {""};

    assert_ok(schema_source_open(&ss, "events.manifests", "", false, &why));
    conf->schemas = schema_source_put;
    conf->schemas_ctx = ss;
}

static const char *question_text(char name)
{
    static char text[128];

    (void)snprintf(text, sizeof text,
                   "QueryName=\"%c\" QueryType=1 QueryOptions=0 QueryStatus=0 QueryResults=\"1\"",
                   name);
    return text;
}

static void a_recording_has_events_that_the_tables_know(void **state)
{
    static const char *const choices[] = {DNS, "microsoft-windows-dns-*#3008",
                                          "{1c95126e-7eea-49a9-a3fe-a378b03ddb4d}", "*"};
    struct forward_conf conf = {.at_once = true};
    struct life_event ev;
    struct record r;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(choices); i++) {
        struct forward *f;

        schemas_open(&conf);
        f = make(&choices[i], 1, conf);
        question_make(&r, 3008, 'q');
        assert_true(passes(f, &r, &ev));
        assert_string_equal(text_of(&ev), question_text('q'));
        assert_true(str_eq(ev.type->provider, str_make(DNS)));
        question_make(&r, 9, 'q'); /* of the provider, but in no table */
        assert_false(passes(f, &r, &ev));
        assert_false(passes(f, &r, &ev));
        assert_int_equal(forward_stats(f)->no_schema, i == 1 ? 0 : 2);
        assert_int_equal(forward_stats(f)->held, 0);
        forward_destroy(f);
        schema_source_close(conf.schemas_ctx);
    }
}

/* As the pipeline does it. */
static void put_live(struct forward *f, struct record *r, uint64_t *out)
{
    struct proc_info info = {.id = {.pid = r->raw.pid, .start = 77}, .name = str_make("asker.exe")};
    struct life_event ev;

    if (forward_takes(f, &r->raw)) {
        switch (forward_event(f, &r->raw, NULL, &ev)) {
        case ERR_OK:
            ++*out;
            break;
        case ERR_BUSY:
            forward_hold(f, &r->raw, NULL, &info);
            break;
        default:
            break;
        }
    }
}

static void await_answer(const struct forward *f)
{
    int64_t until_ns = os_mono_ns() + 60 * CLK_S;

    while (!forward_answered(f) && os_mono_ns() < until_ns) {
        os_sleep_ns(CLK_MS / 10);
    }
    assert_true(forward_answered(f));
}

static uint64_t sum(const struct forward_stats *s)
{
    return s->out + s->rate + s->size + s->filtered + s->no_schema + s->undecodable + s->refused +
           s->held;
}

static void live_events_wait_until_somebody_knows_them(void **state)
{
    static const char *const choices[] = {DNS, "{1c95126e-7eea-49a9-a3fe-a378b03ddb4d}"};
    struct forward_conf conf = {.rate = 0};
    struct life_event ev;
    struct record r;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(choices); i++) {
        const struct forward_stats *s;
        struct forward *f;
        uint64_t out = 0;

        schemas_open(&conf);
        f = make(&choices[i], 1, conf);
        s = forward_stats(f);
        for (char c = 'a'; c < 'k'; c++) {
            question_make(&r, 3008, c);
            put_live(f, &r, &out);
            assert_int_equal(s->in,
                             i == 0 ? 0 : (uint64_t)(c - 'a' + 1)); /* a name may choose it */
            assert_int_equal(s->in, sum(s));
        }
        assert_int_equal(out, 0);
        await_answer(f);
        for (char c = 'a'; c < 'k'; c++) {
            assert_ok(forward_held(f, &ev));
            assert_string_equal(text_of(&ev), question_text(c));
            assert_int_equal(ev.info.id.start, 77);
            assert_true(str_eq(ev.info.name, str_make("asker.exe")));
        }
        assert_err(forward_held(f, &ev), ERR_NOTFOUND);
        put_live(f, &r, &out);
        assert_int_equal(out, 1);
        assert_int_equal(s->in, 11);
        assert_int_equal(s->in, sum(s));
        forward_destroy(f);
        schema_source_close(conf.schemas_ctx);
    }
}

static void what_has_no_room_or_is_known_nowhere_is_counted(void **state)
{
    static const char *const all[] = {DNS, "Other"};
    const uint64_t many = 2 * FORWARD_HELD_BYTES / sizeof(struct raw_event);
    struct forward_conf conf = {.rate = 0};
    const struct forward_stats *s;
    struct forward *f;
    struct life_event ev;
    struct record r;
    uint64_t out = 0, held = 0;

    (void)state;
    schemas_open(&conf);
    f = make(all, 2, conf);
    s = forward_stats(f);
    for (uint64_t i = 0; i < many; i++) {
        question_make(&r, 3008, 'a');
        put_live(f, &r, &out);
        memset(r.raw.guid, 0x66, sizeof r.raw.guid); /* of a provider without a name */
        put_live(f, &r, &out);
    }
    do { /* both providers are asked about */
        await_answer(f);
        while (forward_held(f, &ev) == ERR_OK) {
            held++;
        }
        question_make(&r, 3008, 'a');
        put_live(f, &r, &out);
        memset(r.raw.guid, 0x66, sizeof r.raw.guid);
        put_live(f, &r, &out);
    } while (out == 0);
    assert_in_range(held, 1, many - 1);
    question_make(&r, 7777, 'a');
    put_live(f, &r, &out);
    do { /* two may be asked about, and answered one by one */
        await_answer(f);
        assert_err(forward_held(f, &ev), ERR_NOTFOUND);
    } while (s->held > 0);
    assert_int_equal(s->out, out + held);
    assert_int_equal(s->in, sum(s));
    assert_int_equal(s->in, s->out + s->no_schema);
    assert_in_range(s->in, many + 2, many + 10);
    question_make(&r, 7778, 'a');
    put_live(f, &r, &out);
    assert_int_equal(s->held, 1);
    forward_finish(f);
    assert_int_equal(s->held, 0);
    assert_int_equal(s->in, sum(s));
    forward_destroy(f); /* while it is asked */
    schema_source_close(conf.schemas_ctx);
}

static void who_is_hidden_stays_so_while_a_name_is_asked_for(void **state)
{
    static const char *const all[] = {DNS};
    struct forward_conf conf = {.rate = 0};
    struct forward *f;
    struct life_event ev;
    struct record r;

    (void)state;
    schemas_open(&conf);
    f = make(all, 1, conf);
    question_make(&r, 3008, 'a');
    assert_true(forward_takes(f, &r.raw));
    forward_hide(f);
    await_answer(f);
    assert_err(forward_held(f, &ev), ERR_NOTFOUND);
    assert_int_equal(forward_stats(f)->in, 1);
    assert_int_equal(forward_stats(f)->filtered, 1);
    forward_destroy(f);
    schema_source_close(conf.schemas_ctx);
}

static void every_failed_allocation_is_survived(void **state)
{
    static const char *const all[] = {"*"};
    const struct forward_conf conf = {.providers = all, .n_providers = 1};
    struct errmsg why = {""};
    struct forward *f;
    struct life_event ev;
    struct record r;
    enum err e = ERR_NOMEM;

    (void)state;
    RECORD(&r, "P", 1, "v\0\x08", "\x01\0\0\0");
    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = forward_create(&f, &conf, &why);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
    }
    for (long n = 0; n < 4; n++) {
        mem_fail_after(n);
        (void)passes(f, &r, &ev);
        mem_fail_after(-1);
    }
    assert_true(passes(f, &r, &ev));
    forward_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_names_patterns_and_guids_with_ids),
        cmocka_unit_test(only_what_was_chosen_comes_out),
        cmocka_unit_test(a_flood_is_counted_to_the_last_event),
        cmocka_unit_test(the_host_has_a_rate_and_bytes_of_its_own),
        cmocka_unit_test(no_secret_leaves),
        cmocka_unit_test(what_nobody_takes_what_is_hidden_and_what_is_unknown_is_counted),
        cmocka_unit_test(only_events_whose_field_has_the_value_come_out),
        cmocka_unit_test(what_cannot_be_read_takes_nothing_from_the_rate),
        cmocka_unit_test(a_recording_has_events_that_the_tables_know),
        cmocka_unit_test(live_events_wait_until_somebody_knows_them),
        cmocka_unit_test(what_has_no_room_or_is_known_nowhere_is_counted),
        cmocka_unit_test(who_is_hidden_stays_so_while_a_name_is_asked_for),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
