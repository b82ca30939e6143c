#include "common/model/inventory.h"

static const char *const names[] = {
#define INVENTORY_NAME(name) #name,
    INVENTORY_TEXTS(INVENTORY_NAME) INVENTORY_NUMBERS(INVENTORY_NAME)
#undef INVENTORY_NAME
        "boot_time",
    "disks",
    "gpus",
    "nics",
    "agent_version",
};

static bool is_inventory_name(struct str key)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (str_eq(str_make(names[i]), key)) {
            return true;
        }
    }
    return false;
}

bool inventory_key_ok(struct str key)
{
    if (key.n == 0 || key.n > LABEL_KEY_MAX || is_inventory_name(key)) {
        return false;
    }
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i];
        bool letter = c >= 'a' && c <= 'z';
        bool more = (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';

        if (!letter && !(i && more)) {
            return false;
        }
    }
    return true;
}

bool inventory_label_parse(struct label *out, const char *text)
{
    const char *eq = strchr(text, '=');

    if (!eq) {
        return false;
    }
    *out = (struct label){.key = {text, (size_t)(eq - text)}, .value = str_make(eq + 1)};
    return inventory_label_ok(out);
}

struct str inventory_label(const struct facts *f, struct str key)
{
    for (size_t i = 0; i < f->n_labels; i++) {
        if (str_eq(f->labels[i].key, key)) {
            return f->labels[i].value;
        }
    }
    return (struct str){NULL, 0};
}
