/* Checked allocation. All heap memory of the product passes here, so that a test can make the n-th
 * allocation fail and see that nothing is lost and nothing leaks.
 * Threads: all functions are safe from any thread. Errors: NULL means out of memory. */
#ifndef PROCFLEET_COMMON_BASE_MEM_H
#define PROCFLEET_COMMON_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t n);  /* uninitialised; n = 0 returns a pointer that mem_free takes */
void *mem_zalloc(size_t n); /* zeroed */
void *mem_array(size_t n, size_t size);                  /* zeroed n × size; NULL on overflow */
void *mem_realloc_array(void *p, size_t n, size_t size); /* keeps `p` valid when it fails */
char *mem_strdup(const char *s);                         /* NULL for NULL */
char *mem_strndup(const char *s, size_t n);              /* at most n bytes, NUL-terminated */
void *mem_dup(const void *p, size_t n);
void mem_free(void *p); /* NULL is allowed */

/* Test support: the allocation after `n` further successes fails, once (-1: never, the default). */
void mem_fail_after(long n);

/* Blocks held at this moment, for leak checks. */
long mem_live(void);

#endif
