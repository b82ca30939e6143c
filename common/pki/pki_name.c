/* What names may look like, and what a certificate of each use may carry. */
#include "common/pki/pki_impl.h"

#include <string.h>

#include "common/os/uuid.h"

#define DNS_NAME_MAX 253 /* bytes */
#define SCOPE_MAX    127 /* bytes */

#define FINGERPRINT_MIN 8 /* digits of one, as 'pki revoke' takes them */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* 1 to max characters, each a name's or one of `more`. */
static bool text_ok(const char *text, size_t max, const char *more)
{
    size_t n = text ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++) {
        if (!name_char(text[i]) && !strchr(more, text[i])) {
            return false;
        }
    }
    return n > 0 && n <= max;
}

bool pki_name_ok(const char *name)
{
    return text_ok(name, MODEL_HOST_NAME_MAX, "");
}

const char *pki_name_wrong(const char *name, bool chosen)
{
    struct uuid uuid;
    size_t n;

    if (!pki_name_ok(name)) {
        return "a name has 1 to 63 letters, digits, '.', '_' or '-'";
    }
    n = strlen(name);
    if (name[0] == '-' || name[n - 1] == '.') {
        return "a name begins with no '-' and ends in no '.'";
    }
    if (uuid_parse(&uuid, name) == ERR_OK ||
        (!chosen && n >= FINGERPRINT_MIN && strspn(name, "0123456789abcdefABCDEF") == n)) {
        return "it could be taken for a UUID or a fingerprint (8 hexadecimal digits or more, and "
               "nothing else): choose another name";
    }
    return NULL;
}

bool pki_authority_name_ok(const char *name)
{
    return text_ok(name, MODEL_HOST_NAME_MAX, " ") && name[0] != ' ' &&
           name[strlen(name) - 1] != ' ';
}

static const struct {
    const char *text;
    enum pki_use use;
} uses[] = {
    {"agent", PKI_AGENT}, {"query", PKI_QUERY},         {"subscribe", PKI_SUBSCRIBE},
    {"admin", PKI_ADMIN}, {"collector", PKI_COLLECTOR},
};

enum err pki_use_parse(enum pki_use *use, const char *text)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (strcmp(uses[i].text, text) == 0) {
            *use = uses[i].use;
            return ERR_OK;
        }
    }
    return ERR_INVALID;
}

const char *pki_use_text(enum pki_use use)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (uses[i].use == use) {
            return uses[i].text;
        }
    }
    return "?";
}

static enum err check_dns(const struct pki_issue *what, struct errmsg *why)
{
    if (what->n_dns > 0 && what->use != PKI_COLLECTOR) {
        return errmsg_set(why, ERR_INVALID, "only a collector's certificate carries DNS names");
    }
    if (what->n_dns > PKI_DNS_MAX) {
        return errmsg_set(why, ERR_INVALID, "at most %u DNS names fit", PKI_DNS_MAX);
    }
    for (size_t i = 0; i < what->n_dns; i++) {
        if (!text_ok(what->dns[i], DNS_NAME_MAX, ":")) {
            return errmsg_set(why, ERR_INVALID, "'%.80s' is neither a DNS name nor an IP address",
                              what->dns[i]);
        }
    }
    return ERR_OK;
}

enum err pki_issue_check(const struct pki_issue *what, struct errmsg *why)
{
    if (!pki_name_ok(what->name)) {
        return errmsg_set(why, ERR_INVALID,
                          "the name must be 1 to %d letters, digits, '.', '_' or "
                          "'-'",
                          MODEL_HOST_NAME_MAX);
    }
    if (what->life_ns <= 0) {
        return errmsg_set(why, ERR_INVALID, "the certificate must live longer than no time");
    }
    if (what->scope && what->use != PKI_QUERY && what->use != PKI_SUBSCRIBE) {
        return errmsg_set(why, ERR_INVALID, "only query and subscribe certificates have a scope");
    }
    if (what->scope && !text_ok(what->scope, SCOPE_MAX, "*?[]")) {
        return errmsg_set(why, ERR_INVALID,
                          "the scope must be a host name or glob of 1 to %d "
                          "letters, digits, '.', '_', '-', '*', '?', '[', ']'",
                          SCOPE_MAX);
    }
    if (what->has_host && what->use != PKI_AGENT) {
        return errmsg_set(why, ERR_INVALID, "only an agent's certificate carries a host identity");
    }
    return check_dns(what, why);
}
