/* Which replica is asked, and how long questions wait for a ClickHouse that does not answer. Equal
 * answers of one that does: test_ch_equal. Linux. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collector/clickhouse/ch_source.h"
#include "common/base/clk.h"
#include "common/os/deadline.h"
#include "tests/collector/lab.h"
#include "tests/support/t.h"

/* A port of 127.0.0.1 where connections are taken by the kernel, and nobody reads. */
static int listener(char *url, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    assert_int_equal(listen(fd, 8), 0);
    (void)snprintf(url, size, "http://127.0.0.1:%u", (unsigned)ntohs(a.sin_port));
    return fd;
}

static struct ch_http_conf conf_of(const char *const *urls, size_t n)
{
    return (struct ch_http_conf){.urls = urls,
                                 .n_urls = n,
                                 .database = "procfleet",
                                 .user = "",
                                 .password_file = "",
                                 .ca = "",
                                 .cert = "",
                                 .key = ""};
}

/* Tells its version to one who asks. */
static void answer_once(void *arg)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n26.7.1.1\n";
    char heard[4096];
    size_t n = 0;
    int fd = accept(*(int *)arg, NULL, NULL);

    while (fd >= 0 && n < sizeof heard && !memmem(heard, n, "version()", 9)) {
        ssize_t got = recv(fd, heard + n, sizeof heard - n, 0);

        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    (void)send(fd, reply, sizeof reply - 1, MSG_NOSIGNAL);
    (void)recv(fd, heard, 1, 0); /* until the client goes */
    close(fd);
}

static void the_next_replica_is_asked_when_one_does_not_answer(void **state)
{
    char url[3][64];
    const char *urls[] = {url[0], url[1], url[2]};
    int refuses = listener(url[0], sizeof url[0]), silent = listener(url[1], sizeof url[1]),
        answers = listener(url[2], sizeof url[2]);
    const struct ch_http_conf conf = conf_of(urls, COUNT_OF(urls)), dead = conf_of(urls, 2);
    struct errmsg why = {""};
    struct os_thread *thread;
    struct ch_http *h;

    close(refuses);
    assert_ok(ch_http_open(&h, &dead, &why));
    assert_err(ch_http_connect_any(h, CLK_S / 2, &why), ERR_TIMEOUT);
    ch_http_close(h);
    assert_ok(os_thread_start(&thread, "replica", answer_once, &answers));
    assert_ok(ch_http_open(&h, &conf, &why));
    assert_ok(ch_http_connect_any(h, CLK_S, &why));
    assert_string_equal(ch_http_version(h), "26.7.1.1");
    assert_string_equal(ch_http_url(h), urls[2]);
    assert_int_equal(ch_http_chosen(h), 2); /* and statements go there */
    ch_http_close(h);
    os_thread_join(thread);
    close(silent);
    close(answers);
}

static int64_t view_takes_ns(struct ch_source *s, int64_t since_ns, int64_t left_ns)
{
    int64_t begin_ns = os_mono_ns();
    struct store_view *v;
    struct deadline d;

    deadline_set(&d, begin_ns + left_ns);
    assert_ok(ch_source_view(s, &v, since_ns, &d));
    assert_int_equal(store_view_hosts(v), 1); /* the local store's */
    store_view_close(v);
    return os_mono_ns() - begin_ns;
}

static void a_silent_server_costs_one_question_a_part_of_its_time(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    char url[64];
    const char *urls[] = {url};
    int silent = listener(url, sizeof url);
    const struct ch_http_conf server = conf_of(urls, 1);
    const struct ch_source_conf conf = {.store = lab_store(l), .server = &server, .name = "a"};
    struct ch_source *s;
    int64_t first_ns;

    lab_begin(l, 1, 1, 1);
    lab_tick(l, 100);
    lab_put(l);
    assert_ok(ch_source_open(&s, &conf));
    first_ns = view_takes_ns(s, LAB_NS(-1000), 4 * CLK_S); /* looks for others, then for older */
    assert_true(first_ns >= CLK_S / 2 && first_ns < 3 * CLK_S);
    for (unsigned i = 0; i < 3; i++) { /* it is known now */
        assert_true(view_takes_ns(s, LAB_NS(-1000), 4 * CLK_S) < CLK_S * 9 / 10);
    }
    ch_source_close(s);
    close(silent);
    lab_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_replica_is_asked_when_one_does_not_answer),
        cmocka_unit_test(a_silent_server_costs_one_question_a_part_of_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
