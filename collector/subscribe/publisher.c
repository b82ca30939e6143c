#include "collector/subscribe/publisher.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define OUT_MAX       (64u << 20) /* a batch's messages, and what flush leaves */
#define FLUSH_AT      (1u << 20)
#define SEQ_BYTES     8u
#define SEND_MESSAGES 64u /* handed on at once */

static const char *const topic_names[FEED_TOPICS] = {"event/", "sample/", "rule/"};

/* One message of the buffer. */
struct sent {
    size_t at, n, updates;
};

struct publisher {
    struct feed_conf conf;
    struct publisher_topics topics; /* numbers, without a journal */
    struct publisher_topics lost;   /* messages that the journal lacks and does not say so */
    struct publisher_topics told;   /* the same, said in what waits to be synced */
    int64_t stamp_ns;               /* of what was stored last */
    struct buf bodies;
    struct sent *list;
    size_t n, cap;
    bool quiet;
    bool troubled; /* and the caller knows */
    struct feed_stats counts;
    bool (*wait)(void *ctx);
    void *wait_ctx;
};

/* -- numbers of topics -- */

void publisher_topics_init(struct publisher_topics *t, size_t max)
{
    *t = (struct publisher_topics){.max = max};
}

void publisher_topics_fini(struct publisher_topics *t)
{
    mem_free(t->all);
    *t = (struct publisher_topics){0};
}

struct publisher_topic *publisher_topics_get(struct publisher_topics *t, const char *name)
{
    size_t i;

    SEARCH_LOWER(i, t->n, strcmp(t->all[i].name, name) < 0);
    if (i < t->n && strcmp(t->all[i].name, name) == 0) {
        return &t->all[i];
    }
    if (VEC_ROOM(&t->all, &t->cap, t->n + 1, t->max)) {
        return NULL;
    }
    memmove(t->all + i + 1, t->all + i, (t->n - i) * sizeof *t->all);
    t->n++;
    t->all[i] = (struct publisher_topic){.name = {0}};
    memcpy(t->all[i].name, name, strnlen(name, MODEL_HOST_NAME_MAX));
    return &t->all[i];
}

/* -- the publisher -- */

enum err publisher_create(struct publisher **out, const struct feed_conf *conf)
{
    struct publisher *o = mem_zalloc(sizeof *o);

    if (!o) {
        return ERR_NOMEM;
    }
    o->conf = *conf;
    publisher_topics_init(&o->topics, conf->hosts_max);
    publisher_topics_init(&o->lost, conf->hosts_max);
    publisher_topics_init(&o->told, conf->hosts_max);
    buf_init(&o->bodies, OUT_MAX);
    *out = o;
    return ERR_OK;
}

void publisher_on_full(struct publisher *o, bool (*wait)(void *ctx), void *ctx)
{
    o->wait = wait;
    o->wait_ctx = ctx;
}

void publisher_destroy(struct publisher *o)
{
    if (o) {
        publisher_topics_fini(&o->topics);
        publisher_topics_fini(&o->lost);
        publisher_topics_fini(&o->told);
        buf_fini(&o->bodies);
        mem_free(o->list);
        mem_free(o);
    }
}

/* -- messages that never were -- */

static void lost_count(struct publisher_topics *in, enum feed_topic topic, const char *name,
                       uint64_t n)
{
    struct publisher_topic *t = publisher_topics_get(in, name);

    if (t) {
        t->seq[topic] += n;
    }
}

/* Hands over and forgets what was counted. */
static void lost_hand_over(struct publisher *o, struct publisher_topics *from,
                           void (*each)(struct publisher *o, enum feed_topic topic,
                                        const char *name, uint64_t n))
{
    struct publisher_topics taken = *from;

    publisher_topics_init(from, o->conf.hosts_max);
    for (size_t i = 0; i < taken.n; i++) {
        for (unsigned t = 0; t < FEED_TOPICS; t++) {
            if (taken.all[i].seq[t] > 0) {
                each(o, (enum feed_topic)t, taken.all[i].name, taken.all[i].seq[t]);
            }
        }
    }
    publisher_topics_fini(&taken);
}

/* A record without payload. One that the journal has no room for (more hosts than topics) nobody
 * could have asked for. */
static void gap_put(struct publisher *o, enum feed_topic topic, const char *name, uint64_t n)
{
    struct journal_record r = {.topic = topic,
                               .batch = 1,
                               .last_batch = n < UINT32_MAX ? n : UINT32_MAX,
                               .stored_ns = o->stamp_ns,
                               .first_ns = o->stamp_ns,
                               .last_ns = o->stamp_ns};
    enum err e;

    memcpy(r.name, name, strnlen(name, sizeof r.name - 1));
    e = journal_append(o->conf.journal, &r, "");
    if (e != ERR_FULL) {
        lost_count(e ? &o->lost : &o->told, topic, name, n);
    }
}

static void lost_add(struct publisher *o, enum feed_topic topic, const char *name, uint64_t n)
{
    lost_count(&o->lost, topic, name, n);
}

void publisher_begin(struct publisher *o, int64_t stored_ns)
{
    o->stamp_ns = stored_ns;
    if (o->conf.journal) {
        lost_hand_over(o, &o->lost, gap_put);
    }
}

static uint64_t topic_next_seq(struct publisher *o, enum feed_topic topic, const char *name)
{
    struct publisher_topic *t = publisher_topics_get(&o->topics, name);

    return t ? ++t->seq[topic] : 0;
}

void publisher_skip(struct publisher *o, enum feed_topic topic, const char *name, uint64_t n)
{
    if (o->conf.journal) {
        gap_put(o, topic, name, n);
    } else {
        (void)topic_next_seq(o, topic, name);
    }
}

/* -- messages -- */

static bool list_has_room(struct publisher *o)
{
    return VEC_ROOM(&o->list, &o->cap, o->n + 1, SIZE_MAX) == ERR_OK;
}

/* Head and update; *payload is where the update begins. False: it cannot be made. */
static bool message_put(struct publisher *o, const struct journal_record *about,
                        const struct wire_update *u, size_t *payload)
{
    size_t start = o->bodies.n;

    buf_put_str(&o->bodies, topic_names[about->topic]);
    buf_put_str(&o->bodies, about->name);
    buf_put_u8(&o->bodies, 0);
    buf_put_u64le(&o->bodies, o->conf.epoch);
    buf_put_u64le(&o->bodies, 0); /* its number, later */
    *payload = o->bodies.n;
    if (wire_update_encode(&o->bodies, u) != ERR_OK || o->bodies.bad ||
        o->bodies.n - start > FEED_MESSAGE_MAX) {
        o->bodies.n = start;
        o->bodies.bad = ERR_OK;
        return false;
    }
    return true;
}

static void message_set_seq(uint8_t *p, uint64_t seq)
{
    for (unsigned i = 0; i < SEQ_BYTES; i++) {
        p[i] = (uint8_t)(seq >> (8 * i));
    }
}

void publisher_put(struct publisher *o, const struct journal_record *about,
                   const struct wire_update *u)
{
    struct journal_record r = *about;
    size_t start = o->bodies.n, payload;

    o->stamp_ns = about->stored_ns;
    if (!list_has_room(o) || !message_put(o, about, u, &payload)) {
        o->counts.oversize++;
        publisher_skip(o, about->topic, about->name, 1);
        return;
    }
    r.n = o->bodies.n - payload;
    if (o->conf.journal) {
        if (journal_append(o->conf.journal, &r, o->bodies.p + payload) != ERR_OK) {
            o->counts.failed++;
            lost_add(o, r.topic, r.name, 1);
            o->bodies.n = start;
            return;
        }
    } else {
        r.seq = topic_next_seq(o, about->topic, about->name);
    }
    if (r.seq == 0) { /* more hosts than topics are remembered of */
        o->counts.failed++;
        o->bodies.n = start;
        return;
    }
    assert(o->n < o->cap && payload >= start + SEQ_BYTES);
    message_set_seq(o->bodies.p + payload - SEQ_BYTES, r.seq);
    o->list[o->n++] = (struct sent){start, o->bodies.n - start, u->data.n_events + u->data.n_rows};
}

static void messages_send(struct publisher *o)
{
    struct str list[SEND_MESSAGES];
    size_t k = 0;

    for (size_t i = 0; i < o->n; i++) {
        const struct sent *m = &o->list[i];

        list[k++] = (struct str){(const char *)o->bodies.p + m->at, m->n};
        if (k == SEND_MESSAGES || i + 1 == o->n) {
            o->conf.send(o->conf.ctx, list, k);
            k = 0;
        }
        o->counts.messages++;
        o->counts.bytes += m->n;
        o->counts.updates += m->updates;
    }
}

/* None of what waited is in the journal. */
static void messages_lose(struct publisher *o)
{
    lost_hand_over(o, &o->told, lost_add);
    for (size_t i = 0; i < o->n; i++) {
        const char *body = (const char *)o->bodies.p + o->list[i].at;
        unsigned topic = 0;

        while (body[0] != topic_names[topic][0]) {
            topic++;
        }

        lost_add(o, (enum feed_topic)topic, body + strlen(topic_names[topic]), 1);
    }
    o->counts.failed += o->n;
}

/* One line in the log for a disk that stays full, however many messages are lost. */
static void trouble_report(struct publisher *o, enum err e)
{
    if ((e != ERR_OK) == o->troubled) {
        return;
    }
    o->troubled = e != ERR_OK;
    if (o->conf.on_trouble) {
        o->conf.on_trouble(o->conf.ctx, e);
    }
}

/* Durable, however long that takes, unless it fails. */
static enum err journal_sync_wait(struct publisher *o, struct journal *j)
{
    enum err e = journal_sync(j);

    while (e == ERR_NOSPACE) {
        trouble_report(o, e);
        if (!o->wait || !o->wait(o->wait_ctx)) {
            journal_drop(j);
            break;
        }
        e = journal_sync(j);
    }
    return e;
}

void publisher_flush(struct publisher *o, bool all)
{
    struct journal *j = o->conf.journal;
    bool grew = false;
    enum err e = ERR_OK;

    if (!all && o->bodies.n < FLUSH_AT) {
        return;
    }
    if (j) {
        grew = journal_waiting(j) > 0;
        journal_trim(j, os_utc_ns(), o->conf.on_lost, o->conf.ctx);
        e = journal_sync_wait(o, j);
    }
    if (grew) {
        trouble_report(o, e);
    }
    if (e) {
        messages_lose(o);
    } else {
        publisher_topics_fini(&o->told);
        publisher_topics_init(&o->told, o->conf.hosts_max);
    }
    if (!e && o->n > 0) {
        if (!o->quiet && o->conf.listeners(o->conf.ctx)) {
            messages_send(o);
        }
    }
    if (!e && grew && o->conf.on_updates) {
        o->conf.on_updates(o->conf.ctx);
    }
    o->n = 0;
    buf_reset(&o->bodies);
}

void publisher_quiet(struct publisher *o, bool quiet)
{
    o->quiet = quiet;
}

void publisher_counts(struct publisher *o, struct feed_stats *stats)
{
    stats->messages += o->counts.messages;
    stats->bytes += o->counts.bytes;
    stats->updates += o->counts.updates;
    stats->oversize += o->counts.oversize;
    stats->failed += o->counts.failed;
    o->counts = (struct feed_stats){0};
}
