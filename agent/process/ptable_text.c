#include "agent/process/ptable_text.h"

#include <string.h>

#include "common/base/mem.h"

/* At most `max` bytes, and no character cut in two. */
static size_t fit(struct str s, size_t max)
{
    size_t n = s.n;

    if (n <= max) {
        return n;
    }
    n = max;
    while (n > 0 && ((unsigned char)s.p[n] & 0xC0) == 0x80) {
        n--;
    }
    return n;
}

static void drop(struct ptable_text *t, struct str *s)
{
    if (s->p) {
        t->bytes -= s->n;
        mem_free((void *)(uintptr_t)s->p);
    }
    *s = (struct str){NULL, 0};
}

/* Replaces *own by a copy of `s`; gives whether it changed. What does not fit stays as it was. */
static bool set(struct ptable_text *t, struct str *own, struct str s, size_t max)
{
    char *copy;

    s.n = fit(s, max);
    if (s.n == 0 || str_eq(*own, s)) {
        return false;
    }
    if (t->bytes - own->n + s.n > t->max) {
        t->stats->text_full++;
        return false;
    }
    copy = mem_dup(s.p, s.n);
    if (!copy) {
        t->stats->nomem++;
        return false;
    }
    drop(t, own);
    *own = (struct str){copy, s.n};
    t->bytes += s.n;
    return true;
}

static bool is_sid(struct str s)
{
    return s.n > 4 && memcmp(s.p, "S-1-", 4) == 0;
}

bool ptable_text_set(struct ptable_text *t, struct proc_info *own, const struct proc_info *info)
{
    bool changed = false;

    changed |= set(t, &own->name, info->name, MODEL_TEXT_MAX);
    changed |= set(t, &own->image, info->image, MODEL_TEXT_MAX);
    /* Records tell the SID at the end too, when the account's name may be known already. */
    if (own->user.n == 0 || is_sid(own->user) || !is_sid(info->user)) {
        changed |= set(t, &own->user, info->user, MODEL_TEXT_MAX);
    }
    changed |= set(t, &own->command_line, info->command_line, MODEL_COMMAND_LINE_MAX);
    return changed;
}

void ptable_text_drop(struct ptable_text *t, struct proc_info *own)
{
    drop(t, &own->name);
    drop(t, &own->image);
    drop(t, &own->user);
    drop(t, &own->command_line);
}
