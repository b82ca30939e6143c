#include <string.h>

#include "collector/cmd/collector_cmd.h"
#include "collector/conf/collector_conf.h"
#include "collector/doctor/collector_doctor.h"
#include "common/base/clk.h"
#include "common/check/check_result.h"
#include "common/net/net.h"
#include "common/os/os.h"

#define CONNECT_NS (5 * CLK_S)

static const struct opt opts[] = {
    {"config", 'c', "FILE", "YAML file with the collector's settings", false},
    {"set", 's', "KEY=VALUE", "one setting, over the file's", true},
    {"cert", 0, "FILE",
     "certificate of role query or admin: the collector that runs is asked about its hosts' clocks "
     "and clones",
     false},
    {"key", 0, "FILE", "its key", false},
    {"ca", 0, "FILE", "its authority, if it is not that of tls.ca", false},
    {"collector", 0, "HOST:PORT", "where it is asked; default this machine, port of listen.query",
     false},
    {"format", 'f', "table|json|csv", "how it is printed; default table", false},
};

static int run(const struct opt_args *a);

const struct opt_command cmd_doctor_options = {
    .program = "procfleet-collector",
    .name = "doctor",
    .brief = "check what the collector needs on this machine, and say how to fix what is missing",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-collector doctor --config /etc/procfleet/collector.yaml\n"
                "  procfleet-collector doctor -c collector.yaml --cert alice.pem --key alice.key\n"
                "\nExit codes: 0 nothing failed (there may be warnings), 1 something failed, 2 "
                "usage\n",
    .action = &(const struct opt_action){.judge = run},
};

static enum err load(struct collector_conf *conf, const struct opt_args *a, struct errmsg *why)
{
    const char *sets[OPT_MANY_MAX];
    size_t n_sets = opt_values(a, "set", sets, OPT_MANY_MAX);

    if (!opt_value(a, "cert") != !opt_value(a, "key")) {
        *conf = (struct collector_conf){.source = NULL};
        return errmsg_set(why, ERR_USAGE, "--cert and --key need each other");
    }
    return collector_conf_load(conf, opt_value(a, "config"), sets, n_sets, why);
}

/* Settings that cannot be read are a finding, too. */
static void say_config(struct findings *all, const char *why)
{
    check_result_report(all, "config", CHECK_RESULT_FAILED,
                        "correct it; 'procfleet-collector config-sample' shows every key", "%s",
                        why);
}

static int examine(const struct opt_args *a, enum table_format format, struct errmsg *why)
{
    struct collector_conf conf;
    struct check_result_print report;
    struct findings all = {.found = check_result_print_found, .ctx = &report};
    enum err e = load(&conf, a, why), printed;
    struct collector_doctor_conf what = {.conf = &conf,
                                         .now_ns = os_utc_ns(),
                                         .connect_ns = CONNECT_NS,
                                         .ca = opt_value(a, "ca"),
                                         .cert = opt_value(a, "cert"),
                                         .key = opt_value(a, "key"),
                                         .address = opt_value(a, "collector")};

    if (e == ERR_USAGE || e == ERR_NOMEM || check_result_print_begin(&report, format)) {
        collector_conf_fini(&conf);
        return collector_cmd_complain(&cmd_doctor_options, e ? e : ERR_NOMEM, why->text);
    }
    if (e) {
        say_config(&all, why->text);
    } else if (net_init(why) == ERR_OK) {
        collector_doctor_run(&all, &what);
        net_fini();
    } else {
        check_result_report(&all, "net", CHECK_RESULT_FAILED, "use the library it was built with",
                            "%s", why->text);
    }
    printed = check_result_print_end(&report, &all);
    collector_conf_fini(&conf);
    if (printed) {
        return collector_cmd_complain(&cmd_doctor_options, printed, "cannot write the report");
    }
    return all.count[CHECK_RESULT_FAILED] > 0 ? COLLECTOR_CMD_FAILED : COLLECTOR_CMD_DONE;
}

static int run(const struct opt_args *a)
{
    struct errmsg why = {""};
    enum table_format format;
    enum err e = collector_cmd_format(&format, a, &why);

    return e ? collector_cmd_complain(&cmd_doctor_options, e, why.text) : examine(a, format, &why);
}
