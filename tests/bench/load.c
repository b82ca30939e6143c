#include "tests/bench/load.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/wire/wire_batch.h"
#include "tests/support/fleetgen.h"

void load_check(enum err e, const char *what)
{
    if (e) {
        fprintf(stderr, "bench: %s: %s\n", what, err_text(e));
        exit(1);
    }
}

static uint64_t values_of(const struct batch *b)
{
    uint64_t n = 0;

    for (size_t i = 0; i < b->n_columns; i++) {
        n += b->columns[i].n_values;
    }
    return n;
}

static void take(struct load *l, unsigned host, const struct batch *b, const char *name,
                 struct wire_encoder *enc)
{
    struct load_batch *to = &l->batch[l->n++];
    struct buf bytes;

    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    load_check(wire_batch_encode(enc, &bytes, b), "encode");
    to->p = bytes.p;
    to->n = bytes.n;
    to->received_ns = b->wall_ns[b->n_ticks - 1];
    to->host = host;
    to->host_id = b->head.host;
    snprintf(to->host_name, sizeof to->host_name, "%s", name);
    l->values += values_of(b);
    l->bytes += bytes.n;
}

struct load load_make(unsigned hosts, unsigned per_host, size_t ticks, int64_t begin_ns)
{
    struct fleetgen **g = mem_array(hosts, sizeof *g);
    struct load l = {0};
    struct wire_encoder *enc;

    load_check(wire_batch_encoder_create(&enc), "encoder");
    l.batch = mem_array((size_t)hosts * per_host, sizeof *l.batch);
    if (!g || !l.batch) {
        load_check(ERR_NOMEM, "load");
    }
    for (unsigned i = 0; i < hosts; i++) {
        struct fleetgen_conf conf = {.seed = i + 1, .begin_ns = begin_ns};

        g[i] = fleetgen_create(&conf);
    }
    for (unsigned k = 0; k < per_host; k++) {
        for (unsigned i = 0; i < hosts; i++) {
            take(&l, i, fleetgen_batch(g[i], ticks), fleetgen_host_name(g[i]), enc);
        }
    }
    for (unsigned i = 0; i < hosts; i++) {
        fleetgen_destroy(g[i]);
    }
    mem_free(g);
    wire_batch_encoder_destroy(enc);
    return l;
}

void load_free(struct load *l)
{
    for (size_t i = 0; i < l->n; i++) {
        mem_free(l->batch[i].p);
    }
    mem_free(l->batch);
}
