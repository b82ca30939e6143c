/* What a host is made of, and the labels that it or an operator gives it. Plain data; texts are
 * borrowed UTF-8 without control characters. What is not known is empty or 0. */
#ifndef PROCFLEET_COMMON_MODEL_INVENTORY_H
#define PROCFLEET_COMMON_MODEL_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/str.h"
#include "common/base/utf8.h"

#define INVENTORY_TEXT_MAX   128  /* bytes of one text */
#define INVENTORY_PARTS_MAX  16   /* disks, GPUs, network cards: of each */
#define INVENTORY_MAX        2048 /* bytes, encoded */
#define INVENTORY_LABELS_MAX 16   /* of a host */
#define LABEL_KEY_MAX        32
#define LABEL_VALUE_MAX      64 /* bytes */

/* Texts and numbers, in the order of their numbers on the wire; the names are those of expressions,
 * JSON and documents, and no label may have one. */
#define INVENTORY_TEXTS(X) \
    X(os)                  \
    X(os_name)             \
    X(os_version)          \
    X(os_build)            \
    X(kernel)              \
    X(arch)                \
    X(vendor)              \
    X(model)               \
    X(hypervisor)          \
    X(governor)            \
    X(zone)                \
    X(cpu_model)
#define INVENTORY_NUMBERS(X) \
    X(cpu_sockets)           \
    X(cpu_cores)             \
    X(cpu_efficiency_cores)  \
    X(cpus)                  \
    X(cpu_mhz)               \
    X(memory_bytes)          \
    X(numa_nodes)            \
    X(page_bytes)

struct inventory_disk {
    struct str model;
    uint64_t bytes;
    bool rotational;
};

struct inventory_nic {
    struct str name;
    uint64_t bits; /* a second; 0 = not known */
};

struct inventory {
#define INVENTORY_TEXT(name)   struct str name;
#define INVENTORY_NUMBER(name) uint64_t name;
    INVENTORY_TEXTS(INVENTORY_TEXT)
    INVENTORY_NUMBERS(INVENTORY_NUMBER)
#undef INVENTORY_TEXT
#undef INVENTORY_NUMBER
    int64_t boot_time; /* UTC ns */
    size_t n_disks, n_gpus, n_nics;
    struct inventory_disk disks[INVENTORY_PARTS_MAX];
    struct str gpus[INVENTORY_PARTS_MAX];
    struct inventory_nic nics[INVENTORY_PARTS_MAX];
};

struct label {
    struct str key, value;
    bool assigned; /* by the collector's configuration, not by the host */
};

/* All that a host is known by. */
struct facts {
    struct inventory inventory;
    size_t n_labels;
    struct label labels[INVENTORY_LABELS_MAX];
};

/* UTF-8 without control characters. */
static inline bool inventory_text_ok(struct str text, size_t max_bytes)
{
    if (text.n > max_bytes || utf8_whole(text.p, text.n) != text.n) {
        return false;
    }
    for (size_t i = 0; i < text.n; i++) {
        if ((uint8_t)text.p[i] < 0x20 || text.p[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

/* [a-z][a-z0-9_.-]{0,31}, and no name of the inventory's. */
bool inventory_key_ok(struct str key);

static inline bool inventory_label_ok(const struct label *l)
{
    return inventory_key_ok(l->key) && inventory_text_ok(l->value, LABEL_VALUE_MAX);
}

/* "rack=3", parts borrowed; the value may be empty or have "=" in it. False: it is none. */
#define INVENTORY_LABEL_WANTED                                                           \
    "KEY=VALUE with a key of a-z, 0-9, _ . -, 32 bytes at most, that is no name of the " \
    "inventory's"
bool inventory_label_parse(struct label *out, const char *text);

/* Its value; p is NULL where there is no such label. */
struct str inventory_label(const struct facts *f, struct str key);

#endif
