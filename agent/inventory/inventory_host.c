#include "agent/inventory/inventory_host.h"

#include <string.h>

#include "agent/inventory/inventory_read.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define LOOK_NS (60 * CLK_S)

struct inventory_host {
    struct inventory_read read; /* owns the texts of facts */
    struct facts facts;
    int64_t look_ns; /* monotonic: not before */
};

void inventory_host_text(char to[INVENTORY_TEXT_MAX + 1], const char *p, size_t n)
{
    size_t used = 0;

    n = utf8_whole(p, n);
    for (size_t i = 0; i < n && used < INVENTORY_TEXT_MAX; i++) {
        bool blank = (uint8_t)p[i] <= ' ' || p[i] == 0x7f;

        if (!blank) {
            to[used++] = p[i];
        } else if (used && to[used - 1] != ' ') {
            to[used++] = ' ';
        }
    }
    used = utf8_whole(to, used);
    used -= used && to[used - 1] == ' ';
    to[used] = '\0';
}

static void facts_fill(struct inventory_host *h)
{
    struct inventory *in = &h->facts.inventory;

#define FILL_TEXT(name)   in->name = str_make(h->read.name);
#define FILL_NUMBER(name) in->name = h->read.name;
    INVENTORY_TEXTS(FILL_TEXT)
    INVENTORY_NUMBERS(FILL_NUMBER)
#undef FILL_TEXT
#undef FILL_NUMBER
    in->boot_time = h->read.boot_time;
}

enum err inventory_host_create(struct inventory_host **out, const struct label *labels, size_t n)
{
    struct inventory_host *h = mem_zalloc(sizeof *h);

    if (!h) {
        return ERR_NOMEM;
    }
    inventory_read(&h->read, "");
    facts_fill(h);
    memcpy(h->facts.labels, labels, n * sizeof *labels);
    h->facts.n_labels = n;
    h->look_ns = os_mono_ns() + LOOK_NS;
    *out = h;
    return ERR_OK;
}

void inventory_host_destroy(struct inventory_host *h)
{
    mem_free(h);
}

bool inventory_host_look(struct inventory_host *h, int64_t mono_ns)
{
    char governor[INVENTORY_TEXT_MAX + 1] = "";

    if (mono_ns < h->look_ns) {
        return false;
    }
    h->look_ns = mono_ns + LOOK_NS;
    inventory_read_governor(governor, "");
    if (strcmp(governor, h->read.governor) == 0) {
        return false;
    }
    memcpy(h->read.governor, governor, sizeof governor);
    h->facts.inventory.governor = str_make(h->read.governor);
    return true;
}

size_t inventory_host_encode(const struct inventory_host *h, uint8_t out[WIRE_FACTS_MAX])
{
    return inventory_read_encode(out, &h->facts);
}

const struct facts *inventory_host_facts(const struct inventory_host *h)
{
    return &h->facts;
}
