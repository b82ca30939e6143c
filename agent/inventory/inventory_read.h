/* What the system tells of the machine: inventory_read_linux.c, inventory_read_win32.c. Private to
 * the folder. */
#ifndef PROCFLEET_AGENT_INVENTORY_INVENTORY_READ_H
#define PROCFLEET_AGENT_INVENTORY_INVENTORY_READ_H

#include "common/model/inventory.h"
#include "common/wire/wire_inventory.h"

/* Texts end with a NUL and are as inventory_text_ok wants them; empty, or 0: not known. */
struct inventory_read {
#define INVENTORY_TEXT(name)   char name[INVENTORY_TEXT_MAX + 1];
#define INVENTORY_NUMBER(name) uint64_t name;
    INVENTORY_TEXTS(INVENTORY_TEXT)
    INVENTORY_NUMBERS(INVENTORY_NUMBER)
#undef INVENTORY_TEXT
#undef INVENTORY_NUMBER
    int64_t boot_time; /* UTC ns */
};

/* root  "" but for tests: the directory that stands for "/" */
void inventory_read(struct inventory_read *out, const char *root);

/* What may change while the system runs. */
void inventory_read_governor(char governor[INVENTORY_TEXT_MAX + 1], const char *root);

/* What of the facts is told. Returns its bytes. */
size_t inventory_read_encode(uint8_t out[WIRE_FACTS_MAX], const struct facts *f);

/* inventory_host.c: n bytes from the system as a text of the inventory: blanks at the ends and
 * doubled ones go, control characters become blanks; what is no UTF-8 ends it. */
void inventory_host_text(char to[INVENTORY_TEXT_MAX + 1], const char *p, size_t n);

#endif
