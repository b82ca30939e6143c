/* A process whose figures are known, to measure the measurers: burns two seconds of CPU in two
 * threads, writes exactly 10,485,760 bytes, touches 64 MiB and exits with code 7. It writes
 * nothing else, so its totals can be compared to the byte.
 *   burn            all of that
 *   burn wait       writes its 10 MiB, says so with one more byte on standard output, and waits
 *                   for end of file on standard input: something to look at while it lives
 *   burn burst N    only makes N processes that end at once, ten at a time
 *   burn cpu S      only burns S seconds of CPU time (1.25) in one thread, and exits with code 0 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BURN_NS     INT64_C(1000000000) /* each of the two threads */
#define WRITE_BYTES (10 * 1024 * 1024)
#define TOUCH_BYTES (64 * 1024 * 1024)
#define EXIT_CODE   7

static int64_t thread_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *burn(void *arg)
{
    int64_t ns = arg ? *(const int64_t *)arg : BURN_NS;
    volatile uint64_t x = 1;

    while (thread_cpu_ns() < ns) {
        for (int i = 0; i < 100000; i++) {
            x = x * 6364136223846793005U + 1442695040888963407U;
        }
    }
    return NULL;
}

/* In odd pieces, to a file that has no name any more. */
static void write_all(void)
{
    static const char block[40960];
    char path[] = "/tmp/procfleet-burn-XXXXXX";
    int fd = mkstemp(path);
    size_t left = WRITE_BYTES;

    if (fd < 0) {
        exit(1);
    }
    unlink(path);
    while (left > 0) {
        ssize_t n = write(fd, block, left < sizeof block ? left : sizeof block);

        if (n <= 0) {
            exit(1);
        }
        left -= (size_t)n;
    }
    close(fd);
}

static void touch(void)
{
    volatile char *p = malloc(TOUCH_BYTES);

    if (!p) {
        exit(1);
    }
    for (size_t i = 0; i < TOUCH_BYTES; i += 4096) {
        p[i] = 1;
    }
    free((void *)p);
}

static int burst(long n)
{
    for (long i = 0; i < n; i += 10) {
        for (int k = 0; k < 10; k++) {
            pid_t pid = fork();

            if (pid == 0) {
                _exit(0);
            }
            if (pid < 0) {
                return 1;
            }
        }
        while (wait(NULL) > 0) {
        }
    }
    return EXIT_CODE;
}

int main(int argc, char **argv)
{
    pthread_t other;
    char c = 0;

    if (argc > 2 && strcmp(argv[1], "burst") == 0) {
        return burst(strtol(argv[2], NULL, 10));
    }
    if (argc > 2 && strcmp(argv[1], "cpu") == 0) {
        int64_t ns = (int64_t)(strtod(argv[2], NULL) * 1e9);

        burn(&ns);
        return 0;
    }
    write_all();
    if (argc > 1 && strcmp(argv[1], "wait") == 0) {
        if (write(STDOUT_FILENO, &c, 1) != 1) {
            return 1;
        }
        while (read(STDIN_FILENO, &c, 1) > 0) {
        }
        return EXIT_CODE;
    }
    touch();
    if (pthread_create(&other, NULL, burn, NULL) != 0) {
        return 1;
    }
    burn(NULL);
    pthread_join(other, NULL);
    return EXIT_CODE;
}
