#include "agent/decode/schema/schema_source.h"

#include "agent/decode/schema/known_schemas.h"
#include "agent/decode/schema/manifest_files.h"
#include "agent/decode/schema/schema_system.h"
#include "common/base/mem.h"

enum { SEEN_MANIFESTS, SEEN_TABLES }; /* of a provider, once each */

struct schema_source {
    struct manifest_files *manifests; /* NULL: none were given */
    struct schema_system *system;     /* NULL: not asked */
    struct schema *asked;             /* holds nothing but what was seen */
};

enum err schema_source_open(struct schema_source **out, const char *key, const char *path,
                            bool system, struct errmsg *why)
{
    struct schema_source *ss = mem_zalloc(sizeof *ss);
    enum err e = ss ? schema_create(&ss->asked, (size_t)1 << 20) : ERR_NOMEM;

    if (!e && path[0]) {
        e = manifest_files_create(&ss->manifests);
        e = e ? e : manifest_files_add(ss->manifests, key, path, why);
    }
    if (!e && system && schema_system_open(&ss->system) == ERR_NOMEM) {
        e = ERR_NOMEM;
    }
    if (e) {
        schema_source_close(ss);
        return e == ERR_NOMEM ? errmsg_set(why, e, "out of memory") : e;
    }
    *out = ss;
    return ERR_OK;
}

void schema_source_close(struct schema_source *ss)
{
    if (ss) {
        manifest_files_destroy(ss->manifests);
        schema_system_close(ss->system);
        schema_destroy(ss->asked);
        mem_free(ss);
    }
}

/* Whoever comes first stays. What cannot be read, or has no room, is not known. */
void schema_source_put(void *ctx, struct schema *s, const struct raw_event *raw)
{
    struct schema_source *ss = ctx;

    if (ss->manifests && schema_put_seen(ss->asked, raw->guid, SEEN_MANIFESTS) == ERR_OK) {
        err_ignore(manifest_files_put(ss->manifests, s, raw->guid, str_make("")));
    }
    if (ss->system && !schema_find_event(s, raw)) {
        err_ignore(schema_system_put(ss->system, s, raw));
    }
    if (!schema_find_event(s, raw) &&
        schema_put_seen(ss->asked, raw->guid, SEEN_TABLES) == ERR_OK) {
        err_ignore(known_schemas_put(s, raw->guid));
    }
}
