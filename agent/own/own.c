#include "agent/own/own.h"

#include <string.h>

#include "agent/own/own_write.h"
#include "common/base/mem.h"

#define OWN_ROWS   256 /* of the ledger */
#define OWN_TRAITS 64

struct own {
    struct own_write *write;
    struct own_event event;
    uint8_t traits[OWN_TRAITS];
    uint64_t told[OWN_ROWS];
    bool begun; /* told is of an earlier moment */
};

enum err own_open(struct own **out)
{
    static const uint8_t guid[16] = OWN_GUID;
    struct own *o = mem_zalloc(sizeof *o);
    enum err e;

    if (!o) {
        return ERR_NOMEM;
    }
    e = own_write_open(&o->write, guid, o->traits,
                       own_event_traits(o->traits, sizeof o->traits, OWN_PROVIDER));
    if (e) {
        mem_free(o);
        return e;
    }
    *out = o;
    return ERR_OK;
}

void own_close(struct own *o)
{
    if (o) {
        own_write_close(o->write);
        mem_free(o);
    }
}

bool own_listens(const struct own *o)
{
    return o && own_write_listens(o->write);
}

static void own_tell_as(struct own *o, uint8_t opcode, const char *name,
                        const struct own_field *fields, size_t n)
{
    if (own_listens(o)) {
        own_event_make(&o->event, name, fields, n);
        o->event.opcode = opcode;
        own_write_event(o->write, &o->event);
    }
}

static void own_tell(struct own *o, const char *name, const struct own_field *fields, size_t n)
{
    own_tell_as(o, 0, name, fields, n);
}

static struct own_field own_text(const char *name, struct str text)
{
    return (struct own_field){.name = name, .kind = OWN_TEXT, .text = text};
}

static struct own_field own_number(const char *name, uint64_t v)
{
    return (struct own_field){.name = name, .number = v};
}

void own_mark(struct own *o, struct str text, struct str run)
{
    const struct own_field fields[] = {own_text("text", text), own_text("run", run)};

    own_tell(o, "Mark", fields, 2);
}

void own_level(struct own *o, unsigned from, unsigned to, const char *cause)
{
    const struct own_field fields[] = {own_number("from", from), own_number("to", to),
                                       own_text("cause", str_make(cause))};

    own_tell(o, "Level", fields, 3);
}

void own_source(struct own *o, const char *name, struct str text)
{
    const struct own_field fields[] = {own_text("name", str_make(name)), own_text("text", text)};

    own_tell(o, "Source", fields, 2);
}

void own_image(struct own *o, const struct own_image *i)
{
    const struct own_field fields[] = {
        own_number("ProcessId", i->pid),
        own_number("ImageBase", i->base),
        own_number("ImageSize", i->size),
        own_number("TimeDateStamp", i->stamp),
        {.name = "GuidSig", .kind = OWN_ID, .text = {(const char *)i->rsds, sizeof i->rsds}},
        own_number("Age", i->age),
        own_text("PDBFileName", i->pdb),
        own_text("FileName", i->path)};

    own_tell_as(o, ETW_OWN_IMAGE, "Image", fields, sizeof fields / sizeof *fields);
}

void own_schema(struct own *o, uint8_t opcode, const void *p, size_t n)
{
    const struct own_field field = {.name = "Info", .kind = OWN_BYTES, .text = {p, n}};

    if (n <= OWN_SCHEMA_MAX) {
        own_tell_as(o, opcode, "Schema", &field, 1);
    }
}

void own_losses(struct own *o, const struct ledger_row *rows, size_t n)
{
    for (size_t i = 0; o && i < n && i < OWN_ROWS; i++) {
        if (o->begun && rows[i].count > o->told[i] && ledger_is_loss(&rows[i])) {
            const struct own_field fields[] = {own_text("stage", rows[i].stage),
                                               own_text("reason", rows[i].reason),
                                               own_number("count", rows[i].count - o->told[i])};

            own_tell(o, "Loss", fields, 3);
        }
        o->told[i] = rows[i].count;
    }
    if (o) {
        o->begun = true;
    }
}
