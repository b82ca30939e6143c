#include "common/base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static atomic_long live;
static atomic_long fail_after = -1;

/* Counts down to the allocation that a test wants to fail. */
static bool fail_now(void)
{
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);

    while (left >= 0) {
        if (atomic_compare_exchange_weak(&fail_after, &left, left - 1)) {
            return left == 0;
        }
    }
    return false;
}

static void *count_live(void *p)
{
    if (p) {
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    }
    return p;
}

void *mem_alloc(size_t n)
{
    return fail_now() ? NULL : count_live(malloc(n ? n : 1));
}

void *mem_zalloc(size_t n)
{
    return fail_now() ? NULL : count_live(calloc(1, n ? n : 1));
}

void *mem_array(size_t n, size_t size)
{
    return fail_now() ? NULL : count_live(calloc(n ? n : 1, size ? size : 1));
}

void *mem_realloc_array(void *p, size_t n, size_t size)
{
    void *q;

    if ((size && n > SIZE_MAX / size) || fail_now()) {
        return NULL;
    }
    q = realloc(p, n && size ? n * size : 1);
    return p ? q : count_live(q);
}

char *mem_strdup(const char *s)
{
    return s ? mem_dup(s, strlen(s) + 1) : NULL;
}

char *mem_strndup(const char *s, size_t n)
{
    size_t len = 0;
    char *copy;

    while (len < n && s[len] != '\0') {
        len++;
    }
    copy = mem_alloc(len + 1);
    if (copy) {
        memcpy(copy, s, len);
        copy[len] = '\0';
    }
    return copy;
}

void *mem_dup(const void *p, size_t n)
{
    void *copy = mem_alloc(n);

    if (copy && n) {
        memcpy(copy, p, n);
    }
    return copy;
}

void mem_free(void *p)
{
    if (p) {
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
        free(p);
    }
}

void mem_fail_after(long n)
{
    atomic_store(&fail_after, n);
}

long mem_live(void)
{
    return atomic_load(&live);
}
