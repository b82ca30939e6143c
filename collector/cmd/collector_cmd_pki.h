/* What the commands of procfleet-collector pki share. */
#ifndef PROCFLEET_COLLECTOR_CMD_COLLECTOR_CMD_PKI_H
#define PROCFLEET_COLLECTOR_CMD_COLLECTOR_CMD_PKI_H

#include "collector/ca/ca_cert.h"
#include "collector/ca/ca_token.h"
#include "collector/cmd/collector_cmd.h"

#define COLLECTOR_CMD_PKI_DIR    "pki" /* of the authority, unless --dir says another */
#define COLLECTOR_CMD_PKI_DIRECT "where the authority is; default " COLLECTOR_CMD_PKI_DIR

/* The book of --dir. Errors: those of ca_db_open */
NODISCARD enum err collector_cmd_pki_book(struct ca_db **out, const struct opt_args *a,
                                          struct errmsg *why);

/* n bytes as lower-case digits; `text` has room for 2 n + 1. */
const char *collector_cmd_pki_hex(char *text, const uint8_t *p, size_t n);

extern const struct opt_command cmd_pki_issue_options, cmd_pki_token_options, cmd_pki_list_options,
    cmd_pki_revoke_options;

#endif
