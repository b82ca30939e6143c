#include "agent/privacy/filter.h"

#include <string.h>

#include "agent/privacy/redact.h"
#include "common/base/mem.h"

struct filter {
    enum filter_policy policy;
    bool hide_user;
    size_t n_words;
    char *words[FILTER_WORDS_MAX];
    struct filter_stats stats;
    struct redact redact;
    char line[MODEL_COMMAND_LINE_MAX];
};

enum err filter_check_word(const char *word)
{
    return redact_check_word(word);
}

enum err filter_create(struct filter **out, const struct filter_conf *conf)
{
    struct filter *f;

    if (conf->n_words > FILTER_WORDS_MAX) {
        return ERR_FULL;
    }
    f = mem_zalloc(sizeof *f);
    if (!f) {
        return ERR_NOMEM;
    }
    f->policy = conf->command_line;
    f->hide_user = conf->hide_user;
    for (size_t i = 0; i < conf->n_words; i++) {
        if (filter_check_word(conf->words[i])) {
            filter_destroy(f);
            return ERR_INVALID;
        }
        f->words[i] = mem_strdup(conf->words[i]);
        if (!f->words[i]) {
            filter_destroy(f);
            return ERR_NOMEM;
        }
        f->n_words = i + 1;
    }
    f->redact = (struct redact){.words = (const char *const *)f->words,
                                .n_words = f->n_words,
                                .out = f->line,
                                .room = sizeof f->line};
    *out = f;
    return ERR_OK;
}

void filter_destroy(struct filter *f)
{
    if (!f) {
        return;
    }
    for (size_t i = 0; i < f->n_words; i++) {
        mem_free(f->words[i]);
    }
    mem_free(f);
}

const struct filter_stats *filter_stats(const struct filter *f)
{
    return &f->stats;
}

enum err filter_policy_parse(enum filter_policy *out, const char *text)
{
    static const char *const names[] = {"none", "exe", "redact", "full"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum filter_policy)i;
            return ERR_OK;
        }
    }
    return ERR_INVALID;
}

void filter_info(struct filter *f, const struct proc_info *in, struct proc_info *out)
{
    static const uint32_t about_line = INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT;

    *out = *in;
    if (f->hide_user) {
        out->user = str_make("");
    }
    if (f->policy == FILTER_FULL || in->command_line.n == 0) {
        return;
    }
    f->redact.n = 0;
    f->redact.cut = false;
    f->redact.open_end = (in->have & INFO_COMMAND_LINE_CUT) != 0;
    switch (f->policy) {
    case FILTER_NONE:
        out->have &= ~about_line;
        f->stats.withheld++;
        break;
    case FILTER_EXE:
        redact_put(&f->redact, in->command_line.p, redact_first(in->command_line));
        f->stats.withheld++;
        break;
    default:
        redact_line(&f->redact, in->command_line);
        f->stats.redacted = f->redact.hidden;
        break;
    }
    if (f->redact.cut) {
        out->have |= INFO_COMMAND_LINE_CUT;
    }
    out->command_line = (struct str){f->line, f->redact.n};
}
