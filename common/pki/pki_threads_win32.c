/* Windows: mbedTLS knows POSIX mutexes only and is given these, which hold no memory. */
#include "common/pki/pki_threads.h"

#include <mbedtls/threading.h>

#include "common/os/win32.h"

_Static_assert(sizeof(mbedtls_threading_mutex_t) == sizeof(SRWLOCK), "cmake/threading_alt.h");

static void threads_init(mbedtls_threading_mutex_t *m)
{
    InitializeSRWLock((SRWLOCK *)&m->lock);
}

static void threads_free(mbedtls_threading_mutex_t *m)
{
    (void)m;
}

static int threads_lock(mbedtls_threading_mutex_t *m)
{
    AcquireSRWLockExclusive((SRWLOCK *)&m->lock);
    return 0;
}

static int threads_unlock(mbedtls_threading_mutex_t *m)
{
    ReleaseSRWLockExclusive((SRWLOCK *)&m->lock);
    return 0;
}

void pki_threads_begin(void)
{
    mbedtls_threading_set_alt(threads_init, threads_free, threads_lock, threads_unlock);
}
