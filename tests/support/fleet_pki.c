#include "tests/support/fleet_pki.h"

#include <stdio.h>

#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"
#include "tests/support/fleet_agent.h"

#define AUTHORITY_LIFE_NS (3650 * 24 * 3600 * CLK_S)
#define LIFE_NS           (365 * 24 * 3600 * CLK_S)

static enum err path_make(char path[FLEET_PATH_MAX], const char *dir, const char *name,
                          const char *ending)
{
    int n = snprintf(path, FLEET_PATH_MAX, "%s/%s%s", dir, name, ending);

    return n > 0 && n < (int)FLEET_PATH_MAX ? ERR_OK : ERR_RANGE;
}

static enum err authority(struct fleet_keys *keys, const char *dir, struct errmsg *why)
{
    enum err e = path_make(keys->ca, dir, "ca", ".pem");

    if (!e) {
        e = os_mkdirs(dir, true);
    }
    if (e) {
        return errmsg_set(why, e, "%s: %s", dir, err_text(e));
    }
    return os_exists(keys->ca)
               ? ERR_OK
               : pki_authority_init(dir, "simulated fleet", os_utc_ns(), AUTHORITY_LIFE_NS, why);
}

static enum err have(struct fleet_keys *keys, const char *dir, const struct pki_issue *what,
                     struct errmsg *why)
{
    struct pki_issue full = *what;
    enum err e = authority(keys, dir, why);

    if (!e) {
        e = path_make(keys->cert, dir, what->name, ".pem");
    }
    if (!e) {
        e = path_make(keys->key, dir, what->name, ".key");
    }
    if (e || (os_exists(keys->cert) && os_exists(keys->key))) {
        return e;
    }
    err_ignore(os_remove(keys->cert)); /* what an interrupted run left */
    err_ignore(os_remove(keys->key));
    full.now_ns = os_utc_ns();
    full.life_ns = LIFE_NS;
    return pki_authority_issue(dir, &full, keys->cert, keys->key, why);
}

enum err fleet_pki_collector(struct fleet_keys *out, const char *dir, struct errmsg *why)
{
    struct pki_issue what = {.use = PKI_COLLECTOR, .name = "collector"};

    return have(out, dir, &what, why);
}

enum err fleet_pki_operator(struct fleet_keys *out, const char *dir, struct errmsg *why)
{
    struct pki_issue what = {.use = PKI_QUERY, .name = "operator"};

    return have(out, dir, &what, why);
}

enum err fleet_pki_tab(struct fleet_keys *out, const char *dir, unsigned n, struct errmsg *why)
{
    char name[32];
    struct pki_issue what = {.use = PKI_QUERY, .name = name};

    (void)snprintf(name, sizeof name, "tab-%u", n);
    return have(out, dir, &what, why);
}

enum err fleet_pki_subscriber(struct fleet_keys *out, const char *dir, struct errmsg *why)
{
    struct pki_issue what = {.use = PKI_SUBSCRIBE, .name = "subscriber"};

    return have(out, dir, &what, why);
}

enum err fleet_pki_agent(struct fleet_keys *out, const char *dir, uint64_t seed, struct errmsg *why)
{
    struct pki_issue what = {.use = PKI_AGENT, .has_host = true};
    char name[64];

    fleet_agent_host(seed, &what.host, name, sizeof name);
    what.name = name;
    return have(out, dir, &what, why);
}
