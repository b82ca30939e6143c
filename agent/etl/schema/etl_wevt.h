/* Manifests as they are compiled into programs: the resource WEVT_TEMPLATE of a PE file, given as
 * the elements that the manifest's XML would have: providers with templates and events.
 * Bounds:  ETL_WEVT_MAX bytes of resource; texts are cut at ETL_WEVT_TEXT bytes; an element
 *          for each 8 bytes, whatever refers to one place again and again. Maps are left
 *          out (their texts lie in another resource), and templates with structs, whose form is
 *          not published.
 * Threads: any; no state. All input is hostile. */
#ifndef PROCFLEET_AGENT_ETL_SCHEMA_ETL_WEVT_H
#define PROCFLEET_AGENT_ETL_SCHEMA_ETL_WEVT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define ETL_WEVT_MAX  ((size_t)16 << 20)
#define ETL_WEVT_TEXT 512

struct etl_wevt_input {
    /* n bytes from offset; false: they are not there. */
    bool (*read)(void *ctx, uint64_t offset, void *p, size_t n);
    void *ctx;
};

/* The resource of a PE file; mem_free. Errors: ERR_NOTFOUND (there is none), ERR_CORRUPT (no PE
 * file, or damaged), ERR_FULL, ERR_NOMEM */
NODISCARD enum err etl_wevt_resource(const struct etl_wevt_input *in, uint8_t **out, size_t *n);

struct etl_wevt_sink {
    void *ctx;
    /* As etw_manifest_begin and etw_manifest_end. */
    void (*begin)(void *ctx, const char *name, const char *const *attributes);
    void (*end)(void *ctx, const char *name);
    enum err (*stopped)(void *ctx); /* ERR_OK: go on */
};

/* Its elements. Errors: ERR_CORRUPT (what came before the damage was given; more elements than
 * its bytes can hold), and what `stopped` returns */
NODISCARD enum err etl_wevt_elements(const uint8_t *p, size_t n, const struct etl_wevt_sink *sink);

#endif
