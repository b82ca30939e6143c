#include "tests/collector/store/catalogue/catalogue_rig.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/segment/seg_write.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

struct catalogue_rig catalogue_rig;

void catalogue_rig_open(bool import)
{
    struct catalogue_conf conf = {.dir = catalogue_rig.cat_dir};
    struct manifest_list *l = manifest_view(catalogue_rig.m);

    assert_ok(catalogue_open(&catalogue_rig.c, &conf, import ? l : NULL, NULL));
    manifest_list_release(l);
}

int catalogue_rig_setup(void **state)
{
    struct manifest_conf conf = {support_temp_dir(catalogue_rig.dir, sizeof catalogue_rig.dir),
                                 fio_unsynced()};

    (void)snprintf(catalogue_rig.cat_dir, sizeof catalogue_rig.cat_dir, "%s/catalogue",
                   catalogue_rig.dir);
    assert_ok(manifest_open(&catalogue_rig.m, &conf, NULL));
    assert_ok(meta_written_create(&catalogue_rig.written));
    assert_ok(packer_create(&catalogue_rig.packer));
    catalogue_rig_open(true);
    return 0;
}

int catalogue_rig_teardown(void **state)
{
    catalogue_close(catalogue_rig.c);
    catalogue_rig.c = NULL;
    manifest_close(catalogue_rig.m);
    meta_written_destroy(catalogue_rig.written);
    packer_destroy(catalogue_rig.packer);
    support_remove_dir(catalogue_rig.dir);
    return 0;
}

void catalogue_rig_follow(void)
{
    struct manifest_list *l = manifest_view(catalogue_rig.m);

    assert_ok(catalogue_follow(catalogue_rig.c, l));
    manifest_list_release(l);
}

/* Seals windows of several hosts, as the sealing thread does. Gives the segment. */
struct seg_info catalogue_rig_seal(int64_t window_ns, const struct host_window *hw, size_t n)
{
    struct seg_info info = {.number = manifest_number(catalogue_rig.m),
                            .kind = SEG_REST,
                            .n_windows = 1,
                            .window_ns = window_ns,
                            .span_ns = WINDOW_NS};
    struct seg_writer *w;
    uint64_t events = 0;
    uint32_t host;

    assert_ok(seg_writer_create(&w, fio_unsynced(), catalogue_rig.dir, &info, &window_ns, NULL));
    meta_written_begin(catalogue_rig.written, window_ns);
    for (size_t i = 0; i < n; i++) {
        assert_ok(seg_writer_host(w, &host, &hw[i].host, hw[i].name, 0, window_ns,
                                  window_ns + WINDOW_NS));
        assert_ok(meta_value_write(w, catalogue_rig.packer, host, 0, &hw[i], catalogue_rig.written,
                                   &events));
    }
    assert_ok(meta_accounts_write(w, catalogue_rig.written));
    assert_ok(seg_writer_finish(w, events, &info, NULL));
    meta_written_keep(catalogue_rig.written);
    assert_ok(manifest_change(catalogue_rig.m, &info, 1, NULL, 0, NULL));
    manifest_publish(catalogue_rig.m);
    return info;
}

/* Without text, and without what lies between members: to be compared as bytes. */
void catalogue_rig_plain(struct proc_info *to, const struct proc_info *from)
{
    to->id.pid = from->id.pid;
    to->id.start = from->id.start;
    to->have = from->have;
    to->origin = from->origin;
    to->cpu_origin = from->cpu_origin;
    to->parent_pid = from->parent_pid;
    to->parent_start = from->parent_start;
    to->session_id = from->session_id;
    to->exit_code = from->exit_code;
    to->create_ns = from->create_ns;
    to->exit_ns = from->exit_ns;
}

enum err catalogue_rig_add(void *ctx, const struct uuid *boot, const struct proc_info *info,
                           int64_t seen_ns)
{
    struct catalogue_rig_rows *r = ctx;
    struct catalogue_rig_row *row = &r->at[r->n++];

    assert_true(r->n <= CATALOGUE_RIG_ROWS);
    memset(row, 0, sizeof *row);
    row->boot = *boot;
    catalogue_rig_plain(&row->info, info);
    (void)snprintf(row->name, CATALOGUE_RIG_NAME, "%.*s", (int)info->name.n, info->name.p);
    (void)snprintf(row->line, CATALOGUE_RIG_NAME, "%.*s", (int)info->command_line.n,
                   info->command_line.p);
    row->seen_ns = seen_ns;
    return ERR_OK;
}

struct catalogue_rig_rows *catalogue_rig_find(const struct catalogue_ask *ask)
{
    static struct catalogue_rig_rows r;

    r.n = 0;
    assert_ok(catalogue_find(catalogue_rig.c, ask, catalogue_rig_add, &r));
    return &r;
}
