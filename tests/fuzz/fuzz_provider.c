/* Any text as a provider of etw.providers and as a choice of events.providers: it is refused with a
 * reason, or means what its text says: within its bounds, and each id, process and program of its
 * own filters passes, one that is not there does not. */
#include <stdlib.h>
#include <string.h>

#include "agent/forward/forward.h"
#include "agent/source/etw_provider.h"

#define TEXT_MAX 2048

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* Of the filter's parts: any, or the one that passes. */
static uint16_t id_of(const struct source_provider *p)
{
    return p->n_ids ? p->ids[p->n_ids - 1] : 1;
}

static uint32_t pid_of(const struct source_provider *p)
{
    return p->n_pids ? p->pids[p->n_pids - 1] : 4;
}

static bool has_id(const struct source_provider *p, unsigned id)
{
    for (size_t i = 0; i < p->n_ids; i++) {
        if (p->ids[i] == id) {
            return true;
        }
    }
    return p->n_ids == 0;
}

static void judge_provider(const struct source_provider *p)
{
    size_t first = strcspn(p->exe, ";");

    must(p->level <= 5 && p->n_ids <= SOURCE_PROVIDER_IDS && p->n_pids <= SOURCE_PROVIDER_PIDS);
    must(memchr(p->exe, 0, sizeof p->exe) && memchr(p->field, 0, sizeof p->field) &&
         memchr(p->value, 0, sizeof p->value));
    must((p->field[0] == 0) == (p->value[0] == 0) && (!p->field[0] || p->n_ids));
    must(!p->exe[0] || (first > 0 && p->exe[strlen(p->exe) - 1] != ';'));
    must(etw_provider_filters(p) == (p->n_ids || p->n_pids || p->exe[0] || p->field[0]));
    must(etw_provider_means(p, id_of(p), pid_of(p), p->exe, first));
    must(etw_provider_means(p, id_of(p), pid_of(p), "", 0));
    must(!p->exe[0] || !etw_provider_means(p, id_of(p), pid_of(p), "?", 1));
    for (unsigned id = 0; id < 70; id++) {
        must(etw_provider_means(p, (uint16_t)id, pid_of(p), "", 0) == has_id(p, id));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct source_provider provider;
    struct forward_choice choice;
    struct errmsg why = {""};
    char *text;
    enum err e;

    if (n > TEXT_MAX || !(text = malloc(n + 1))) { /* to its end and no further */
        return 0;
    }
    memcpy(text, p, n);
    text[n] = 0;
    e = etw_provider_parse(&provider, text, &why);
    if (!e) {
        judge_provider(&provider);
    } else {
        must((e == ERR_INVALID || e == ERR_NOTFOUND || e == ERR_UNSUPPORTED) && why.text[0]);
    }
    why.text[0] = 0;
    e = forward_choice_parse(&choice, text, &why);
    must(e ? e == ERR_INVALID && why.text[0]
           : choice.n_ids <= FORWARD_IDS_MAX &&
                 (choice.name.n == 0 || (choice.name.p == text && choice.name.n <= n)));
    free(text);
    return 0;
}
