/* Pages in mdoc, which both man and mandoc render. A page of a command holds the commands below it
 * too: `pki token create` is in that of pki. Notes become the end of the description, examples stay
 * as they are typed. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/conf/opt_program.h"

#define NAME_TEXT 128

/* -- text of the tables, as roff takes it -- */

/* Text that begins no request and holds no escape; n bytes. */
static void put_bytes(struct buf *out, const char *text, size_t n)
{
    static const struct {
        char c;
        const char *escape;
    } escapes[] = {{'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'~', "\\(ti"}, {'^', "\\(ha"}};
    size_t length;

    if (n && *text == '.') {
        buf_put_str(out, "\\&");
    }
    for (size_t i = 0; i < n; i += length) {
        const char *escape = NULL;

        length = 1;
        for (size_t k = 0; k < sizeof escapes / sizeof *escapes; k++) {
            escape = escapes[k].c == text[i] ? escapes[k].escape : escape;
        }
        if ((uint8_t)text[i] >= 0x80) {
            buf_printf(out, "\\[u%04X]", (unsigned)utf8_decode(text + i, n - i, &length));
        } else if (escape) {
            buf_put_str(out, escape);
        } else {
            buf_put_u8(out, (uint8_t)text[i]);
        }
    }
}

/* An argument of a macro: spaces would end it, and a bar or bracket of its own would be taken for
 * punctuation. */
static void put_argument(struct buf *out, const char *text)
{
    buf_put_str(out, "\\&");
    for (const char *c = text; *c; c++) {
        if (*c == ' ') {
            buf_put_str(out, "\\ ");
        } else {
            put_bytes(out, c, 1);
        }
    }
}

/* Lines of text, every sentence on a line of its own; an empty line begins a paragraph. */
static void put_lines(struct buf *out, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n"), blanks = strspn(text, " ");

        for (size_t i = blanks; i + 2 < n; i++) {
            if (text[i] == '.' && text[i + 1] == ' ' && isupper((unsigned char)text[i + 2])) {
                n = i + 1;
            }
        }
        if (n == 0) {
            buf_put_str(out, ".Pp\n");
        } else {
            put_bytes(out, text + blanks, n - blanks);
            buf_put_u8(out, '\n');
        }
        text += n + (text[n] == '\n');
    }
}

/* -- parts of a page -- */

static void put_flag(struct buf *out, const struct opt *o)
{
    buf_put_str(out, "Fl ");
    if (o->letter) {
        buf_printf(out, "%c , Fl ", o->letter);
    }
    buf_put_str(out, "\\-");
    put_bytes(out, o->name, strlen(o->name));
    if (o->value) {
        buf_put_str(out, " Ar ");
        put_argument(out, o->value);
    }
    buf_put_u8(out, '\n');
}

/* The words behind the program's name that call the command: "pki token create". */
static const char *behind(const struct opt_program *p, const struct opt_command *cmd, char *text,
                          size_t size)
{
    opt_call(text, size, cmd);
    return text + strlen(p->top->program) + 1;
}

static void put_synopsis(struct buf *out, const struct opt_program *p,
                         const struct opt_command *cmd)
{
    char call[OPT_CALL_TEXT];

    for (size_t i = 0; i < cmd->n_subs; i++) {
        put_synopsis(out, p, cmd->subs[i]); /* three deep at most */
    }
    if (opt_is_leaf(cmd)) {
        buf_printf(out, ".Nm %s\n.Cm ", p->top->program);
        put_bytes(out, behind(p, cmd, call, sizeof call),
                  strlen(behind(p, cmd, call, sizeof call)));
        buf_put_u8(out, '\n');
        for (size_t i = 0; i < cmd->n_opts; i++) {
            if (!cmd->opts[i].help) {
                continue;
            }
            buf_put_str(out, ".Op Fl ");
            if (cmd->opts[i].letter) {
                buf_printf(out, "%c", cmd->opts[i].letter);
            } else {
                buf_put_str(out, "\\-");
                put_bytes(out, cmd->opts[i].name, strlen(cmd->opts[i].name));
            }
            if (cmd->opts[i].value) {
                buf_put_str(out, " Ar ");
                put_argument(out, cmd->opts[i].value);
            }
            buf_put_u8(out, '\n');
        }
        if (cmd->operands) {
            buf_put_str(out, ".Ar ");
            put_argument(out, cmd->operands);
            buf_put_u8(out, '\n');
        }
    }
}

static void put_options(struct buf *out, const struct opt_command *cmd)
{
    static const struct opt help = {"help", 'h', NULL, "show this page", false};
    bool h = false;

    buf_put_str(out, "The options are as follows:\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i <= cmd->n_opts; i++) {
        struct opt o = i < cmd->n_opts ? cmd->opts[i] : help;

        h = h || (i < cmd->n_opts && o.letter == 'h');
        o.letter = i == cmd->n_opts && h ? 0 : o.letter;
        if (!o.help) {
            continue;
        }
        buf_put_str(out, ".It ");
        put_flag(out, &o);
        put_lines(out, o.help);
    }
    buf_put_str(out, ".El\n");
}

static void put_sets(struct buf *out, const struct opt_command *cmd)
{
    for (const struct opt_set *s = cmd->sets; s && s->name; s++) {
        if (!opt_set_is_shown(cmd, s)) {
            continue;
        }
        buf_put_str(out, ".Pp\n.Ar ");
        put_argument(out, s->name);
        buf_put_str(out, "\nis one of\n");
        for (size_t i = 0; s->word(i); i++) {
            put_bytes(out, s->word(i), strlen(s->word(i)));
            buf_put_str(out, s->word(i + 1) ? ",\n" : ".\n");
        }
    }
}

static void put_description(struct buf *out, const struct opt_command *cmd)
{
    const char *notes = opt_notes(cmd);

    if (notes) {
        put_lines(out, notes);
        buf_put_str(out, ".Pp\n");
    }
    put_options(out, cmd);
    put_sets(out, cmd);
}

/* The commands below, each a part of its own. */
static void put_below(struct buf *out, const struct opt_program *p, const struct opt_command *cmd)
{
    char call[OPT_CALL_TEXT];

    for (size_t i = 0; i < cmd->n_subs; i++) {
        const struct opt_command *sub = cmd->subs[i];

        if (!opt_is_leaf(sub)) {
            put_below(out, p, sub); /* three deep at most */
            continue;
        }
        buf_put_str(out, ".Ss ");
        put_bytes(out, behind(p, sub, call, sizeof call),
                  strlen(behind(p, sub, call, sizeof call)));
        buf_put_u8(out, '\n');
        put_lines(out, sub->brief);
        buf_put_str(out, ".Pp\n");
        put_description(out, sub);
    }
}

static void put_facts(struct buf *out, const char *title, const char *macro,
                      const struct opt_fact *f)
{
    if (!f || !f->name) {
        return;
    }
    buf_printf(out, ".Sh %s\n.Bl -tag -width Ds\n", title);
    for (; f->name; f++) {
        buf_printf(out, ".It %s", macro);
        put_argument(out, f->name);
        buf_put_u8(out, '\n');
        put_lines(out, f->text);
    }
    buf_put_str(out, ".El\n");
}

static void put_examples(struct buf *out, const struct opt_command *cmd)
{
    const char *notes = opt_notes(cmd);
    const char *text = cmd->examples;

    while (text && *text == ' ' && text != notes) {
        size_t n = strcspn(text, "\n"), blanks = strspn(text, " ");

        put_bytes(out, text + (blanks < 2 ? blanks : 2), n - (blanks < 2 ? blanks : 2));
        buf_put_u8(out, '\n');
        text += n + (text[n] == '\n');
    }
    for (size_t i = 0; i < cmd->n_subs && cmd->name; i++) {
        put_examples(out, cmd->subs[i]);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void put_see_also(struct buf *out, const struct opt_program *p,
                         const struct opt_command *cmd)
{
    char pages[OPT_MANY_MAX + 8][NAME_TEXT];
    const size_t max = sizeof pages / sizeof *pages;
    size_t n = 0;

    for (size_t i = 0; i < p->top->n_subs && !cmd && n < max; i++) {
        snprintf(pages[n++], NAME_TEXT, "%s-%s", p->top->program, p->top->subs[i]->name);
    }
    if (cmd) {
        snprintf(pages[n++], NAME_TEXT, "%s", p->top->program);
    }
    for (const struct opt_fact *f = p->see_also; f && f->name && n < max; f++) {
        snprintf(pages[n++], NAME_TEXT, "%s", f->name);
    }
    qsort(pages, n, sizeof *pages, by_name);
    buf_put_str(out, ".Sh SEE ALSO\n");
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, ".Xr %s 1%s\n", pages[i], i + 1 < n ? " ," : "");
    }
}

/* -- pages -- */

static void put_head(struct buf *out, const char *name, const char *brief)
{
    buf_put_str(out, ".Dd " PROCFLEET_DATE "\n.Dt ");
    for (const char *c = name; *c; c++) {
        buf_put_u8(out, (uint8_t)toupper((unsigned char)*c));
    }
    buf_printf(out, " 1\n.Os procfleet " PROCFLEET_VERSION "\n.Sh NAME\n.Nm %s\n.Nd ", name);
    put_bytes(out, brief, strlen(brief));
    buf_put_u8(out, '\n');
}

static void put_program(struct buf *out, const struct opt_program *p)
{
    const char *notes = opt_notes(p->top);

    put_head(out, p->top->program, p->top->brief);
    buf_printf(out,
               ".Sh SYNOPSIS\n.Nm %s\n.Ar COMMAND\n.Op Ar OPTION ...\n"
               ".Sh DESCRIPTION\nThe commands are as follows:\n.Bl -tag -width Ds\n",
               p->top->program);
    for (size_t i = 0; i < p->top->n_subs; i++) {
        buf_printf(out, ".It Cm %s\n", p->top->subs[i]->name);
        put_lines(out, p->top->subs[i]->brief);
    }
    buf_put_str(out, ".El\n");
    if (notes) {
        buf_put_str(out, ".Pp\n");
        put_lines(out, notes);
    }
}

static void put_command(struct buf *out, const struct opt_program *p, const struct opt_command *cmd)
{
    char name[NAME_TEXT];

    snprintf(name, sizeof name, "%s-%s", p->top->program, cmd->name);
    put_head(out, name, cmd->brief);
    buf_put_str(out, ".Sh SYNOPSIS\n");
    put_synopsis(out, p, cmd);
    buf_put_str(out, ".Sh DESCRIPTION\n");
    if (opt_is_leaf(cmd)) {
        put_description(out, cmd);
    } else {
        const char *notes = opt_notes(cmd);

        put_lines(out, notes ? notes : cmd->brief);
    }
    put_below(out, p, cmd);
}

void opt_man_print(struct buf *out, const struct opt_program *p, const struct opt_command *cmd)
{
    const struct opt_command *of = cmd ? cmd : p->top;

    if (cmd) {
        put_command(out, p, cmd);
    } else {
        put_program(out, p);
    }
    put_facts(out, "ENVIRONMENT", "Ev ", p->environment);
    put_facts(out, "FILES", "Pa ", p->files);
    put_facts(out, "EXIT STATUS", "", p->exits);
    if (of->examples && *of->examples == ' ') {
        buf_put_str(out, ".Sh EXAMPLES\n.Bd -literal -offset indent\n");
        put_examples(out, of);
        buf_put_str(out, ".Ed\n");
    }
    put_see_also(out, p, cmd);
}
