/* Runs a fuzz target where libFuzzer is missing: `target [-runs=N] [-seed=N] [FILE|DIR…]`. Every
 * file is tried as it stands and cut at every length up to 4 KiB (at evenly spread ones when that
 * would be more than N in all), then mutated; without files the inputs start from random
 * bytes. Deterministic for a seed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 65536
#define SEEDS_MAX 2048
#define CUT_MAX   4096

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct {
    uint8_t *p;
    size_t n;
} seeds[SEEDS_MAX];
static size_t n_seeds;
static uint64_t rng = 1;

static uint32_t next_random(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32);
}

/* Exactly sized, so that the address sanitizer sees a read one byte beyond. */
static void run(const uint8_t *p, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1);

    if (!exact) {
        abort();
    }
    memcpy(exact, p, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

static void read_seed(const char *path)
{
    static uint8_t room[INPUT_MAX];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(room, 1, sizeof room, f) : 0;
    uint8_t *p = malloc(n ? n : 1);

    if (!f || ferror(f) || !p || n_seeds == SEEDS_MAX) {
        fprintf(stderr, "cannot use seed %s\n", path);
        exit(1);
    }
    fclose(f);
    memcpy(p, room, n);
    seeds[n_seeds].p = p;
    seeds[n_seeds].n = n;
    n_seeds++;
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* In the order of names: runs can be repeated. */
static void read_seeds(const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, visible, alphasort);
    char file[4096];

    if (n < 0) {
        read_seed(path); /* no directory */
        return;
    }
    for (int i = 0; i < n; i++) {
        (void)snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        read_seed(file);
        free(names[i]);
    }
    free(names);
}

static void try_every_length(size_t cuts_max)
{
    size_t all = 0, step;

    for (size_t i = 0; i < n_seeds; i++) {
        all += seeds[i].n < CUT_MAX ? seeds[i].n : CUT_MAX;
    }
    step = 1 + all / cuts_max;
    for (size_t i = 0; i < n_seeds; i++) {
        run(seeds[i].p, seeds[i].n);
        for (size_t n = 0; n < seeds[i].n && n <= CUT_MAX; n += step) {
            run(seeds[i].p, n);
        }
    }
}

/* A few local changes: flipped bits, interesting values, removed or repeated spans. */
static size_t mutate(uint8_t *p, size_t n)
{
    static const uint8_t interesting[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    unsigned changes = 1 + next_random() % 8;

    while (changes-- > 0 && n > 0) {
        size_t at = next_random() % n;
        size_t span = 1 + next_random() % 16;

        switch (next_random() % 5) {
        case 0:
            p[at] ^= (uint8_t)(1u << next_random() % 8);
            break;
        case 1:
            p[at] = interesting[next_random() % sizeof interesting];
            break;
        case 2:
            p[at] = (uint8_t)next_random();
            break;
        case 3:
            if (at + span < n) {
                memmove(p + at, p + at + span, n - at - span);
                n -= span;
            }
            break;
        default:
            if (at + span < n && n + span <= INPUT_MAX) {
                memmove(p + at + span, p + at, n - at);
                n += span;
            }
            break;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    static uint8_t input[INPUT_MAX];
    long runs = 10000;

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-runs=", 6) == 0) {
            runs = strtol(argv[i] + 6, NULL, 10);
        } else if (strncmp(argv[i], "-seed=", 6) == 0) {
            rng = strtoull(argv[i] + 6, NULL, 10) | 1;
        } else {
            read_seeds(argv[i]);
        }
    }
    try_every_length(runs > 0 ? (size_t)runs : 1);
    for (long i = 0; i < runs; i++) {
        size_t n = next_random() % 512;

        if (n_seeds) {
            size_t k = next_random() % n_seeds;

            n = seeds[k].n;
            memcpy(input, seeds[k].p, n);
            n = mutate(input, n);
        } else {
            for (size_t j = 0; j < n; j++) {
                input[j] = (uint8_t)next_random();
            }
        }
        run(input, n);
    }
    printf("%zu seeds, %ld runs, no finding\n", n_seeds, runs);
    return 0;
}
