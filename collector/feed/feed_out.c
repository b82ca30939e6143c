#include "collector/feed/feed_out.h"

#include <string.h>

#include "collector/feed/feed_topics.h"
#include "common/mem.h"
#include "common/os.h"

#define OUT_MAX       (64u << 20) /* a batch's messages, and what flush leaves */
#define FLUSH_AT      (1u << 20)
#define SEQ_BYTES     8u
#define SEND_MESSAGES 64u /* handed on at once */

static const char *const topic_names[FEED_TOPICS] = {"event/", "sample/"};

/* One message of the buffer. */
struct sent {
    size_t at, n, updates;
};

struct feed_out {
    struct feed_conf conf;
    struct feed_topics topics; /* numbers, without a journal */
    struct buf bodies;
    struct sent *list;
    size_t n, cap;
    bool quiet;
    bool troubled; /* and the caller knows */
    struct feed_stats counts;
};

enum err feed_out_create(struct feed_out **out, const struct feed_conf *conf)
{
    struct feed_out *o = mem_zalloc(sizeof *o);

    if (!o) {
        return ERR_NOMEM;
    }
    o->conf = *conf;
    feed_topics_init(&o->topics, conf->hosts_max);
    buf_init(&o->bodies, OUT_MAX);
    *out = o;
    return ERR_OK;
}

void feed_out_destroy(struct feed_out *o)
{
    if (o) {
        feed_topics_fini(&o->topics);
        buf_fini(&o->bodies);
        mem_free(o->list);
        mem_free(o);
    }
}

static uint64_t next_seq(struct feed_out *o, enum feed_topic topic, const char *name)
{
    struct feed_topic_seqs *t;

    if (o->conf.journal) {
        return journal_skip(o->conf.journal, topic, name);
    }
    t = feed_topics_get(&o->topics, name);
    return t ? ++t->seq[topic] : 0;
}

void feed_out_skip(struct feed_out *o, enum feed_topic topic, const char *name)
{
    (void)next_seq(o, topic, name);
}

static bool has_room(struct feed_out *o)
{
    if (o->n == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 64;
        struct sent *grown = mem_realloc_array(o->list, cap, sizeof *grown);

        if (!grown) {
            return false;
        }
        o->list = grown;
        o->cap = cap;
    }
    return true;
}

/* Head and update; *payload is where the update begins. False: it cannot be made. */
static bool put_body(struct feed_out *o, const struct journal_record *about,
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

static void set_seq(uint8_t *p, uint64_t seq)
{
    for (unsigned i = 0; i < SEQ_BYTES; i++) {
        p[i] = (uint8_t)(seq >> (8 * i));
    }
}

void feed_out_put(struct feed_out *o, const struct journal_record *about,
                  const struct wire_update *u)
{
    struct journal_record r = *about;
    size_t start = o->bodies.n, payload;

    if (!has_room(o) || !put_body(o, about, u, &payload)) {
        o->counts.oversize++;
        feed_out_skip(o, about->topic, about->name);
        return;
    }
    r.n = o->bodies.n - payload;
    if (o->conf.journal) {
        if (journal_append(o->conf.journal, &r, o->bodies.p + payload) != ERR_OK) {
            o->counts.failed++;
            o->bodies.n = start;
            return;
        }
    } else {
        r.seq = next_seq(o, about->topic, about->name);
    }
    if (r.seq == 0) { /* more hosts than topics are remembered of */
        o->counts.failed++;
        o->bodies.n = start;
        return;
    }
    set_seq(o->bodies.p + payload - SEQ_BYTES, r.seq);
    o->list[o->n++] = (struct sent){start, o->bodies.n - start, u->data.n_events + u->data.n_rows};
}

static void send_all(struct feed_out *o)
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

/* One line in the log for a disk that stays full, however many messages are lost. */
static void tell_trouble(struct feed_out *o, enum err e)
{
    if ((e != ERR_OK) == o->troubled) {
        return;
    }
    o->troubled = e != ERR_OK;
    if (o->conf.on_trouble) {
        o->conf.on_trouble(o->conf.ctx, e);
    }
}

void feed_out_flush(struct feed_out *o, bool all)
{
    struct journal *j = o->conf.journal;
    enum err e = ERR_OK;

    if (!all && o->bodies.n < FLUSH_AT) {
        return;
    }
    if (j) {
        journal_trim(j, os_utc_ns(), o->conf.on_lost, o->conf.ctx);
        e = journal_sync(j);
    }
    if (j && o->n > 0) {
        tell_trouble(o, e);
    }
    if (e) {
        o->counts.failed += o->n;
    } else if (o->n > 0) {
        if (!o->quiet && o->conf.listeners(o->conf.ctx)) {
            send_all(o);
        }
        if (j && o->conf.on_updates) {
            o->conf.on_updates(o->conf.ctx);
        }
    }
    o->n = 0;
    buf_reset(&o->bodies);
}

void feed_out_quiet(struct feed_out *o, bool quiet)
{
    o->quiet = quiet;
}

void feed_out_counts(struct feed_out *o, struct feed_stats *stats)
{
    stats->messages += o->counts.messages;
    stats->bytes += o->counts.bytes;
    stats->updates += o->counts.updates;
    stats->oversize += o->counts.oversize;
    stats->failed += o->counts.failed;
    o->counts = (struct feed_stats){0};
}
