/* Input as a file on disk, for readers that take a path: one directory and one file for the whole
 * run, written anew for each input and removed at the end. */
#ifndef PROCFLEET_TESTS_FUZZ_FILE_INPUT_H
#define PROCFLEET_TESTS_FUZZ_FILE_INPUT_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/support.h"

static char file_input_dir[256];

static inline void file_input_remove(void)
{
    support_remove_dir(file_input_dir);
}

/* Readable by nobody else. Gives the path, which is always the same. */
static inline const char *file_input(const uint8_t *p, size_t n)
{
    static char path[300];
    int fd;

    if (!path[0]) {
        support_temp_dir(file_input_dir, sizeof file_input_dir);
        (void)snprintf(path, sizeof path, "%s/input", file_input_dir);
        (void)atexit(file_input_remove);
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n || close(fd) != 0) {
        abort();
    }
    return path;
}

#endif
