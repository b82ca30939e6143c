/* Any text as the collector's configuration: refused with a reason, or read into settings that are
 * as the table promises. */
#include "collector/conf/collector_conf.h"
#include "common/base/clk.h"
#include "tests/fuzz/file_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check(const struct collector_conf *c)
{
    must(c->data_dir && c->data_dir[0] == '/' && c->ca && c->ca[0] == '/');
    must(c->cert && c->cert[0] == '/' && c->key && c->key[0] == '/');
    must(!c->crl || c->crl[0] == '/');
    must(c->log_file && (!c->log_file[0] || c->log_file[0] == '/'));
    must(c->pki_dir && (!c->pki_dir[0] || c->pki_dir[0] == '/'));
    must(c->ingest[0] && c->query[0] && c->events && c->enroll && c->http);
    must(c->hosts_max > 0 && c->processes_max > 0 && c->batch_bytes_max > 0);
    must(c->accept_age_ns > 0 && c->cert_life_ns > 0 && c->http_refresh_ns > 0);
    must(c->log_level <= LOG_DEBUG && c->log_format <= LOG_JSON);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct errmsg why = {""};
    struct collector_conf c;
    enum err e = collector_conf_load(&c, file_input(p, n), NULL, 0, &why);

    if (!e) {
        check(&c);
    } else {
        must(e == ERR_NOMEM || why.text[0]);
    }
    collector_conf_fini(&c);
    return 0;
}
