/* Any bytes as a certificate request, as a certificate whose holder proves its key, and as a
 * certificate whose names are read. A certificate that comes out of it must be what the signer
 * decided. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/net/net.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"
#include "common/pki/pki_key.h"
#include "tests/support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* Made once, and its directory removed at once. */
static struct pki_authority *authority(void)
{
    static struct pki_authority *a;

    if (!a) {
        char dir[256];
        struct errmsg why;

        support_temp_dir(dir, sizeof dir);
        must(pki_authority_init(dir, "fuzz", os_utc_ns(), 3600 * CLK_S, &why) == ERR_OK);
        must(pki_authority_open(&a, dir, &why) == ERR_OK);
        support_remove_dir(dir);
    }
    return a;
}

static void try_request(const uint8_t *p, size_t n)
{
    struct pki_issue what = {.use = PKI_AGENT,
                             .name = "web-01",
                             .has_host = true,
                             .host = {{7}},
                             .now_ns = os_utc_ns(),
                             .life_ns = 60 * CLK_S};
    struct net_identity who;
    struct errmsg why;
    struct buf der;

    buf_init(&der, 8192);
    if (pki_authority_sign(&der, authority(), &what, p, n, &why) == ERR_OK) {
        must(tls_cert_parse(&who, der.p, der.n) == ERR_OK);
        must(strcmp(who.name, "web-01") == 0 && who.roles == NET_AGENT && !who.scope[0]);
        must(memcmp(&who.host, &what.host, sizeof who.host) == 0);
    }
    buf_fini(&der);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct net_identity who;

    try_request(p, n);
    must(pki_authority_check_proof(authority(), p, n, "x", 1, p, n) != ERR_OK);
    if (tls_cert_parse(&who, p, n) == ERR_OK) {
        must(pki_name_ok(who.name));
    }
    return 0;
}
