/* What tests need of the system: a directory of their own, and files in it. What cannot be done
 * ends the program. */
#ifndef PROCFLEET_TESTS_SUPPORT_SUPPORT_H
#define PROCFLEET_TESTS_SUPPORT_SUPPORT_H

#include <stddef.h>

/* Makes an empty directory below the system's temporary one and gives its path (text, at least 256
 * bytes). */
const char *support_temp_dir(char *text, size_t size);

/* Removes a directory made by support_temp_dir with everything in it. */
void support_remove_dir(const char *path);
/* The same, and the directory is there again. */
void support_empty_dir(const char *path);

/* The file has these bytes and no others; not synced, unlike os_write_file. */
void support_write_file(const char *path, const void *p, size_t n);

/* A directory for every test, for cmocka_unit_test_prestate_setup_teardown: its last argument is a
 * text of 256 bytes, which gets the path. */
int support_dir_setup(void **state);
int support_dir_teardown(void **state);

#endif
