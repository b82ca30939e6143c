/* So much as fits the agent's size on Windows: what the kernel and two calls tell. */
#include "agent/inventory/inventory_read.h"
#include "common/os/os.h"

void inventory_read_governor(char governor[INVENTORY_TEXT_MAX + 1], const char *root)
{
    (void)root;
    governor[0] = '\0';
}

void inventory_read(struct inventory_read *out, const char *root)
{
    (void)root;
    *out = (struct inventory_read){
        .os = "windows", .cpus = os_cpu_count(), .memory_bytes = os_memory_bytes()};
}

size_t inventory_read_encode(uint8_t out[WIRE_FACTS_MAX], const struct facts *f)
{
    return wire_facts_small_encode(out, f);
}
