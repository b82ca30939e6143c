/* One-time tokens for enrolling: made, checked, used, withdrawn. Threads: any.
 * Errors of writing: those of ca_db_begin; all functions return them. Durable before ERR_OK. */
#ifndef PROCFLEET_COLLECTOR_CA_CA_TOKEN_H
#define PROCFLEET_COLLECTOR_CA_CA_TOKEN_H

#include "collector/ca/ca_db.h"

/* Makes a token for one enrolment, of what->names, again, made_ns and expires_ns; `text` is what
 * the operator carries to the host: it names the authority (pin) and proves the right, and is
 * written nowhere else (format: pki_token.h). Errors: ERR_INVALID (names) */
NODISCARD enum err ca_token_make(struct ca_db *db, const struct ca_token *what,
                                 const uint8_t pin[PKI_PIN_BYTES], char text[PKI_TOKEN_TEXT],
                                 struct errmsg *why);

/* What a token that may be used gives. */
struct ca_token_grant {
    bool chosen;   /* the token is for this very name, not for a pattern */
    bool has_host; /* again: this one; else the host gets an identity of its own */
    struct uuid host;
};

/* Whether it may be used for `name`; writes nothing.
 * Errors: ERR_NOTFOUND (no such token), ERR_EXISTS (used), ERR_TIMEOUT (expired), ERR_CLOSED
 * (withdrawn), ERR_REFUSED (name does not fit), ERR_ACCESS (another host has the name); why says it
 * with the remedy */
NODISCARD enum err ca_token_check(struct ca_db *db, struct ca_token_grant *grant,
                                  const struct pki_token *t, const char *name, int64_t now_ns,
                                  struct errmsg *why);

/* Uses it for a certificate that was made for it: one transaction writes both, so that it works
 * once, whatever crashes. Errors: as ca_token_check; ERR_BUSY (the grant has changed: try again) */
NODISCARD enum err ca_token_enroll(struct ca_db *db, const struct pki_token *t,
                                   const struct net_identity *who, int64_t now_ns,
                                   struct errmsg *why);

/* `id`: as it is shown. Errors: ERR_NOTFOUND, ERR_EXISTS (used) */
NODISCARD enum err ca_token_withdraw(struct ca_db *db, const char *id, struct errmsg *why);

/* For lists, oldest first; `each` returns false for enough. The database is not held while `each`
 * runs. */
NODISCARD enum err ca_token_list(struct ca_db *db,
                                 bool (*each)(void *ctx, const struct ca_token *t), void *ctx,
                                 struct errmsg *why);

#endif
