/* Mutexes for mbedTLS. Private to the folder. */
#ifndef PROCFLEET_COMMON_PKI_PKI_THREADS_H
#define PROCFLEET_COMMON_PKI_PKI_THREADS_H

/* Before anything else of mbedTLS that has a mutex; once. */
void pki_threads_begin(void);

#endif
