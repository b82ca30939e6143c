/* Reading: an immutable view of everything acknowledged so far. What is asked goes through the
 * view's table (view_ops.h); store_view_open gives that of the local store.
 * Threads: views are opened from any thread; one view may be used by one thread at a time. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_READ_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_READ_H

#include "collector/store/read/view_ops.h"

/* -- the local store alone -- */

/* Head and segments at one moment. The writer is never blocked by it for longer than a pointer
 * swap; what a view names stays readable, also when retention drops it meanwhile. */
NODISCARD enum err store_view_open(struct store_view **out, struct store *s);

/* Calls `each` with every batch of the host whose span of ticks and events meets [since, until),
 * oldest first; the batch is valid during the call only. A result other than ERR_OK ends the scan
 * and is returned (ERR_END for "enough"). */
NODISCARD enum err store_view_scan(const struct store_view *v, size_t host, int64_t since_ns,
                                   int64_t until_ns,
                                   enum err (*each)(void *ctx, const struct batch *b), void *ctx);

/* A batch as it came. */
struct store_raw {
    uint64_t stream, seq;
    int64_t received_ns;
    const struct host_offset *clock;
    bool has_events;
    const void *bytes; /* encoded */
    size_t n;
};

/* Which batches, by their arrival in [since_ns, until_ns). */
struct store_raw_ask {
    int64_t since_ns, until_ns;
    bool events_only; /* those without are left out */
    int64_t next_ns;  /* becomes the first wanted arrival behind them when that is earlier */
};

/* Every unsealed batch of the host that is asked for, by stamps; else as store_view_scan. */
NODISCARD enum err store_view_raw(const struct store_view *v, size_t host,
                                  struct store_raw_ask *ask,
                                  enum err (*each)(void *ctx, const struct store_raw *b),
                                  void *ctx);

/* The earliest moment from then on in whose window something was made, collector's clock; near it
 * where windows are joined. INT64_MAX: there is nothing. */
int64_t store_view_made(const struct store_view *v, int64_t from_ns);

/* -- every view -- */

static inline const struct view_ops *store_view_ops(const struct store_view *v)
{
    return *(const struct view_ops *const *)(const void *)v;
}

static inline void store_view_close(struct store_view *v) /* NULL is allowed */
{
    if (v) {
        store_view_ops(v)->close(v);
    }
}

static inline size_t store_view_hosts(const struct store_view *v)
{
    return store_view_ops(v)->hosts(v);
}

/* By name, then id. */
static inline const struct store_host *store_view_host(const struct store_view *v, size_t i)
{
    return store_view_ops(v)->host(v, i);
}

/* Its place; store_view_hosts when it is not there under this name. */
static inline size_t store_view_find(const struct store_view *v, const char *name,
                                     const struct uuid *id)
{
    return store_view_ops(v)->find(v, name, id);
}

/* Every block whose span meets the range, oldest window first, inside a window by first stamp. A
 * result of `each` other than ERR_OK ends the scan and is returned (ERR_END for "enough"). What
 * cannot be read is left out and counted. Errors: ERR_NOMEM, ERR_FULL, ERR_TIMEOUT */
NODISCARD static inline enum err
store_blocks_scan(const struct store_view *v, size_t host, const struct store_range *range,
                  enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    return store_view_ops(v)->blocks_scan(v, host, range, each, ctx);
}

/* Rows of a process in the order of time but for late data; valid during the call. A counter's cell
 * may begin with the sample before the span (cell.h), also one before `since`. *ticks may be NULL.
 * Errors as store_blocks_scan */
NODISCARD static inline enum err
store_cells_scan(const struct store_view *v, size_t host, const struct store_cells *ask,
                 enum err (*each)(void *ctx, const struct store_cell_row *row), void *ctx,
                 struct store_ticks *ticks)
{
    return store_view_ops(v)->cells_scan(v, host, ask, each, ctx, ticks);
}

/* The host's windows that meet [since, until), by their oldest stamps, and which of them have sums
 * by image and user that say what store_cells_scan says of every process; *n 0: there are none. In
 * `memory`, or valid as long as the view. Errors: ERR_NOMEM, ERR_FULL */
NODISCARD static inline enum err store_groups_list(const struct store_view *v, size_t host,
                                                   int64_t since_ns, int64_t until_ns,
                                                   metric_mask metrics, struct arena *memory,
                                                   struct store_groups **list, size_t *n)
{
    *n = 0;
    return store_view_ops(v)->groups
               ? store_view_ops(v)->groups(v, host, since_ns, until_ns, metrics, memory, list, n)
               : ERR_OK;
}

/* The first stretch of [since, until) in which tiers hold what the host's rows do not, since
 * retention dropped them; store_cells_scan gives it. By what is held of this host.
 * since_ns = until_ns: there is none. Errors: ERR_NOMEM, ERR_FULL */
NODISCARD static inline enum err store_cells_gone(const struct store_view *v, size_t host,
                                                  int64_t since_ns, int64_t until_ns,
                                                  struct store_gone *out)
{
    return store_view_ops(v)->cells_gone(v, host, since_ns, until_ns, out);
}

/* Sums of what the host's batches told of themselves, for windows that lie inside the range and
 * need no closer look: `each_account`; all other batches of the range come as blocks. */
NODISCARD static inline enum err
store_accounts_scan(const struct store_view *v, size_t host, const struct store_range *range,
                    enum err (*each_account)(void *ctx, const struct loss_sum *a),
                    enum err (*each)(void *ctx, const struct store_block *b), void *ctx)
{
    return store_view_ops(v)->accounts_scan(v, host, range, each_account, each, ctx);
}

/* Every instance of the host alive in [since, until), from head and catalogue; each once, with the
 * newest that is known of it. Valid during the call. Days of the catalogue that cannot be read are
 * left out: store_info_unlisted. Errors: ERR_NOMEM, ERR_FULL (see catalogue_find), those of each */
NODISCARD static inline enum err
store_info_each(const struct store_view *v, size_t host, const struct store_instances *ask,
                enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info),
                void *ctx)
{
    return store_view_ops(v)->info_each(v, host, ask, each, ctx);
}

/* Where store_info looks for instances that the head has forgotten: those alive in [since, until)
 * of any host. Until it is called, everywhere, which is slow. */
static inline void store_info_range(const struct store_view *v, int64_t since_ns, int64_t until_ns)
{
    store_view_ops(v)->info_range(v, since_ns, until_ns);
}

/* All that is known of an instance, text until the view closes. start 0: the latest of the pid. */
static inline bool store_info(const struct store_view *v, size_t host, const struct uuid *boot,
                              struct proc_id id, struct proc_info *out)
{
    return store_view_ops(v)->info(v, host, boot, id, false, out);
}

/* Path and command line may be missing: cheap also for all of a host. */
static inline bool store_info_brief(const struct store_view *v, size_t host,
                                    const struct uuid *boot, struct proc_id id,
                                    struct proc_info *out)
{
    return store_view_ops(v)->info(v, host, boot, id, true, out);
}

/* Has store_info look for these at once: much cheaper where the head has forgotten them. */
static inline void store_info_want(const struct store_view *v, size_t host,
                                   const struct proc_key *keys, size_t n)
{
    store_view_ops(v)->info_want(v, host, keys, n);
}

/* A hint: these hosts will be asked the same, one after the other, so that what is far can be asked
 * of many at once. The list is copied, and takes the place of the one before. */
static inline void store_expect(const struct store_view *v, const struct store_expected *list,
                                size_t n)
{
    if (store_view_ops(v)->expect) {
        store_view_ops(v)->expect(v, list, n);
    }
}

/* How often names and lives may be missing: the catalogue was unreadable, gone or had too much. */
static inline uint32_t store_info_unlisted(const struct store_view *v)
{
    return store_view_ops(v)->info_unlisted(v);
}

#endif
