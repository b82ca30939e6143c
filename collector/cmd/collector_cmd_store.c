/* procfleet-collector store: what is on disk. */
#include "collector/cmd/collector_cmd_store.h"

#include "common/base/mem.h"
#include "common/os/os.h"

static const struct opt_command *const subs[] = {&cmd_store_stats_options, &cmd_store_check_options,
                                                 &cmd_store_export_options};

static int (*const mains[])(int, char **) = {collector_cmd_store_stats, collector_cmd_store_check,
                                             collector_cmd_store_export};

const struct opt_command cmd_store_options = {
    .program = "procfleet-collector",
    .name = "store",
    .brief = "look at the store on disk, also while the collector runs; check and mend it",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet-collector store stats --config /etc/procfleet/collector.yaml\n"
                "  procfleet-collector store check --config /etc/procfleet/collector.yaml\n",
};

int collector_cmd_store(int argc, char **argv)
{
    static const struct collector_cmd_group group = {&cmd_store_options, mains};

    return collector_cmd_group_run(&group, argc, argv);
}

/* -- what the commands share -- */

enum err collector_cmd_store_open(struct collector_cmd_store *s, const struct opt_args *a,
                                  struct errmsg *why)
{
    const char *sets[OPT_MANY_MAX];
    size_t n_sets = opt_values(a, "set", sets, OPT_MANY_MAX);
    struct manifest_conf conf = {.fio = fio_os()};
    enum err e;

    *s = (struct collector_cmd_store){.dir = NULL};
    e = collector_conf_load(&s->conf, opt_value(a, "config"), sets, n_sets, why);
    if (e) {
        return e == ERR_NOMEM ? e : ERR_USAGE; /* also a file that is not there */
    }
    s->dir = os_path_join(s->conf.data_dir, "segments");
    if (!s->dir) {
        return ERR_NOMEM;
    }
    conf.dir = s->dir;
    if (!os_exists(s->dir)) {
        return errmsg_set(why, ERR_NOTFOUND, "there is no store in %s: see --config and --set",
                          s->conf.data_dir);
    }
    e = manifest_open_reader(&s->m, &conf, why);
    if (!e) {
        s->l = manifest_view(s->m);
        e = s->l ? ERR_OK : ERR_NOMEM;
    }
    return e;
}

void collector_cmd_store_close(struct collector_cmd_store *s)
{
    manifest_list_release(s->l);
    manifest_close(s->m);
    mem_free(s->dir);
    collector_conf_fini(&s->conf);
}

/* -- sizes -- */

struct sizes {
    const char *dir;
    uint64_t bytes;
};

/* What goes meanwhile does not count. */
static enum err add_file(void *ctx, const char *name)
{
    struct sizes *s = ctx;
    const struct fio *fio = fio_os();
    char *path = os_path_join(s->dir, name);
    struct fio_file *f;
    uint64_t bytes;

    if (path && fio->open(fio->ctx, &f, path) == ERR_OK) {
        if (fio->size(fio->ctx, f, &bytes) == ERR_OK) {
            s->bytes += bytes;
        }
        fio->close(fio->ctx, f);
    }
    mem_free(path);
    return ERR_OK;
}

uint64_t collector_cmd_store_dir_bytes(const struct collector_cmd_store *s, const char *name)
{
    char *dir = os_path_join(s->conf.data_dir, name);
    struct sizes sizes = {.dir = dir};

    if (dir) {
        err_ignore(os_list_dir(dir, add_file, &sizes));
    }
    mem_free(dir);
    return sizes.bytes;
}
