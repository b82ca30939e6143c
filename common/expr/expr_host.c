#include "common/expr/expr_host.h"

#include <string.h>

enum slot { SLOT_HOST = EXPR_HOST, SLOT_TEXTS, SLOT_NUMBERS = SLOT_TEXTS + 63 };

static const char *const os_words[] = {"windows", "linux", NULL};

static const struct {
    const char *name;
    size_t at;
} texts[] = {
#define HOST_TEXT(name) {#name, offsetof(struct inventory, name)},
    INVENTORY_TEXTS(HOST_TEXT)
#undef HOST_TEXT
};

static const struct {
    const char *name;
    size_t at;
} numbers[] = {
#define HOST_NUMBER(name) {#name, offsetof(struct inventory, name)},
    INVENTORY_NUMBERS(HOST_NUMBER)
#undef HOST_NUMBER
        {"cores", offsetof(struct inventory, cpu_cores)},
    {"memory", offsetof(struct inventory, memory_bytes)},
};

static bool field_is(struct expr_field *out, uint32_t slot, enum expr_type type,
                     struct expr_dim dim, const char *const *words)
{
    *out = (struct expr_field){slot, type, dim, words};
    return true;
}

static bool field_of_label(struct expr_host_labels *labels, struct str key, struct expr_field *out)
{
    uint8_t i = 0;

    while (i < labels->n && !str_eq(labels->keys[i], key)) {
        i++;
    }
    if (i == INVENTORY_LABELS_MAX || !inventory_key_ok(key)) {
        return false;
    }
    labels->keys[i] = key;
    labels->n = labels->n > i ? labels->n : (uint8_t)(i + 1);
    return field_is(out, EXPR_HOST_LABELS + i, EXPR_TYPE_TEXT, EXPR_PLAIN, NULL);
}

bool expr_host_field(struct str name, struct expr_host_labels *labels, struct expr_field *out)
{
    static const char prefix[] = "label.";
    const size_t n = sizeof prefix - 1;

    if (str_eq(name, str_make("host"))) {
        return field_is(out, SLOT_HOST, EXPR_TYPE_TEXT, EXPR_PLAIN, NULL);
    }
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (str_eq(name, str_make(texts[i].name))) {
            return field_is(out, SLOT_TEXTS + i, EXPR_TYPE_TEXT, EXPR_PLAIN,
                            i == 0 ? os_words : NULL);
        }
    }
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (str_eq(name, str_make(numbers[i].name))) {
            bool bytes = numbers[i].at == offsetof(struct inventory, memory_bytes) ||
                         numbers[i].at == offsetof(struct inventory, page_bytes);

            return field_is(out, SLOT_NUMBERS + i, EXPR_TYPE_NUMBER,
                            bytes ? EXPR_BYTES : EXPR_PLAIN, NULL);
        }
    }
    return name.n > n && memcmp(name.p, prefix, n) == 0 &&
           field_of_label(labels, (struct str){name.p + n, name.n - n}, out);
}

void expr_host_value(uint32_t slot, const struct expr_host_labels *labels, struct str host,
                     const struct facts *f, struct expr_value *out)
{
    *out = (struct expr_value){0};
    if (slot == SLOT_HOST) {
        *out = expr_text(host);
    } else if (!f) {
        return;
    } else if (slot >= EXPR_HOST_LABELS) {
        struct str v = inventory_label(f, labels->keys[slot - EXPR_HOST_LABELS]);

        *out = v.p ? expr_text(v) : *out;
    } else if (slot >= SLOT_NUMBERS) {
        uint64_t v;

        memcpy(&v, (const char *)&f->inventory + numbers[slot - SLOT_NUMBERS].at, sizeof v);
        *out = v ? expr_number(v) : *out;
    } else {
        struct str v;

        memcpy(&v, (const char *)&f->inventory + texts[slot - SLOT_TEXTS].at, sizeof v);
        *out = v.n ? expr_text(v) : *out;
    }
}
