/* Lifetimes as text: a lane of bars for what lived one after the other, lanes side by side for what
 * lived at once, by image, tree, user or host. What did not arrive is hatched. Pure; any thread. */
#ifndef PROCFLEET_COLLECTOR_CLI_PLOT_LANES_H
#define PROCFLEET_COLLECTOR_CLI_PLOT_LANES_H

#include "common/base/buf.h"
#include "common/wire/wire_lifetimes.h"

enum lanes_group { LANES_IMAGE, LANES_TREE, LANES_USER, LANES_HOST };

struct lanes {
    enum lanes_group group;
    unsigned columns; /* of the whole, labels included; LANES_COLUMNS_MIN to LANES_COLUMNS_MAX */
    unsigned groups;  /* shown, above 0: those of most starts and ends; of a tree processes */
    unsigned lanes;   /* of each, above 0; what is more is counted in one line */
    bool ascii, colours;
};

#define LANES_COLUMNS_MIN 40u
#define LANES_COLUMNS_MAX 400u

/* So many buckets fill this width. */
unsigned lanes_buckets(unsigned columns);

/* The lifetimes of an answer, a column for each bucket: at most lanes_buckets of them. Lines that
 * end in a line break. Errors: ERR_NOMEM, ERR_FULL (the buffer's maximum) */
NODISCARD enum err lanes_draw(struct buf *out, const struct lanes *how,
                              const struct wire_answer *a);

#endif
