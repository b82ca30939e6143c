/* POSIX: mbedTLS takes the system's mutexes by itself. */
#include "common/pki/pki_threads.h"

void pki_threads_begin(void)
{
}
