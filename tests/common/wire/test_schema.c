/* The schema keeps its own rules, and PROTOCOL.md, metric.h and the headers tell the same story.
 * Files are read from the source tree, the tests' working directory. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/model/codec.h"
#include "common/model/metric.h"
#include "common/os/os.h"
#include "common/rpc/rpc.h"
#include "common/wire/frame.h"
#include "common/wire/wire_query.h"
#include "proto/query.pb-c.h"
#include "proto/rpc.pb-c.h"
#include "proto/telemetry.pb-c.h"
#include "tests/support/t.h"

#define PACKAGE      "procfleet.v1."
#define MESSAGES_MAX 96
#define DEPTH_MAX    8

static const ProtobufCServiceDescriptor *const services[] = {
    &procfleet__v1__ingest__descriptor, &procfleet__v1__query__descriptor,
    &procfleet__v1__enroll__descriptor, &procfleet__v1__admin__descriptor,
    &procfleet__v1__mark__descriptor,
};

/* Every message that is sent, found from the methods and from what travels without one. */
static const ProtobufCMessageDescriptor *messages[MESSAGES_MAX];
static size_t n_messages;
static char *protocol;

static void add_message(const ProtobufCMessageDescriptor *m, unsigned depth)
{
    assert_true(depth < DEPTH_MAX); /* a message that contains itself would go on for ever */
    for (unsigned i = 0; i < m->n_fields; i++) {
        if (m->fields[i].type == PROTOBUF_C_TYPE_MESSAGE) {
            add_message(m->fields[i].descriptor, depth + 1);
        }
    }
    for (size_t i = 0; i < n_messages; i++) {
        if (messages[i] == m) {
            return;
        }
    }
    assert_true(n_messages < MESSAGES_MAX);
    messages[n_messages++] = m;
}

static char *text_file(const char *path)
{
    uint8_t *p;
    size_t n;

    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    return (char *)p;
}

static int collect(void **state)
{
    add_message(&procfleet__v1__request_header__descriptor, 0);
    add_message(&procfleet__v1__reply_header__descriptor, 0);
    add_message(&procfleet__v1__update__descriptor, 0);
    for (size_t i = 0; i < COUNT_OF(services); i++) {
        for (unsigned k = 0; k < services[i]->n_methods; k++) {
            add_message(services[i]->methods[k].input, 0);
            add_message(services[i]->methods[k].output, 0);
        }
    }
    protocol = text_file("proto/PROTOCOL.md");
    return 0;
}

static int release(void **state)
{
    mem_free(protocol);
    return 0;
}

static void fields_keep_the_rules(void **state)
{
    assert_true(n_messages > 20);
    for (size_t i = 0; i < n_messages; i++) {
        const ProtobufCMessageDescriptor *m = messages[i];

        assert_memory_equal(m->name, PACKAGE, strlen(PACKAGE));
        assert_null(strstr(m->short_name, "Entry")); /* a map */
        for (unsigned k = 0; k < m->n_fields; k++) {
            const ProtobufCFieldDescriptor *f = &m->fields[k];
            int bad =
                f->label == PROTOBUF_C_LABEL_REQUIRED ||
                f->type == PROTOBUF_C_TYPE_STRING || /* untrusted text is bytes */
                f->type == PROTOBUF_C_TYPE_ENUM ||   /* closed: unknown values get lost */
                f->type == PROTOBUF_C_TYPE_FLOAT ||
                /* what is computed with is whole; figures are for people */
                (f->type == PROTOBUF_C_TYPE_DOUBLE && m != &procfleet__v1__figure__descriptor) ||
                f->type == PROTOBUF_C_TYPE_INT32 || f->type == PROTOBUF_C_TYPE_INT64 ||
                (f->flags & PROTOBUF_C_FIELD_FLAG_DEPRECATED);

            /* Lists of numbers are packed. */
            if (f->label == PROTOBUF_C_LABEL_REPEATED && f->type != PROTOBUF_C_TYPE_MESSAGE &&
                f->type != PROTOBUF_C_TYPE_BYTES) {
                bad |= !(f->flags & PROTOBUF_C_FIELD_FLAG_PACKED);
            }
            if (bad) {
                print_error("%s.%s breaks a rule of the schema\n", m->short_name, f->name);
            }
            assert_false(bad);
        }
    }
}

/* The fields of the first release, which no later one may renumber or retype: one per line,
 * "Message field number type label". New fields are added to the file with the release that has
 * them. */
static void released_fields_stay(void **state)
{
    char *lines = text_file("tests/common/schema_v1.txt");
    size_t n_lines = 0, n_fields = 0;

    for (char *line = lines, *end; *line; line = end + 1, n_lines++) {
        char message[64], field[64];
        unsigned number, type, label;
        const ProtobufCFieldDescriptor *f = NULL;

        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        assert_int_equal(sscanf(line, "%63s %63s %u %u %u", message, field, &number, &type, &label),
                         5);
        for (size_t i = 0; i < n_messages; i++) {
            if (strcmp(messages[i]->short_name, message) == 0) {
                f = protobuf_c_message_descriptor_get_field_by_name(messages[i], field);
            }
        }
        if (!f || f->id != number || (unsigned)f->type != type || (unsigned)f->label != label) {
            print_error("changed: %s\n", line);
        }
        assert_true(f && f->id == number && (unsigned)f->type == type &&
                    (unsigned)f->label == label);
    }
    for (size_t i = 0; i < n_messages; i++) {
        n_fields += messages[i]->n_fields;
    }
    assert_int_equal(n_lines, n_fields); /* the file lacks none */
    mem_free(lines);
}

static void every_repeated_field_has_a_limit_in_the_document(void **state)
{
    const char *limits = strstr(protocol, "Limits of repeated fields");

    assert_non_null(limits);
    for (size_t i = 0; i < n_messages; i++) {
        for (unsigned k = 0; k < messages[i]->n_fields; k++) {
            char name[128];

            snprintf(name, sizeof name, "`%s.%s`", messages[i]->short_name,
                     messages[i]->fields[k].name);
            if (messages[i]->fields[k].label == PROTOBUF_C_LABEL_REPEATED &&
                !strstr(limits, name)) {
                print_error("no limit for %s\n", name);
                fail();
            }
        }
    }
}

/* How often "procfleet.v1.X/Y" occurs in the file in quotes. */
static unsigned count_name(const char *text, const char *name)
{
    char quoted[128];
    unsigned n = 0;

    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    for (const char *p = text; (p = strstr(p, quoted)) != NULL; p++) {
        n++;
    }
    return n;
}

static void methods_headers_and_document_agree(void **state)
{
    static const char *const paths[] = {"common/wire/wire_rpc.h",    "common/wire/wire_query.h",
                                        "common/wire/wire_enroll.h", "common/wire/wire_feed.h",
                                        "common/wire/wire_admin.h",  "common/wire/wire_web.h",
                                        "common/wire/wire_run.h",    "common/wire/wire_events.h"};
    char *headers[COUNT_OF(paths)];
    unsigned n_named = 0, n_methods = 0;

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        headers[i] = text_file(paths[i]);
    }
    for (size_t i = 0; i < COUNT_OF(services); i++) {
        for (unsigned k = 0; k < services[i]->n_methods; k++) {
            unsigned n = 0;
            char name[96], row[160];

            snprintf(name, sizeof name, "%s/%s", services[i]->name, services[i]->methods[k].name);
            snprintf(row, sizeof row, "| `%s` | 0x%08x |", name, (unsigned)rpc_method_id(name));
            if (!strstr(protocol, row)) {
                print_error("PROTOCOL.md lacks: %s\n", row);
            }
            assert_non_null(strstr(protocol, row));
            for (size_t f = 0; f < COUNT_OF(headers); f++) {
                n += count_name(headers[f], name);
            }
            assert_int_equal(n, 1);
            n_methods++;
        }
    }
    for (size_t f = 0; f < COUNT_OF(headers); f++) {
        for (const char *p = headers[f]; (p = strstr(p, "\"" PACKAGE)) != NULL; p++) {
            n_named++;
        }
        mem_free(headers[f]);
    }
    assert_int_equal(n_named, n_methods); /* no header names a method that is not there */
}

static void metrics_and_document_agree(void **state)
{
    static const char *const kinds[] = {"attribute", "counter", "gauge", "derived"};
    static const char *const units[] = {"-",     "ns",       "UTC ns", "bytes",
                                        "count", "permille", "mask",   "text"};
    const char *table = strstr(protocol, "## 11. Metrics");
    unsigned n_rows = 0, n_metrics = 0;

    assert_non_null(table);
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m), n_metrics++) {
        char row[256];

        snprintf(row, sizeof row, "\n| %u | `%s` | %s | %s | %s | %s |\n", m->id, m->name,
                 kinds[m->kind], units[m->unit], m->column ? "yes" : "no", m->help);
        if (!strstr(table, row)) {
            print_error("PROTOCOL.md lacks: %s", row);
        }
        assert_non_null(strstr(table, row));
    }
    for (const char *p = table; (p = strchr(p, '\n')) != NULL && strncmp(p, "\n## 11", 6) != 0;) {
        p++;
        n_rows += p[0] == '|' && p[1] == ' ' && isdigit((unsigned char)p[2]);
    }
    assert_int_equal(n_rows, n_metrics);
}

/* Bytes of the document's block that opens with `fence`: two hex digits each. With comments, two
 * blanks end a line's bytes. */
static size_t block_bytes(uint8_t *out, size_t max, const char *fence, bool comments)
{
    const char *p = strstr(protocol, fence);
    size_t n = 0;

    assert_non_null(p);
    for (p = strchr(p, '\n') + 1; strncmp(p, "```", 3) != 0; p = strchr(p, '\n') + 1) {
        for (const char *c = p; *c != '\n'; c++) {
            unsigned v;

            if (comments && c[0] == ' ' && c[1] == ' ') {
                break;
            }
            if (*c != ' ') {
                assert_int_equal(sscanf(c, "%2x", &v), 1);
                assert_true(n < max);
                out[n++] = (uint8_t)v;
                c++;
            }
        }
    }
    return n;
}

static void the_documents_request_is_understood(void **state)
{
    uint8_t bytes[256];
    size_t n = block_bytes(bytes, sizeof bytes, "```hex", false), payload_n;
    struct frame_request h;
    const uint8_t *payload;

    assert_ok(frame_get_request(&h, &payload, &payload_n, bytes + 4, n - 4));
    assert_string_equal(h.method, "procfleet.v1.Query/GetServerInfo");
    assert_string_equal(h.client, "doc");
    assert_int_equal(h.timeout_ms, 5000);
    assert_int_equal(h.call_id[15], 15);
    assert_int_equal(payload_n, 0);
}

static void the_documents_event_is_understood(void **state)
{
    static const char topic[] = "event/web-1";
    uint8_t bytes[256];
    size_t n = block_bytes(bytes, sizeof bytes, "```message", false), head = sizeof topic + 16;
    struct wire_update *u;

    assert_memory_equal(bytes, topic, sizeof topic);
    assert_int_equal(bytes[sizeof topic], 8);
    assert_int_equal(bytes[sizeof topic + 8], 7);
    assert_ok(wire_update_decode(&u, bytes + head, n - head));
    assert_true(str_eq(u->name, str_make("web-1")));
    assert_int_equal(u->data.n_hosts, 1);
    assert_int_equal(u->data.n_events, 1);
    assert_int_equal(u->data.events[0].event.kind, LIFE_PROCESS_START);
    assert_int_equal(u->data.events[0].event.info.id.pid, 4711);
    assert_true(str_eq(u->data.events[0].event.info.name, str_make("sh")));
    wire_update_free(u);
}

static void the_documents_column_is_what_the_codec_writes(void **state)
{
    static const int64_t values[] = {100, 100, 250, 7, 6};
    static const uint32_t counts[] = {3, 2};
    uint8_t want[64], got[128];
    size_t n = block_bytes(want, sizeof want, "```codec", true);

    assert_int_equal(codec_encode(got, values, counts, 2, CODEC_MOVING), n);
    assert_memory_equal(got, want, n);
}

/* `test_schema --print` writes schema_v1.txt's lines, for a release that adds fields. */
static int print_fields(void)
{
    collect(NULL);
    for (size_t i = 0; i < n_messages; i++) {
        for (unsigned k = 0; k < messages[i]->n_fields; k++) {
            const ProtobufCFieldDescriptor *f = &messages[i]->fields[k];

            printf("%s %s %u %u %u\n", messages[i]->short_name, f->name, f->id, (unsigned)f->type,
                   (unsigned)f->label);
        }
    }
    release(NULL);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_keep_the_rules),
        cmocka_unit_test(released_fields_stay),
        cmocka_unit_test(every_repeated_field_has_a_limit_in_the_document),
        cmocka_unit_test(methods_headers_and_document_agree),
        cmocka_unit_test(metrics_and_document_agree),
        cmocka_unit_test(the_documents_request_is_understood),
        cmocka_unit_test(the_documents_event_is_understood),
        cmocka_unit_test(the_documents_column_is_what_the_codec_writes),
    };

    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        return print_fields();
    }
    return cmocka_run_group_tests(tests, collect, release);
}
