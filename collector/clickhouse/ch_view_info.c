/* What is known of instances: a host's rows of `process`, joined as the head of the local store
 * joins what batches say (head_info.h). They are read at once when the first is asked for: those
 * that may have lived in the view's range. */
#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_view_ask.h"
#include "collector/clickhouse/ch_view_page.h"
#include "collector/store/memtable/head_info.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define INSTANCES_MAX (1u << 20) /* of a host */
#define FROM_MAX      ((size_t)4 << 10)
#define INFOS_MAX     ((uint64_t)256 << 20)

struct ch_view_old {
    struct ch_view_old *next;
    struct head_infos_snap *snap; /* text of it may be in use */
};

enum {
    INFO_BOOT,
    INFO_PID,
    INFO_START,
    INFO_SEEN,
    INFO_HAVE,
    INFO_ORIGIN,
    INFO_CPU,
    INFO_PARENT_PID,
    INFO_PARENT_START,
    INFO_SEQUENCE,
    INFO_SESSION_ID,
    INFO_CODE,
    INFO_CREATED,
    INFO_ENDED,
    INFO_NAME,
    INFO_IMAGE,
    INFO_LINE,
    INFO_USER,
    INFO_COLUMNS
};

static enum err info_take(void *ctx, const struct ch_in *in, size_t i)
{
    const struct ch_in_column *c = in->columns;
    struct uuid boot = ch_native_get_uuid(&c[INFO_BOOT], i);
    const struct proc_info info = {
        .id = {(uint32_t)ch_native_get(&c[INFO_PID], i), ch_native_get(&c[INFO_START], i)},
        .have = (uint32_t)ch_native_get(&c[INFO_HAVE], i),
        .origin = (uint8_t)ch_native_get(&c[INFO_ORIGIN], i),
        .cpu_origin = (uint8_t)ch_native_get(&c[INFO_CPU], i),
        .parent_pid = (uint32_t)ch_native_get(&c[INFO_PARENT_PID], i),
        .parent_start = ch_native_get(&c[INFO_PARENT_START], i),
        .sequence = ch_native_get(&c[INFO_SEQUENCE], i),
        .session_id = (uint32_t)ch_native_get(&c[INFO_SESSION_ID], i),
        .exit_code = (uint32_t)ch_native_get(&c[INFO_CODE], i),
        .create_ns = (int64_t)ch_native_get(&c[INFO_CREATED], i),
        .exit_ns = (int64_t)ch_native_get(&c[INFO_ENDED], i),
        .name = ch_native_get_str(&c[INFO_NAME], i),
        .image = ch_native_get_str(&c[INFO_IMAGE], i),
        .command_line = ch_native_get_str(&c[INFO_LINE], i),
        .user = ch_native_get_str(&c[INFO_USER], i),
    };

    return head_infos_merge(ctx, &boot, &info, (int64_t)ch_native_get(&c[INFO_SEEN], i));
}

/* Without those that are known to have ended before the range, whichever of their rows says so. */
static void rows_from(const struct ch_view *v, struct buf *from)
{
    const char *name = ch_schema_table(CH_PROCESS);
    struct buf *b = from;

    buf_printf(b, " FROM `%s`.`%s` WHERE @", v->conf.database, name);
    if (v->since_ns > 0) {
        buf_printf(b,
                   " AND (host_id, boot, pid, start) NOT IN (SELECT host_id, boot, pid, start FROM "
                   "`%s`.`%s` WHERE @ AND exit_ts > ",
                   v->conf.database, name);
        ch_schema_time(b, v->conf.dialect, 0);
        buf_put_str(b, " AND exit_ts < ");
        ch_schema_time(b, v->conf.dialect, v->since_ns);
        buf_put_str(b, ")");
    }
}

/* Errors: those of ch_view_page_get */
static enum err known_read(struct ch_view *v, size_t host, struct head_infos_snap **out)
{
    char select[512], seen[64], create[64], ended[64];
    struct ch_view_get get = {.select = select,
                              .order = "seen, boot, pid, start, have",
                              .columns = INFO_COLUMNS,
                              .deadline = v->conf.deadline};
    struct head_infos *t;
    struct buf from;
    enum err e = head_infos_create(&t, INSTANCES_MAX);

    if (e) {
        return e;
    }
    head_infos_limit(t, INFOS_MAX);
    buf_init(&from, FROM_MAX);
    rows_from(v, &from);
    (void)snprintf(select, sizeof select,
                   "boot, pid, start, %s, have, origin, cpu_origin, parent_pid, parent_start, "
                   "sequence, session_id, exit_code, %s, %s, name, image, command_line, user",
                   ch_view_ask_ns_of(seen, v, "seen"), ch_view_ask_ns_of(create, v, "create_ts"),
                   ch_view_ask_ns_of(ended, v, "exit_ts"));
    get.from = buf_cstr(&from);
    e = from.bad ? from.bad : ch_view_page_get(v, host, &get, info_take, t);
    e = e ? e : head_infos_snapshot(t, out);
    buf_fini(&from);
    head_infos_destroy(t);
    return e;
}

/* NULL: nothing is known. */
static struct head_infos_snap *known(struct ch_view *v, size_t host)
{
    struct ch_view_known *k = &v->known[host];

    if (!k->asked) {
        k->asked = true;
        if (known_read(v, host, &k->snap)) {
            k->snap = NULL;
            v->unlisted++;
        }
    }
    return k->snap;
}

void ch_view_info_range(const struct store_view *view, int64_t since_ns, int64_t until_ns)
{
    struct ch_view *v = ch_view_ask_of(view);

    if (v->since_ns == since_ns && v->until_ns == until_ns) {
        return;
    }
    v->since_ns = since_ns;
    v->until_ns = until_ns;
    for (size_t i = 0; i < v->n; i++) {
        struct ch_view_old *old = v->known[i].snap ? arena_array(&v->memory, 1, sizeof *old) : NULL;

        if (old) {
            *old = (struct ch_view_old){v->old, v->known[i].snap};
            v->old = old;
            v->known[i] = (struct ch_view_known){.asked = false};
        } else if (!v->known[i].snap) {
            v->known[i].asked = false;
        }
    }
}

bool ch_view_info_find(const struct store_view *view, size_t host, const struct uuid *boot,
                       struct proc_id id, bool brief, struct proc_info *out)
{
    struct head_infos_snap *snap = known(ch_view_ask_of(view), host);

    (void)brief;
    return snap && head_infos_find(snap, boot, id, out);
}

/* All of a host are read at once. */
void ch_view_info_want(const struct store_view *view, size_t host, const struct proc_key *keys,
                       size_t n)
{
    (void)keys;
    if (n) {
        (void)known(ch_view_ask_of(view), host);
    }
}

uint32_t ch_view_info_unlisted(const struct store_view *view)
{
    return ch_view_ask_of(view)->unlisted;
}

void ch_view_info_fini(struct ch_view *v)
{
    for (size_t i = 0; v->known && i < v->n; i++) {
        head_infos_snap_unref(v->known[i].snap);
    }
    for (struct ch_view_old *old = v->old; old; old = old->next) {
        head_infos_snap_unref(old->snap);
    }
}

/* -- every instance -- */

static bool in_range(const struct store_instances *ask, const struct proc_info *info)
{
    bool ended = (info->have & INFO_EXITED) && (info->have & INFO_EXIT_TIME);

    return (!ended || info->exit_ns >= ask->since_ns) &&
           (!(info->have & INFO_CREATE_TIME) || info->create_ns < ask->until_ns);
}

static bool is_boot(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

/* The earliest creation in the newest boot: from then on nothing of an earlier one runs. */
static int64_t rebooted(const struct head_infos_snap *snap, const struct uuid *newest)
{
    struct head_infos_place at = {0};
    int64_t began_ns = INT64_MAX;
    const struct uuid *boot;
    struct proc_info info;

    for (; head_infos_peek(snap, &at, &boot, &info); at.i++) {
        if (is_boot(boot, newest) && (info.have & INFO_CREATE_TIME) && info.create_ns > 0 &&
            info.create_ns < began_ns) {
            began_ns = info.create_ns;
        }
    }
    return began_ns;
}

enum err ch_view_info_each(
    const struct store_view *view, size_t host, const struct store_instances *ask,
    enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info), void *ctx)
{
    struct ch_view *v = ch_view_ask_of(view);
    const struct uuid *newest = &v->hosts[host].boot, *boot;
    struct head_infos_place at = {0};
    struct head_infos_snap *snap;
    struct proc_info info;
    int64_t rebooted_ns;
    enum err e = ERR_OK;

    if (ask->since_ns < v->since_ns) { /* more than is known */
        ch_view_info_range(view, ask->since_ns, v->until_ns);
    }
    snap = known(v, host);
    if (!snap) {
        return ERR_OK;
    }
    rebooted_ns = rebooted(snap, newest);
    for (; !e && head_infos_peek(snap, &at, &boot, &info); at.i++) {
        bool asked = !ask->has_pid ||
                     (info.id.pid == ask->pid && (!ask->start || info.id.start == ask->start));
        bool gone =
            !(info.have & INFO_EXITED) && !is_boot(boot, newest) && ask->since_ns >= rebooted_ns;

        if (asked && !gone && in_range(ask, &info)) {
            e = each(ctx, boot, &info);
        }
    }
    return e;
}
