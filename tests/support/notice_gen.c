/* notice_gen DATA_DIR FIRST N: appends N notices to the journal of a collector that does not run,
 * as its rules would have: their numbers from FIRST on, of two rules and three hosts in turn, each
 * firing, then ok. Prints their ids. For tests of who receives them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/subscribe/journal.h"
#include "common/base/clk.h"
#include "common/lab/notice.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "common/wire/wire_query.h"
#include "tests/support/t.h"

static void notice_fill(struct notice *n, uint64_t number)
{
    static const char *const uses[] = {"", "hook,other", "nobody"};
    bool firing = number / 12 % 2 == 0;

    *n = (struct notice){.n = number,
                         .rule = str_make(number % 2 ? "busy" : "silent"),
                         .severity = str_make("warning"),
                         .of = str_make("host"),
                         .state = firing ? NOTICE_FIRING : NOTICE_OK,
                         .before = firing ? NOTICE_OK : NOTICE_FIRING,
                         .step_ns = os_utc_ns(),
                         .since_ns = os_utc_ns() - 60 * CLK_S,
                         .has_value = true,
                         .value = 0.31,
                         .unit = str_make("share"),
                         .use = str_make(uses[number % 100 == 50 ? 2 : number / 2 % 2]),
                         .silenced = str_make(number % 100 == 60 ? "patch-day" : ""),
                         .subject = str_make(""),
                         .say = str_make("a \"sentence\" with \xc3\xa4")};
    (void)snprintf(n->id, sizeof n->id, "%032llx", (unsigned long long)number);
}

static void notice_append(struct journal *j, uint64_t number)
{
    static const char *const hosts[] = {"web-1", "db-1", NOTICE_NO_HOST};
    static struct notice_room room;
    const char *name = hosts[number % 3];
    struct journal_record r = {.topic = FEED_RULE, .batch = number, .last_batch = number};
    struct wire_host host = {.name = str_make(name)};
    struct wire_event ev = {.host = 0};
    struct wire_update u = {.name = str_make(name),
                            .data = {.n_hosts = 1, .hosts = &host, .n_events = 1, .events = &ev}};
    struct notice n;
    struct buf b;

    notice_fill(&n, number);
    notice_event(&ev.event, &n, &room);
    buf_init(&b, JOURNAL_PAYLOAD_MAX);
    MUST(wire_update_encode(&b, &u) == ERR_OK);
    (void)snprintf(r.name, sizeof r.name, "%s", name);
    r.stored_ns = r.first_ns = r.last_ns = n.step_ns;
    r.n = b.n;
    MUST(journal_append(j, &r, b.p) == ERR_OK);
    printf("%s\n", n.id);
    buf_fini(&b);
}

int main(int argc, char **argv)
{
    struct errmsg why = {""};
    struct journal *j;
    char dir[1024];

    MUST(argc == 4);
    (void)snprintf(dir, sizeof dir, "%s/feed", argv[1]);
    if (journal_open(&j,
                     &(struct journal_conf){
                         .dir = dir, .fio = fio_os(), .max_bytes = 64u << 20, .hosts_max = 1000},
                     &why)) {
        fprintf(stderr, "notice_gen: %s\n", why.text);
        return 1;
    }
    for (uint64_t i = 0; i < strtoull(argv[3], NULL, 10); i++) {
        notice_append(j, strtoull(argv[2], NULL, 10) + i);
    }
    MUST(journal_sync(j) == ERR_OK);
    journal_close(j);
    return 0;
}
