/* The structures and numbers of snap_layout.h against the facts of the corpus (nt-structs.json), as
 * a whole: every field of theirs is one of ours at the same place and as wide, and the other way
 * round; every class has its number. That this can fail is shown first. */
#include "tests/support/t.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/source/windows/snap_layout.h"
#include "tests/support/corpus.h"

struct field {
    const char *name;
    size_t offset, width;
};

#define FIELD(S, type, field, at) {#field, at, sizeof(type)},
#define STRUCTURE(theirs, ours, LIST, left_out)                                             \
    {                                                                                       \
        theirs, sizeof(struct ours), (const struct field[]){LIST(FIELD, ours){NULL, 0, 0}}, \
            left_out                                                                        \
    }

static const struct structure {
    const char *name; /* as Windows has it */
    size_t bytes;
    const struct field *fields;
    const char *left_out; /* fields of theirs that are no fields of ours, between blanks */
} structures[] = {
    STRUCTURE("UNICODE_STRING", snap_unicode_string, SNAP_UNICODE_STRING, ""),
    STRUCTURE("CLIENT_ID", snap_client_id, SNAP_CLIENT_ID, ""),
    STRUCTURE("SYSTEM_PROCESS_INFORMATION", snap_process, SNAP_PROCESS, " Threads "),
    STRUCTURE("SYSTEM_EXTENDED_PROCESS_INFORMATION", snap_process, SNAP_PROCESS, " Threads "),
    STRUCTURE("SYSTEM_THREAD_INFORMATION", snap_thread_record, SNAP_THREAD, ""),
    /* Theirs names the fields of ThreadInfo once more. */
    STRUCTURE(
        "SYSTEM_EXTENDED_THREAD_INFORMATION", snap_full_thread, SNAP_FULL_THREAD,
        " KernelTime UserTime CreateTime WaitTime StartAddress ClientId Priority BasePriority "
        "ContextSwitches ThreadState WaitReason "),
    STRUCTURE("PROCESS_DISK_COUNTERS", snap_disk_counters, SNAP_DISK_COUNTERS, ""),
    /* The bits of Flags. */
    STRUCTURE("SYSTEM_PROCESS_INFORMATION_EXTENSION", snap_extension, SNAP_EXTENSION,
              " HasStrongId Classification BackgroundActivityModerated Spare "),
    STRUCTURE("PROCESS_BASIC_INFORMATION", snap_process_basic, SNAP_PROCESS_BASIC, ""),
    STRUCTURE("PROCESS_HANDLE_INFORMATION", snap_handle_counts, SNAP_HANDLE_COUNTS, ""),
};

static const struct number {
    const char *list, *name, *key;
    json_int_t number;
} numbers[] = {
#define NUMBER(name, n) {"system_information_classes", #name, "number", n},
    SNAP_SYSTEM_CLASSES(NUMBER)
#undef NUMBER
#define NUMBER(name, n) {"process_information_classes", #name, "number", n},
        SNAP_PROCESS_CLASSES(NUMBER)
#undef NUMBER
#define NUMBER(name, n) {"thread_states", #name, "value", n},
            SNAP_THREAD_STATES(NUMBER)
#undef NUMBER
#define NUMBER(name, n) {"wait_reasons", #name, "value", n},
                SNAP_WAIT_REASONS(NUMBER)
#undef NUMBER
};

static json_t *facts;

static size_t integer(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

static const char *string(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "";
}

static const json_t *named(const json_t *list, const char *name)
{
    size_t i;
    json_t *each;

    json_array_foreach(list, i, each)
    {
        if (strcmp(string(each, "name"), name) == 0) {
            return each;
        }
    }
    return NULL;
}

static bool is_left_out(const struct structure *s, const char *name)
{
    char word[80];

    (void)snprintf(word, sizeof word, " %s ", name);
    return strstr(s->left_out, word) != NULL;
}

/* Gives the number of differences. `moved` is added to what ours says of every offset. */
static unsigned differences(const struct structure *s, const json_t *theirs, size_t moved)
{
    const json_t *list = json_object_get(theirs, "fields");
    unsigned n = 0;
    size_t i, seen = 0;
    json_t *each;

    for (const struct field *f = s->fields; f->name; f++, seen++) {
        const json_t *field = named(list, f->name);

        n += !field || integer(field, "offset") != f->offset + moved ||
             integer(field, "width") != f->width;
    }
    json_array_foreach(list, i, each)
    {
        if (is_left_out(s, string(each, "name"))) {
            continue;
        }
        seen--;
    }
    return n + (seen != 0);
}

static void every_field_is_where_windows_has_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(structures); i++) {
        const struct structure *s = &structures[i];
        const json_t *theirs = json_object_get(json_object_get(facts, "structures"), s->name);
        size_t bytes = integer(theirs, "size_x64");

        if (!theirs || differences(s, theirs, 0)) {
            fail_msg("%s differs", s->name);
        }
        /* Entries end with room for one thread, which is counted apart. */
        bytes -= strstr(s->left_out, " Threads ") ? sizeof(struct snap_thread_record) : 0;
        assert_int_equal(bytes, s->bytes);
        assert_true(json_is_true(json_object_get(theirs, "arm64_identical_to_x64")));
    }
}

static void a_field_at_another_place_is_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(structures); i++) {
        const struct structure *s = &structures[i];
        json_t *theirs =
            json_deep_copy(json_object_get(json_object_get(facts, "structures"), s->name));
        struct structure shorter = *s;

        assert_true(differences(s, theirs, 4) > 0);
        shorter.fields++;
        assert_true(differences(&shorter, theirs, 0) > 0);
        json_array_remove(json_object_get(theirs, "fields"), 0);
        assert_true(differences(s, theirs, 0) > 0);
        json_decref(theirs);
    }
}

static void every_class_and_state_has_its_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        const struct number *n = &numbers[i];
        const json_t *theirs = named(json_object_get(facts, n->list), n->name);

        if (!theirs || json_integer_value(json_object_get(theirs, n->key)) != n->number) {
            fail_msg("%s is not %d", n->name, (int)n->number);
        }
    }
}

/* What the agent may ask for with the right it opens processes with. */
static void every_class_of_a_process_needs_the_limited_right_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        if (strcmp(numbers[i].list, "process_information_classes") == 0) {
            const json_t *theirs = named(json_object_get(facts, numbers[i].list), numbers[i].name);

            assert_non_null(strstr(string(theirs, "right"), "PROCESS_QUERY_LIMITED_INFORMATION"));
        }
    }
}

static void the_command_line_is_found_through_the_peb(void **state)
{
    const json_t *all = json_object_get(facts, "structures");
    const json_t *parameters = json_object_get(all, "RTL_USER_PROCESS_PARAMETERS");
    const json_t *line = named(json_object_get(parameters, "fields"), "CommandLine");
    const json_t *peb =
        named(json_object_get(json_object_get(all, "PEB"), "fields"), "ProcessParameters");

    (void)state;
    assert_int_equal(integer(line, "offset"), SNAP_PARAMETERS_LINE);
    assert_int_equal(integer(peb, "offset"), SNAP_PEB_PARAMETERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_where_windows_has_it),
        cmocka_unit_test(a_field_at_another_place_is_noticed),
        cmocka_unit_test(every_class_and_state_has_its_number),
        cmocka_unit_test(every_class_of_a_process_needs_the_limited_right_only),
        cmocka_unit_test(the_command_line_is_found_through_the_peb),
    };
    int code;

    if (!corpus_dir()) {
        return CORPUS_SKIP;
    }
    facts = corpus_json("nt-structs.json");
    code = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(facts);
    return code;
}
