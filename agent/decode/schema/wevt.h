/* Manifests as they are compiled into programs: the resource WEVT_TEMPLATE of a PE file, given as
 * the elements that the manifest's XML would have: providers with maps, templates and events. The
 * texts of maps are messages, in another resource of the program or of its language file.
 * Bounds:  WEVT_MAX bytes of resource; texts are cut at WEVT_TEXT bytes; an element
 *          for each 8 bytes, whatever refers to one place again and again; maps of up to 1,024
 *          values, and 1 Mi steps through messages for all of them.
 * Threads: any; no state. All input is hostile. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_WEVT_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_WEVT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define WEVT_MAX  ((size_t)16 << 20)
#define WEVT_TEXT 512

struct wevt_input {
    /* n bytes from offset; false: they are not there. */
    bool (*read)(void *ctx, uint64_t offset, void *p, size_t n);
    void *ctx;
};

enum wevt_kind {
    WEVT_TEMPLATE, /* the manifest */
    WEVT_MESSAGES, /* texts */
};

/* A resource of a PE file; mem_free. Errors: ERR_NOTFOUND (there is none), ERR_CORRUPT (no PE
 * file, or damaged), ERR_FULL, ERR_NOMEM */
NODISCARD enum err wevt_resource(const struct wevt_input *in, enum wevt_kind kind, uint8_t **out,
                                 size_t *n);

struct wevt_sink {
    void *ctx;
    /* As etw_manifest_begin and etw_manifest_end. */
    void (*begin)(void *ctx, const char *name, const char *const *attributes);
    void (*end)(void *ctx, const char *name);
    enum err (*stopped)(void *ctx); /* ERR_OK: go on */
};

/* The elements of a manifest. messages  may be NULL: values of maps have no texts then.
 * Errors: ERR_CORRUPT (what came before the damage was given; more elements than its bytes can
 * hold), and what `stopped` returns */
NODISCARD enum err wevt_elements(const uint8_t *p, size_t n, const uint8_t *messages,
                                 size_t n_messages, const struct wevt_sink *sink);

#endif
