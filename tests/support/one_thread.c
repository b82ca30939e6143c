/* Linked, with --wrap=pthread_create, into tests that procfleet_threads (cmake/Targets.cmake) does
 * not name. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    (void)id, (void)attr, (void)run, (void)arg;
    fputs("this test starts a thread: name it in procfleet_threads() of its CMakeLists.txt, so "
          "that the thread "
          "sanitizer runs it\n",
          stderr);
    abort();
}
