/* Instances stand sorted by (boot, pid, start) in pages that never change (head_page.h), the pages
 * in an array: a flat B-tree. A snapshot is a copy of the array with a reference to every page and
 * to every block of text; so it costs n / HEAD_PAGE references, and a change after it one page.
 *
 * Ids and numbers of texts are all that a page holds, so an instance costs some tens of bytes
 * beside text that is its alone. The price: reading one means unpacking it, and nobody counts who
 * uses a text. What may have lost its last user is added up instead (`dropped`, never too little),
 * and when that is a quarter of everything, all is written anew into a new pool, without it.
 * Snapshots keep the old pages and the old pool.
 *
 * Considered: an object and four counted references for each instance, which was 0.3 KB and three
 * allocations each; texts for all hosts together, which need counts that threads share. */
#include "collector/store/memtable/head_info.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/memtable/head_page.h"
#include "common/base/mem.h"
#include "common/model/model.h"
#include "common/os/os.h"

#define HEAD_CUT_MAX   1024u /* bytes that stay, at most */
#define HEAD_CUT_LEAST 64u
#define HEAD_CUT_NONE  MODEL_COMMAND_LINE_MAX /* nothing is longer */

struct head_cut_room {
    char line[HEAD_CUT_MAX], image[HEAD_CUT_MAX];
};

struct head_age {
    bool running;
    uint64_t ns; /* in the order of the signed */
};

/* Older ones are the oldest, and of those as old as this so many. */
struct head_limit {
    struct head_age age;
    size_t equal;
};

/* -- cutting long texts for memory's sake: of a command line its beginning stays, of an image's
 * path its end, with the program's name; "…" stands for the rest, and a command line that is cut is
 * flagged so. Names and users are never cut: sums on disk go by them. -- */

#define REST       "\xe2\x80\xa6"
#define REST_BYTES (sizeof REST - 1)

static bool inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static struct str begin_of(struct str s, size_t max, char *room)
{
    size_t n = max - REST_BYTES;

    while (n > 0 && inside_character(s.p[n])) {
        n--;
    }
    memcpy(room, s.p, n);
    memcpy(room + n, REST, REST_BYTES);
    return (struct str){room, n + REST_BYTES};
}

static struct str end_of(struct str s, size_t max, char *room)
{
    size_t from = s.n - (max - REST_BYTES);

    while (from < s.n && inside_character(s.p[from])) {
        from++;
    }
    memcpy(room, REST, REST_BYTES);
    memcpy(room + REST_BYTES, s.p + from, s.n - from);
    return (struct str){room, REST_BYTES + s.n - from};
}

/* Neither text longer than `max`: HEAD_CUT_LEAST to HEAD_CUT_MAX, or HEAD_CUT_NONE; the cut ones
 * are in *room. True: something was cut. */
static bool head_cut(struct proc_info *info, size_t max, struct head_cut_room *room)
{
    bool cuts = max <= HEAD_CUT_MAX;
    bool line = cuts && info->command_line.n > max, image = cuts && info->image.n > max;

    if (line) {
        info->command_line = begin_of(info->command_line, max, room->line);
        info->have |= INFO_COMMAND_LINE_CUT;
    }
    if (image) {
        info->image = end_of(info->image, max, room->image);
    }
    return line || image;
}

/* Whether the command line, or the path, is cut and says no more than `whole`. */
static bool head_cut_is_of(struct str line, struct str whole)
{
    size_t n = line.n - REST_BYTES;

    return line.n >= REST_BYTES && line.n < whole.n && memcmp(line.p + n, REST, REST_BYTES) == 0 &&
           memcmp(line.p, whole.p, n) == 0;
}

static bool head_cut_is_end_of(struct str image, struct str whole)
{
    size_t n = image.n - REST_BYTES;

    return image.n >= REST_BYTES && image.n < whole.n && memcmp(image.p, REST, REST_BYTES) == 0 &&
           memcmp(image.p + REST_BYTES, whole.p + (whole.n - n), n) == 0;
}

static struct head_age head_age_of(const struct proc_info *info, int64_t seen_ns)
{
    bool exited = info->have & INFO_EXITED;
    int64_t ns = exited && info->exit_ns ? info->exit_ns : seen_ns;

    return (struct head_age){!exited, (uint64_t)ns ^ UINT64_C(1) << 63};
}

static int age_compare(const struct head_age *a, const struct head_age *b)
{
    return a->running != b->running ? a->running - b->running : (a->ns > b->ns) - (a->ns < b->ns);
}

/* How many have which byte at `shift`, of those whose bytes above are those of `of`. */
static void count_bytes(size_t in[256], const struct head_age *ages, size_t n,
                        const struct head_age *of, unsigned shift)
{
    uint64_t above = shift < 56 ? UINT64_MAX << (shift + 8) : 0;

    memset(in, 0, 256 * sizeof *in);
    for (size_t i = 0; i < n; i++) {
        if (ages[i].running == of->running && !((ages[i].ns ^ of->ns) & above)) {
            in[ages[i].ns >> shift & 0xff]++;
        }
    }
}

/* What the k oldest are, k from 1 to n.
 * Byte by byte: whatever times a host makes up, it takes 8 looks. */
static struct head_limit head_limit_of(const struct head_age *ages, size_t n, size_t k)
{
    struct head_limit limit = {{false, 0}, k};
    size_t in[256], ended = 0;

    for (size_t i = 0; i < n; i++) {
        ended += !ages[i].running;
    }
    if (k > ended) {
        limit.age.running = true;
        limit.equal -= ended;
    }
    for (unsigned shift = 64; shift > 0;) {
        size_t b = 0;

        shift -= 8;
        count_bytes(in, ages, n, &limit.age, shift);
        while (limit.equal > in[b]) {
            limit.equal -= in[b++];
        }
        limit.age.ns |= (uint64_t)b << shift;
    }
    return limit;
}

/* Whether this is one of them; each is to be asked for once. */
static bool head_age_over(const struct head_age *a, struct head_limit *limit)
{
    int c = age_compare(a, &limit->age);

    if (c == 0 && limit->equal > 0) {
        limit->equal--;
        return true;
    }
    return c < 0;
}

/* What two sources say of one process instance. */

static void join_exit(struct proc_info *known, const struct proc_info *news)
{
    bool exact = (news->have & INFO_EXIT_TIME) && !(news->have & INFO_EXIT_INFERRED);
    bool was_exact = (known->have & INFO_EXIT_TIME) && !(known->have & INFO_EXIT_INFERRED);

    if ((news->have & INFO_EXIT_TIME) && (exact || !was_exact)) {
        known->exit_ns = news->exit_ns;
        known->have &= ~(uint32_t)INFO_EXIT_INFERRED;
        known->have |= INFO_EXIT_TIME | (news->have & INFO_EXIT_INFERRED);
    }
    if (news->have & INFO_EXIT_CODE) {
        known->exit_code = news->exit_code;
    }
    known->have |= news->have & (INFO_EXIT_CODE | INFO_EXITED | INFO_FINAL_TOTALS | INFO_SIGNALLED);
}

static void join_text(struct proc_info *known, const struct proc_info *news, bool newer)
{
    const uint32_t line = INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN;

    if (news->name.n && (newer || !known->name.n)) {
        known->name = news->name;
    }
    if (news->image.n && (newer || !known->image.n) &&
        !head_cut_is_end_of(news->image, known->image)) {
        known->image = news->image;
    }
    if (news->user.n && (newer || !known->user.n)) {
        known->user = news->user;
    }
    if ((news->have & INFO_COMMAND_LINE_KNOWN) &&
        (newer || !(known->have & INFO_COMMAND_LINE_KNOWN)) &&
        !((news->have & INFO_COMMAND_LINE_CUT) &&
          head_cut_is_of(news->command_line, known->command_line))) {
        known->command_line = news->command_line;
        known->have = (known->have & ~line) | (news->have & line);
    }
}

bool head_info_is_last(const struct life_event *ev)
{
    return ev->kind == LIFE_PROCESS_STOP;
}

int64_t head_info_when(const struct life_event *ev, int64_t t1_ns)
{
    return !head_info_is_last(ev) && ev->wall_ns < t1_ns ? ev->wall_ns : t1_ns;
}

void head_info_join(struct proc_info *known, const struct proc_info *news, bool newer)
{
    const uint32_t rest = INFO_PARENT | INFO_SESSION | INFO_CREATE_TIME;

    if (news->origin && (!known->origin || news->origin < known->origin)) {
        known->origin = news->origin; /* the list goes from sure to inferred */
    }
    if (news->cpu_origin && (newer || !known->cpu_origin)) {
        known->cpu_origin = news->cpu_origin;
    }
    if ((news->have & INFO_PARENT) && !(known->have & INFO_PARENT)) {
        known->parent_pid = news->parent_pid;
    }
    if (news->parent_start && !known->parent_start) {
        known->parent_start = news->parent_start;
    }
    if ((news->have & INFO_SESSION) && !(known->have & INFO_SESSION)) {
        known->session_id = news->session_id;
    }
    if ((news->have & INFO_CREATE_TIME) && !(known->have & INFO_CREATE_TIME)) {
        known->create_ns = news->create_ns;
    }
    known->have |= news->have & rest;
    join_exit(known, news);
    join_text(known, news, newer);
}

bool head_info_same(const struct proc_info *a, const struct proc_info *b)
{
    return proc_id_eq(a->id, b->id) && a->have == b->have && a->origin == b->origin &&
           a->cpu_origin == b->cpu_origin && a->parent_pid == b->parent_pid &&
           a->parent_start == b->parent_start && a->session_id == b->session_id &&
           a->exit_code == b->exit_code && a->create_ns == b->create_ns &&
           a->exit_ns == b->exit_ns && str_eq(a->name, b->name) && str_eq(a->image, b->image) &&
           str_eq(a->command_line, b->command_line) && str_eq(a->user, b->user);
}

#define FILL   (HEAD_PAGE * 3 / 4) /* of pages written anew: room for those to come */
#define RECORD 40u                 /* bytes of an instance without its texts, about */
#define SPARE  16384u              /* bytes */
#define MET    64u                 /* instances */

#define THIN_PAGES 16u /* so few may hold little */

static const struct head_known nothing;

struct head_infos_snap {
    atomic_uint refs;
    size_t n, n_blocks;
    struct head_text_block **blocks; /* behind the pages */
    struct head_page *pages[];
};

struct head_infos {
    uint32_t max;
    size_t count, n, cap;
    struct head_page **pages;
    struct head_texts texts;
    struct head_dropped dropped;  /* text that may have lost its last user */
    struct head_infos_snap *snap; /* the latest, while nothing changed since */
    uint64_t evicted;
    uint64_t bytes_max, page_bytes; /* allowed; of all pages */
    size_t text_max;                /* longer texts are cut */
    uint64_t too_long;              /* times that this became less */
};

struct head_infos_snap *head_infos_snap_ref(struct head_infos_snap *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void head_infos_snap_unref(struct head_infos_snap *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        for (size_t i = 0; i < s->n; i++) {
            head_page_unref(s->pages[i]);
        }
        for (size_t i = 0; i < s->n_blocks; i++) {
            head_text_block_unref(s->blocks[i]);
        }
        mem_free(s);
    }
}

enum err head_infos_create(struct head_infos **out, uint32_t max)
{
    struct head_infos *t = mem_zalloc(sizeof *t);

    if (!t) {
        return ERR_NOMEM;
    }
    t->max = max;
    t->bytes_max = UINT64_MAX;
    t->text_max = HEAD_CUT_NONE;
    err_ignore(os_random(&t->texts.seed, sizeof t->texts.seed));
    *out = t;
    return ERR_OK;
}

static void infos_release(struct head_infos *t)
{
    for (size_t i = 0; i < t->n; i++) {
        head_page_unref(t->pages[i]);
    }
    mem_free(t->pages);
    head_infos_snap_unref(t->snap);
    head_texts_fini(&t->texts);
}

void head_infos_destroy(struct head_infos *t)
{
    if (t) {
        infos_release(t);
        mem_free(t);
    }
}

size_t head_infos_count(const struct head_infos *t)
{
    return t->count;
}

uint64_t head_infos_evicted(const struct head_infos *t)
{
    return t->evicted;
}

uint64_t head_infos_too_long(const struct head_infos *t)
{
    return t->too_long;
}

uint64_t head_infos_bytes(const struct head_infos *t)
{
    return t->texts.held + t->page_bytes + t->cap * sizeof *t->pages;
}

void head_infos_limit(struct head_infos *t, uint64_t bytes_max)
{
    t->bytes_max = bytes_max;
}

/* -- pages -- */

static void infos_changed(struct head_infos *t)
{
    head_infos_snap_unref(t->snap);
    t->snap = NULL;
}

/* For one page more. */
static enum err reserve_page(struct head_infos *t)
{
    size_t cap = t->cap + t->cap / 4 + 4;
    struct head_page **grown;

    if (t->n < t->cap) {
        return ERR_OK;
    }
    grown = mem_realloc_array(t->pages, cap, sizeof *grown);
    if (!grown) {
        return ERR_NOMEM;
    }
    t->pages = grown;
    t->cap = cap;
    return ERR_OK;
}

/* Makes room before; moves p. */
static void put_page(struct head_infos *t, size_t at, struct head_page *p)
{
    memmove(t->pages + at + 1, t->pages + at, (t->n - at) * sizeof *t->pages);
    t->pages[at] = p;
    t->page_bytes += head_page_bytes(p);
    t->n++;
}

/* The page becomes what the draft holds. */
static enum err replace_page(struct head_infos *t, size_t at, const struct head_draft *d)
{
    struct head_page *p;
    enum err e = head_page_draft_finish(d, &p);

    if (!e) {
        infos_changed(t);
        t->page_bytes += head_page_bytes(p) - head_page_bytes(t->pages[at]);
        head_page_unref(t->pages[at]);
        t->pages[at] = p;
    }
    return e;
}

static bool is_of(const struct head_page *p, const struct uuid *boot)
{
    return memcmp(p->base.boot.b, boot->b, sizeof boot->b) == 0;
}

/* Two halves instead of a full page. The upper one counts from its own first, or all pages of a
 * boot would count from whoever came first: on Windows the idle process, whose start is 0. */
static enum err split_page(struct head_infos *t, size_t at, struct head_draft *d)
{
    const struct head_page *p = t->pages[at];
    struct head_page *upper;
    enum err e = reserve_page(t);

    if (!e) {
        head_page_draft_anew(d, p, HEAD_PAGE / 2, HEAD_PAGE / 2);
        e = head_page_draft_finish(d, &upper);
    }
    if (e) {
        return e;
    }
    head_page_draft_beside(d, p);
    head_page_draft_copy(d, p, 0, HEAD_PAGE / 2);
    e = replace_page(t, at, d);
    if (e) {
        head_page_unref(upper);
        return e;
    }
    put_page(t, at + 1, upper);
    return ERR_OK;
}

/* -- writing everything anew -- */

/* A table that is written anew. Instances of the same program are met again and again: those met
 * last, by the old number of `about`, spare most of the looking up. */
struct infos_rewrite {
    struct head_infos to;
    struct head_draft d;
    struct head_known met[MET];
};

/* The draft becomes the last page. */
static enum err finish_page(struct infos_rewrite *r)
{
    enum err e = r->d.n ? reserve_page(&r->to) : ERR_OK;

    if (!e && r->d.n) {
        struct head_page *p;

        e = head_page_draft_finish(&r->d, &p);
        if (!e) {
            put_page(&r->to, r->to.n, p);
        }
        r->d.n = 0;
    }
    return e;
}

static enum err infos_append(struct infos_rewrite *r, const struct uuid *boot,
                             const struct head_known *known, int64_t seen_ns)
{
    struct head_known *met = &r->met[known->about % MET];
    struct head_known now = {.info = known->info};
    struct head_cut_room room;
    bool cut = head_cut(&now.info, r->to.text_max, &room);
    enum err e = ERR_OK;

    if (r->d.n == FILL || (r->d.n && memcmp(r->d.base.boot.b, boot->b, sizeof boot->b) != 0)) {
        e = finish_page(r);
    }
    if (!e && r->d.n == 0) {
        head_page_draft_init(&r->d, boot, &now.info);
    }
    if (!e) {
        e = head_page_draft_add(&r->d, &r->to.texts, &now, met, seen_ns);
    }
    if (!e && cut) { /* the room is gone soon */
        now.info.image = head_text_at(r->to.texts.blocks, now.image);
        now.info.command_line = head_text_at(r->to.texts.blocks, now.line);
    }
    if (!e) {
        *met = now;
        r->to.count++;
    }
    return e;
}

static enum err copy_all(const struct head_infos *t, struct infos_rewrite *r)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < t->n; i++) {
        const struct head_page *p = t->pages[i];

        for (uint32_t k = 0; k < p->n && !e; k++) {
            struct head_known known;

            head_page_known(p, k, t->texts.blocks, &known);
            e = infos_append(r, &p->base.boot, &known, head_page_seen_ns(p)[k]);
        }
    }
    return e ? e : finish_page(r);
}

/* Without texts of no use, in full pages, none of its texts longer than text_max.
 * Errors: ERR_NOMEM (nothing changed) */
static enum err rewrite_to(struct head_infos *t, size_t text_max)
{
    struct infos_rewrite *r = mem_zalloc(sizeof *r);
    enum err e = ERR_NOMEM;

    if (!r) {
        return e;
    }
    r->to.max = t->max;
    r->to.evicted = t->evicted;
    r->to.bytes_max = t->bytes_max;
    r->to.text_max = text_max;
    r->to.too_long = t->too_long;
    r->to.texts.seed = t->texts.seed;
    e = copy_all(t, r);
    if (e) {
        infos_release(&r->to);
    } else {
        infos_release(t);
        *t = r->to;
    }
    mem_free(r);
    return e;
}

static enum err infos_rewrite(struct head_infos *t)
{
    return rewrite_to(t, t->text_max);
}

/* Bytes of unused text, at most. Those of `about` are counted for each that drops them,
 * though most are used by others: no more than all of them can be of no use. */
static uint64_t garbage_of(const struct head_infos *t)
{
    uint64_t lines = t->dropped.lines, about = t->dropped.about;
    uint64_t about_max = t->texts.about_bytes;

    return (lines < t->texts.bytes ? lines : t->texts.bytes) +
           (about < about_max ? about : about_max);
}

/* Some bytes more than it needs are let be, or a table would be written anew all the time. */
static enum err infos_tidy(struct head_infos *t)
{
    if (garbage_of(t) * 4 < t->texts.bytes + t->count * RECORD + SPARE) {
        return ERR_OK;
    }
    return infos_rewrite(t);
}

/* -- the limit -- */

/* The page without those that are over the limit; ages are its instances'. It may be empty then. */
static enum err thin_page(struct head_infos *t, size_t at, const struct head_age *ages,
                          struct head_limit *limit)
{
    const struct head_page *p = t->pages[at];
    struct head_text_block *const *blocks = t->texts.blocks;
    struct head_dropped dropped = t->dropped;
    struct head_draft d;
    struct head_known known;
    uint32_t kept = 0, n = p->n; /* up to `kept` all is seen to */
    enum err e;

    head_page_draft_beside(&d, p);
    for (uint32_t i = 0; i < n; i++) {
        if (head_age_over(&ages[i], limit)) {
            head_page_known(p, i, blocks, &known);
            head_page_dropped(&dropped, &known, NULL, blocks);
            head_page_draft_copy(&d, p, kept, i - kept);
            kept = i + 1;
        }
    }
    if (kept == 0) {
        return ERR_OK;
    }
    head_page_draft_copy(&d, p, kept, n - kept);
    e = replace_page(t, at, &d);
    if (!e) {
        t->dropped = dropped;
        t->count -= n - d.n;
        t->evicted += n - d.n;
    }
    return e;
}

static void remove_empty(struct head_infos *t)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->n; i++) {
        if (t->pages[i]->n > 0) {
            t->pages[kept++] = t->pages[i];
        } else {
            t->page_bytes -= head_page_bytes(t->pages[i]);
            head_page_unref(t->pages[i]);
        }
    }
    t->n = kept;
}

static struct head_age *ages_make(const struct head_infos *t, size_t *ended)
{
    struct head_age *ages = mem_array(t->count, sizeof *ages);
    size_t n = 0;

    *ended = 0;
    for (size_t i = 0; ages && i < t->n; i++) {
        for (uint32_t k = 0; k < t->pages[i]->n; k++) {
            struct proc_info info;

            head_page_get(t->pages[i], k, t->texts.blocks, &info);
            ages[n] = head_age_of(&info, head_page_seen_ns(t->pages[i])[k]);
            *ended += !ages[n++].running;
        }
    }
    return ages;
}

/* The k oldest go, from 1 to all. */
static enum err infos_thin(struct head_infos *t, const struct head_age *ages, size_t k)
{
    struct head_limit limit = head_limit_of(ages, t->count, k);
    size_t at = 0;
    enum err e = ERR_OK;

    for (size_t i = 0; i < t->n && !e; i++) {
        uint32_t has = t->pages[i]->n;

        e = thin_page(t, i, ages + at, &limit);
        at += has;
    }
    remove_empty(t);
    return e;
}

static enum err infos_evict(struct head_infos *t)
{
    size_t ended;
    struct head_age *ages = ages_make(t, &ended);
    enum err e = ages ? infos_thin(t, ages, t->max / 8) : ERR_NOMEM;

    mem_free(ages);
    if (!e && t->n > THIN_PAGES && t->count / t->n < HEAD_PAGE / 4) {
        err_ignore(infos_rewrite(t)); /* it is smaller then, and does without */
    }
    return e;
}

/* Something less: half of those that ended; when there are none, all texts cut shorter; when they
 * are short, a quarter of the rest. Each is written anew, so halves cost no more than all at once.
 * ERR_NOTFOUND: there is hardly anything left. */
static enum err give_way(struct head_infos *t)
{
    size_t ended, text_max = t->text_max / 4;
    struct head_age *ages = ages_make(t, &ended);
    enum err e = ages ? ERR_OK : ERR_NOMEM;

    if (!e && ended > 0) {
        e = infos_thin(t, ages, (ended + 1) / 2);
        text_max = t->text_max;
    } else if (!e && t->text_max > HEAD_CUT_LEAST) {
        t->too_long++;
    } else if (!e) {
        e = t->count < 8 ? ERR_NOTFOUND : infos_thin(t, ages, t->count / 4);
        text_max = t->text_max;
    }
    mem_free(ages);
    return e ? e : rewrite_to(t, text_max);
}

enum err head_infos_shrink(struct head_infos *t, uint64_t bytes_max)
{
    uint64_t enough = bytes_max - bytes_max / 4; /* or it would have to be done for every one */
    enum err e = ERR_OK;

    if (head_infos_bytes(t) <= bytes_max) {
        return ERR_OK;
    }
    if (garbage_of(t) > 0) {
        e = infos_rewrite(t);
    }
    while (!e && head_infos_bytes(t) > enough) {
        e = give_way(t);
    }
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* -- changing -- */

/* A page of its own, where no other of the boot is. */
static enum err add_page(struct head_infos *t, size_t at, struct head_draft *d,
                         const struct uuid *boot, struct head_known *now, int64_t seen_ns)
{
    struct head_page *p;
    enum err e = reserve_page(t);

    head_page_draft_init(d, boot, &now->info);
    if (!e) {
        e = head_page_draft_add(d, &t->texts, now, &nothing, seen_ns);
    }
    if (!e) {
        e = head_page_draft_finish(d, &p);
    }
    if (!e) {
        infos_changed(t);
        put_page(t, at, p);
    }
    return e;
}

static enum err put_into(struct head_infos *t, size_t at, struct head_draft *d,
                         struct head_known *now, int64_t seen_ns)
{
    const struct head_page *p = t->pages[at];
    uint32_t i = head_page_find(p, now->info.id);
    enum err e;

    head_page_draft_beside(d, p);
    head_page_draft_copy(d, p, 0, i);
    e = head_page_draft_add(d, &t->texts, now, &nothing, seen_ns);
    if (e) {
        return e;
    }
    head_page_draft_copy(d, p, i, p->n - i);
    return replace_page(t, at, d);
}

static enum err add_new(struct head_infos *t, struct head_draft *d, const struct uuid *boot,
                        struct head_known *now, int64_t seen_ns)
{
    const struct proc_id id = now->info.id;
    size_t at = head_pages_find(t->pages, t->n, boot, id);
    enum err e = ERR_OK;

    if (at < t->n &&
        !is_of(t->pages[at], boot)) { /* the last of a boot before, or the very first */
        at += memcmp(t->pages[at]->base.boot.b, boot->b, sizeof boot->b) < 0;
    }
    if (at == t->n || !is_of(t->pages[at], boot)) {
        return add_page(t, at, d, boot, now, seen_ns);
    }
    if (t->pages[at]->n == HEAD_PAGE) {
        e = split_page(t, at, d);
        at += !e && head_page_compare(t->pages[at + 1], 0, id) <= 0;
    }
    return e ? e : put_into(t, at, d, now, seen_ns);
}

static enum err infos_add(struct head_infos *t, const struct uuid *boot,
                          const struct proc_info *info, int64_t seen_ns)
{
    struct head_known now = {.info = *info};
    struct head_draft d;
    enum err e = t->count >= t->max ? infos_evict(t) : ERR_OK;

    if (e) {
        return e;
    }
    e = add_new(t, &d, boot, &now, seen_ns);
    if (e) {
        head_page_dropped(&t->dropped, &now, NULL, t->texts.blocks);
        return e;
    }
    t->count++;
    return ERR_OK;
}

/* The page's i-th becomes *now. */
static enum err infos_change(struct head_infos *t, size_t at, uint32_t i,
                             const struct head_known *was, struct head_known *now)
{
    const struct head_page *p = t->pages[at];
    struct head_draft d;
    enum err e;

    head_page_draft_beside(&d, p);
    head_page_draft_copy(&d, p, 0, i);
    e = head_page_draft_add(&d, &t->texts, now, was, head_page_seen_ns(p)[i]);
    if (!e) {
        head_page_draft_copy(&d, p, i + 1, p->n - i - 1);
        e = replace_page(t, at, &d);
    }
    /* Of no use from here on are the old texts or, when it failed, the new ones. */
    head_page_dropped(&t->dropped, e ? now : was, e ? &was->info : &now->info, t->texts.blocks);
    return e;
}

enum err head_infos_merge(struct head_infos *t, const struct uuid *boot,
                          const struct proc_info *info, int64_t seen_ns)
{
    struct head_known was, now;
    struct head_page *p;
    int64_t *heard_ns;
    size_t page;
    uint32_t at;
    bool newer;
    struct head_cut_room room;
    struct proc_info cut = *info;
    enum err e = infos_tidy(t);

    if (!e) {
        e = head_infos_shrink(t, t->bytes_max);
    }
    if (e) {
        return e;
    }
    if (t->text_max != HEAD_CUT_NONE && head_infos_bytes(t) < t->bytes_max / 8) {
        t->text_max = HEAD_CUT_NONE; /* what is reported again comes back whole */
    }
    if (head_cut(&cut, t->text_max, &room)) {
        info = &cut;
    }
    page = head_pages_find(t->pages, t->n, boot, info->id);
    p = page < t->n && is_of(t->pages[page], boot) ? t->pages[page] : NULL;
    at = p ? head_page_find(p, info->id) : 0;
    if (!p || at == p->n || head_page_compare(p, at, info->id) != 0) {
        return infos_add(t, boot, info, seen_ns);
    }
    heard_ns = &head_page_seen_ns(p)[at];
    newer = seen_ns >= *heard_ns;
    *heard_ns = newer ? seen_ns : *heard_ns;
    head_page_known(p, at, t->texts.blocks, &was);
    if (head_info_same(info, &was.info)) { /* told again, as all are from time to time */
        return ERR_OK;
    }
    now = (struct head_known){.info = was.info};
    head_info_join(&now.info, info, newer);
    return head_info_same(&now.info, &was.info) ? ERR_OK : infos_change(t, page, at, &was, &now);
}

static enum err merge_events(struct head_infos *t, const struct batch *b, int64_t t1_ns, bool last)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < b->n_events && !e; i++) {
        const struct life_event *ev = &b->events[i];

        if (!life_is_of_host(ev->kind) && ev->kind != LIFE_PROVIDER &&
            head_info_is_last(ev) == last) {
            e = head_infos_merge(t, &b->head.boot, &ev->info, head_info_when(ev, t1_ns));
        }
    }
    return e;
}

enum err head_infos_merge_batch(struct head_infos *t, const struct batch *b, int64_t t1_ns)
{
    enum err e = merge_events(t, b, t1_ns, false);

    for (size_t i = 0; i < b->n_infos && !e; i++) {
        e = head_infos_merge(t, &b->head.boot, &b->infos[i], t1_ns);
    }
    return e ? e : merge_events(t, b, t1_ns, true);
}

/* -- reading -- */

enum err head_infos_snapshot(struct head_infos *t, struct head_infos_snap **out)
{
    size_t n_blocks = t->texts.n_blocks;

    if (!t->snap) {
        struct head_infos_snap *s =
            mem_alloc(sizeof *s + t->n * sizeof *s->pages + n_blocks * sizeof *s->blocks);

        if (!s) {
            return ERR_NOMEM;
        }
        atomic_init(&s->refs, 1);
        s->n = t->n;
        s->n_blocks = n_blocks;
        s->blocks = (struct head_text_block **)(s->pages + t->n);
        for (size_t i = 0; i < t->n; i++) {
            s->pages[i] = head_page_ref(t->pages[i]);
        }
        for (size_t i = 0; i < n_blocks; i++) {
            s->blocks[i] = head_text_block_ref(t->texts.blocks[i]);
        }
        t->snap = s;
    }
    *out = head_infos_snap_ref(t->snap);
    return ERR_OK;
}

bool head_infos_find(const struct head_infos_snap *s, const struct uuid *boot, struct proc_id id,
                     struct proc_info *out)
{
    /* The latest of a pid is the last one not above the highest start. */
    const struct proc_id last = {id.pid, id.start ? id.start : UINT64_MAX};
    size_t page = head_pages_find(s->pages, s->n, boot, last);
    const struct head_page *p = page < s->n ? s->pages[page] : NULL;
    uint32_t at;

    if (!p || !is_of(p, boot)) {
        return false;
    }
    at = head_page_find(p, last);
    if (at == p->n || head_page_compare(p, at, last) != 0) {
        if (id.start || at == 0) {
            return false;
        }
        at--;
    }
    if (p->pid[at] != id.pid) {
        return false;
    }
    head_page_get(p, at, s->blocks, out);
    return true;
}

bool head_infos_peek(const struct head_infos_snap *s, struct head_infos_place *at,
                     const struct uuid **boot, struct proc_info *out)
{
    while (at->page < s->n && at->i >= s->pages[at->page]->n) {
        at->page++;
        at->i = 0;
    }
    if (at->page >= s->n) {
        return false;
    }
    *boot = &s->pages[at->page]->base.boot;
    head_page_get(s->pages[at->page], at->i, s->blocks, out);
    return true;
}
