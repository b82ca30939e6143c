/* The collector on a file layer that keeps in memory what was not synced: kill -9 is a power cut to
 * it. Takes the arguments of `procfleet-collector run`; ends only by being killed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collector/cmd/collector_cmd.h"
#include "collector/collector.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"

static void check(enum err e, const struct errmsg *why)
{
    if (e) {
        fprintf(stderr, "forgetful-collector: %s\n", why->text[0] ? why->text : err_text(e));
        exit(1);
    }
}

static void write_ports(const struct collector *c, const char *path)
{
    struct collector_ports p = collector_ports(c);
    struct errmsg none = {""};
    char text[128];
    int n = snprintf(text, sizeof text, "ingest=%u\nquery=%u\nevents=%u\n", p.ingest, p.query,
                     p.events);

    check(os_write_file(path, text, (size_t)n, false), &none);
}

int main(int argc, char **argv)
{
    const char *sets[OPT_MANY_MAX];
    struct collector_conf conf;
    struct opt_args *args = NULL;
    struct fio_fault *layer = NULL;
    struct errmsg why = {""};
    struct collector *c;

    check(opt_parse(&args, &cmd_run_options, argc - 2, argv + 2, &why), &why);
    check(collector_conf_load(&conf, opt_value(args, "config"), sets,
                              opt_values(args, "set", sets, OPT_MANY_MAX), &why),
          &why);
    check(fio_fault_create(&layer), &why);
    conf.fio = fio_fault_fio(layer);
    check(log_open(conf.log_level, conf.log_format, conf.log_file), &why);
    check(collector_start(&c, &conf, &why), &why);
    write_ports(c, opt_value(args, "ports-file"));
    for (;;) {
        pause();
    }
}
