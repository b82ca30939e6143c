#include "agent/etl/stack/etl_stack_out.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/text/jsonw.h"

#define DEPTH_MAX  4096
#define RECT_MIN   2000 /* a rectangle is at least 1 / so much of the whole */
#define LIST_MAX   1000 /* names in the page's list */
#define RECTS_MAX  20000
#define MESSAGE    ((size_t)64 << 10)
#define ROW_PIXELS 17

/* Frames from the outermost to the node; gives their number. */
static size_t path_of(const struct etl_stack_tree *t, uint32_t node, uint32_t path[DEPTH_MAX])
{
    size_t n = 0, depth = 0;

    for (uint32_t i = node; i && depth < DEPTH_MAX; i = t->nodes[i].parent) {
        depth++;
    }
    for (n = depth; n > 0; node = t->nodes[node].parent) {
        path[--n] = t->nodes[node].frame;
    }
    return depth;
}

enum err etl_stack_out_sums(const struct etl_stack_tree *t, uint64_t *self, uint64_t *total)
{
    uint64_t *totals = etl_stack_tree_totals(t);

    if (!totals) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 1; i < t->n; i++) {
        uint32_t up = t->nodes[i].parent;

        self[t->nodes[i].frame] += t->nodes[i].weight;
        while (up && t->nodes[up].frame != t->nodes[i].frame) {
            up = t->nodes[up].parent;
        }
        if (!up) {
            total[t->nodes[i].frame] += totals[i];
        }
    }
    mem_free(totals);
    return ERR_OK;
}

/* -- folded -- */

static void put_folded(FILE *to, struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        fputc(name.p[i] == ';' ? ':' : name.p[i], to); /* it would end the frame */
    }
}

static bool put_path(const struct etl_stack_out *o, const struct etl_stack_tree *t, uint32_t node)
{
    uint32_t path[DEPTH_MAX];
    size_t n = path_of(t, node, path);

    for (size_t k = 0; k < n; k++) {
        if (k) {
            fputc(';', o->to);
        }
        put_folded(o->to, o->names[path[k]]);
    }
    return n > 0;
}

void etl_stack_out_folded(const struct etl_stack_out *o)
{
    for (uint32_t i = 1; i < o->tree->n; i++) {
        if (o->tree->nodes[i].weight && put_path(o, o->tree, i)) {
            fprintf(o->to, " %llu\n", (unsigned long long)o->tree->nodes[i].weight);
        }
    }
}

enum err etl_stack_out_difference(const struct etl_stack_out *o, struct etl_stack_tree *now,
                                  const struct etl_stack_tree *before)
{
    size_t room = now->n + before->n;
    uint32_t *place = mem_array(before->n, sizeof *place);
    uint64_t *weights = mem_array(room, sizeof *weights);
    enum err e = place && weights ? ERR_OK : ERR_NOMEM;

    for (uint32_t i = 1; i < before->n && !e; i++) {
        const struct etl_stack_node *from = &before->nodes[i];

        place[i] = etl_stack_tree_child(now, place[from->parent], from->frame);
        weights[place[i]] += from->weight;
    }
    for (uint32_t i = 1; i < now->n && !e; i++) {
        if ((now->nodes[i].weight || weights[i]) && put_path(o, now, i)) {
            fprintf(o->to, " %llu %llu\n", (unsigned long long)weights[i],
                    (unsigned long long)now->nodes[i].weight);
        }
    }
    mem_free(place);
    mem_free(weights);
    return e;
}

/* -- speedscope -- */

/* Its schema has numbers alone, however large they are. */
static void put_weight(struct jsonw *j, const char *key, uint64_t v)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    jsonw_raw(j, key, text);
}

enum err etl_stack_out_speedscope(const struct etl_stack_out *o)
{
    uint64_t *totals = etl_stack_tree_totals(o->tree);
    uint32_t path[DEPTH_MAX];
    struct jsonw j;

    if (!totals) {
        return ERR_NOMEM;
    }
    jsonw_init(&j, o->to, 0);
    jsonw_object(&j, NULL);
    jsonw_text(&j, "$schema", str_make("https://www.speedscope.app/file-format-schema.json"));
    jsonw_text(&j, "exporter", str_make("procfleet-etl " PROCFLEET_VERSION));
    jsonw_text(&j, "name", o->title);
    jsonw_object(&j, "shared");
    jsonw_array(&j, "frames");
    for (size_t i = 0; i < o->n_names; i++) {
        jsonw_object(&j, NULL);
        jsonw_text(&j, "name", o->names[i]);
        jsonw_end(&j);
    }
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_array(&j, "profiles");
    jsonw_object(&j, NULL);
    jsonw_text(&j, "type", str_make("sampled"));
    jsonw_text(&j, "name", str_make(o->what));
    jsonw_text(&j, "unit", str_make(strcmp(o->unit, "count") == 0 ? "none" : o->unit));
    jsonw_uint(&j, "startValue", 0);
    put_weight(&j, "endValue", totals[0]);
    jsonw_array(&j, "samples");
    for (uint32_t i = 1; i < o->tree->n; i++) {
        if (o->tree->nodes[i].weight) {
            size_t n = path_of(o->tree, i, path);

            jsonw_array(&j, NULL);
            for (size_t k = 0; k < n; k++) {
                jsonw_uint(&j, NULL, path[k]);
            }
            jsonw_end(&j);
        }
    }
    jsonw_end(&j);
    jsonw_array(&j, "weights");
    for (uint32_t i = 1; i < o->tree->n; i++) {
        if (o->tree->nodes[i].weight) {
            put_weight(&j, NULL, o->tree->nodes[i].weight);
        }
    }
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_end(&j);
    fputc('\n', o->to);
    mem_free(totals);
    return ERR_OK;
}

/* -- pprof: profile.proto -- */

enum { WIRE_VARINT, WIRE_BYTES = 2 };
enum { TEXT_NONE, TEXT_WHAT, TEXT_COUNT, TEXT_WEIGHT, TEXT_UNIT, TEXTS }; /* then the names */

static void field(struct buf *b, unsigned number, uint64_t v)
{
    buf_put_varint(b, number << 3 | WIRE_VARINT);
    buf_put_varint(b, v);
}

/* A message of the profile goes out as soon as it is whole. */
static void message(const struct etl_stack_out *o, unsigned number, const void *p, size_t n)
{
    uint8_t room[20];
    struct buf head = {.p = room, .cap = sizeof room, .max = sizeof room};

    buf_put_varint(&head, number << 3 | WIRE_BYTES);
    buf_put_varint(&head, n);
    fwrite(head.p, 1, head.n, o->to);
    if (n) {
        fwrite(p, 1, n, o->to);
    }
}

static void number_out(const struct etl_stack_out *o, unsigned number, uint64_t v)
{
    uint8_t room[20];
    struct buf b = {.p = room, .cap = sizeof room, .max = sizeof room};

    field(&b, number, v);
    fwrite(b.p, 1, b.n, o->to);
}

static void put_type(const struct etl_stack_out *o, struct buf *b, unsigned type, unsigned unit)
{
    buf_reset(b);
    field(b, 1, type);
    field(b, 2, unit);
    message(o, 1, b->p, b->n);
}

static void put_sample(const struct etl_stack_out *o, struct buf *b, uint32_t node)
{
    const struct etl_stack_tree *t = o->tree;

    buf_reset(b);
    for (uint32_t i = node; i; i = t->nodes[i].parent) { /* the innermost first */
        field(b, 1, t->nodes[i].frame + 1);
    }
    field(b, 2, t->nodes[node].count);
    field(b, 2, t->nodes[node].weight);
    message(o, 2, b->p, b->n);
}

static void put_place(const struct etl_stack_out *o, struct buf *b, size_t i)
{
    buf_reset(b);
    field(b, 1, i + 1);
    buf_put_varint(b, 4 << 3 | WIRE_BYTES); /* a line, of the function alone */
    {
        uint8_t room[20];
        struct buf line = {.p = room, .cap = sizeof room, .max = sizeof room};

        field(&line, 1, i + 1);
        buf_put_varint(b, line.n);
        buf_put(b, line.p, line.n);
    }
    message(o, 4, b->p, b->n);
    buf_reset(b);
    field(b, 1, i + 1);
    field(b, 2, TEXTS + i);
    field(b, 3, TEXTS + i);
    message(o, 5, b->p, b->n);
}

enum err etl_stack_out_pprof(const struct etl_stack_out *o)
{
    const char *const texts[TEXTS] = {"", o->what, "count", "weight", o->unit};
    struct buf b;
    enum err e;

    buf_init(&b, MESSAGE);
    put_type(o, &b, TEXT_WHAT, TEXT_COUNT);
    put_type(o, &b, TEXT_WEIGHT, TEXT_UNIT);
    for (uint32_t i = 1; i < o->tree->n; i++) {
        if (o->tree->nodes[i].count) {
            put_sample(o, &b, i);
        }
    }
    for (size_t i = 0; i < o->n_names; i++) {
        put_place(o, &b, i);
    }
    for (size_t i = 0; i < TEXTS; i++) {
        message(o, 6, texts[i], strlen(texts[i]));
    }
    for (size_t i = 0; i < o->n_names; i++) {
        message(o, 6, o->names[i].p, o->names[i].n);
    }
    number_out(o, 9, (uint64_t)o->start_ns);
    number_out(o, 10, (uint64_t)o->span_ns);
    e = b.bad;
    buf_fini(&b);
    return e;
}

/* -- HTML -- */

static const char page_head[] =
    "<!doctype html><html lang=en><meta charset=utf-8>"
    "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src "
    "'unsafe-inline'; script-src 'unsafe-inline'\">"
    "<meta name=viewport content='width=device-width'><title>";

static const char page_style[] =
    "</title><style>body{font:13px system-ui,sans-serif;margin:1em;color:#222;background:#fff}"
    "#g{position:relative;overflow:hidden;border-bottom:1px solid #ccc}"
    "#g i{position:absolute;height:16px;overflow:hidden;white-space:nowrap;font-style:normal;"
    "font-size:11px;line-height:16px;padding-left:2px;box-sizing:border-box;border-right:1px solid "
    "#fff;cursor:pointer;border-radius:2px}#g i.f{outline:2px solid #06c}#g i.h{display:none}"
    "table{border-collapse:collapse;margin-top:1em}td,th{padding:1px 10px 1px 0;text-align:right}"
    "td:first-child,th:first-child{text-align:left;word-break:break-all}"
    "@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}#g i{color:#111}}"
    "</style><h1>";

static const char page_script[] =
    "<script>'use strict';const g=document.getElementById('g'),r=[...g.children].map(e=>({e,"
    "l:parseFloat(e.style.left),w:parseFloat(e.style.width),t:parseInt(e.style.top)}));"
    "function zoom(a){for(const x of r){const inside=x.l>=a.l-1e-6&&x.l+x.w<=a.l+a.w+1e-6,"
    "above=x.t<a.t&&x.l<=a.l+1e-6&&x.l+x.w>=a.l+a.w-1e-6;x.e.classList.toggle('h',!inside&&"
    "!above);x.e.style.left=(above?0:(x.l-a.l)/a.w*100)+'%';x.e.style.width=(above?100:x.w/a.w*"
    "100)+'%'}}for(const x of r)x.e.onclick=()=>zoom(x);"
    "document.getElementById('all').onclick=()=>zoom({l:0,w:100,t:-1});"
    "document.getElementById('q').oninput=v=>{const q=v.target.value.toLowerCase();"
    "for(const x of r)x.e.classList.toggle('f',q!==''&&x.e.title.toLowerCase().includes(q));"
    "for(const t of document.querySelectorAll('tbody tr'))t.hidden=q!==''&&"
    "!t.cells[0].textContent.toLowerCase().includes(q)};"
    "document.getElementById('c').hidden=false;</script></html>\n";

static void put_html(FILE *to, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'') {
            fprintf(to, "&#%u;", (unsigned)c);
        } else {
            fputc(c, to);
        }
    }
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

struct rect {
    uint64_t from; /* left edge */
    uint64_t used; /* by its callees so far */
    uint32_t depth;
};

static void put_rect(const struct etl_stack_out *o, uint32_t i, const struct rect *r,
                     uint64_t total, uint64_t whole)
{
    struct str name = o->names[o->tree->nodes[i].frame];
    unsigned hue = 0;

    for (size_t k = 0; k < name.n; k++) {
        hue = (hue * 31 + (unsigned char)name.p[k]) & 0xFFFF;
    }
    fprintf(o->to,
            "<i style=\"left:%.4f%%;width:%.4f%%;top:%upx;background:hsl(%u 80%% %u%%)\" title=\"",
            share(r->from, whole), share(total, whole), (r->depth - 1) * ROW_PIXELS, hue % 60,
            65 + hue / 60 % 12);
    put_html(o->to, name);
    fprintf(o->to, " (%llu, %.2f %%)\">", (unsigned long long)total, share(total, whole));
    put_html(o->to, name);
    fputs("</i>", o->to);
}

/* Rectangles, callees below their caller. What is too narrow to be seen is left out; gives how many
 * were. */
static size_t put_graph(const struct etl_stack_out *o, const uint64_t *totals, struct rect *rects)
{
    uint32_t deepest = 0;
    size_t shown = 0, hidden = 0;

    for (unsigned pass = 0; pass < 2; pass++) { /* the height is wanted first */
        memset(rects, 0, o->tree->n * sizeof *rects);
        for (uint32_t i = 1; i < o->tree->n; i++) {
            struct rect *up = &rects[o->tree->nodes[i].parent], *r = &rects[i];

            r->from = up->from + up->used;
            r->depth = up->depth + 1;
            up->used += totals[i];
            if (!totals[i]) {
                continue;
            }
            if (totals[i] < totals[0] / RECT_MIN || shown >= RECTS_MAX) {
                hidden += pass;
            } else if (pass == 0) {
                deepest = r->depth > deepest ? r->depth : deepest;
            } else {
                put_rect(o, i, r, totals[i], totals[0]);
                shown++;
            }
        }
        if (pass == 0) {
            fprintf(o->to, "<div id=g style=\"height:%upx\">", deepest * ROW_PIXELS);
        }
    }
    fputs("</div>", o->to);
    return hidden;
}

struct listed {
    uint64_t self, total;
    size_t name;
};

static int by_self(const void *pa, const void *pb)
{
    const struct listed *a = pa, *b = pb;

    if (a->self != b->self) {
        return a->self > b->self ? -1 : 1;
    }
    if (a->total != b->total) {
        return a->total > b->total ? -1 : 1;
    }
    return (a->name > b->name) - (a->name < b->name);
}

static void put_list(const struct etl_stack_out *o, struct listed *list, uint64_t whole)
{
    qsort(list, o->n_names, sizeof *list, by_self);
    fprintf(o->to, "<table><thead><tr><th>frame<th>self<th>%%<th>total<th>%%</thead><tbody>");
    for (size_t i = 0; i < o->n_names && i < LIST_MAX && list[i].total; i++) {
        fputs("<tr><td>", o->to);
        put_html(o->to, o->names[list[i].name]);
        fprintf(o->to, "<td>%llu<td>%.2f<td>%llu<td>%.2f", (unsigned long long)list[i].self,
                share(list[i].self, whole), (unsigned long long)list[i].total,
                share(list[i].total, whole));
    }
    fputs("</table>", o->to);
}

static void put_page(const struct etl_stack_out *o, const uint64_t *totals, struct rect *rects,
                     struct listed *list)
{
    size_t hidden;

    fputs(page_head, o->to);
    put_html(o->to, o->title);
    fputs(page_style, o->to);
    put_html(o->to, o->title);
    fprintf(o->to, "</h1><p>%llu %s (%s), by call stack: callees below their callers.",
            (unsigned long long)totals[0], o->what, o->unit);
    fputs("<p id=c hidden><input id=q type=search placeholder=\"search\"> <button id=all>whole "
          "graph</button> a click on a frame enlarges it</p>",
          o->to);
    hidden = put_graph(o, totals, rects);
    if (hidden) {
        fprintf(o->to, "<p>%zu narrower frames are not drawn.", hidden);
    }
    put_list(o, list, totals[0]);
    fputs(page_script, o->to);
}

enum err etl_stack_out_html(const struct etl_stack_out *o)
{
    uint64_t *totals = etl_stack_tree_totals(o->tree);
    struct rect *rects = mem_array(o->tree->n, sizeof *rects);
    size_t n = o->n_names ? o->n_names : 1;
    uint64_t *self = mem_array(n, sizeof *self), *total = mem_array(n, sizeof *total);
    struct listed *list = mem_array(n, sizeof *list);
    enum err e = totals && rects && self && total && list ? ERR_OK : ERR_NOMEM;

    e = e ? e : etl_stack_out_sums(o->tree, self, total);
    if (!e) {
        for (size_t i = 0; i < o->n_names; i++) {
            list[i] = (struct listed){self[i], total[i], i};
        }
        put_page(o, totals, rects, list);
    }
    mem_free(totals);
    mem_free(rects);
    mem_free(self);
    mem_free(total);
    mem_free(list);
    return e;
}
