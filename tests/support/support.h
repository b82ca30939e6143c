/* What tests need of the system: a directory of their own. */
#ifndef PROCFLEET_TESTS_SUPPORT_SUPPORT_H
#define PROCFLEET_TESTS_SUPPORT_SUPPORT_H

#include <stddef.h>

/* Makes an empty directory below the system's temporary one and gives its path (text, at least 256
 * bytes). Ends the program when it cannot. */
const char *support_temp_dir(char *text, size_t size);

/* Removes a directory made by support_temp_dir with everything in it. */
void support_remove_dir(const char *path);

#endif
