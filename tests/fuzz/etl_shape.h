/* How the bytes of a fuzz input make a trace file, so that damage deep inside is reached as soon as
 * damage at the top; make_seeds.c writes both forms.
 *   byte 0 = 0    the rest is the file as it stands
 *   byte 0 = 1    bytes 1 to 8 choose a log-file header (below), then chunks: each becomes a buffer
 *                 with a proper header around it: u8 CPU and kind, u8 flags, u16 length, so many
 *                 bytes, which are records, or, where the flags say compressed, a packed stream
 *   byte 0 = 2    two files: u16 length of the first one's bytes; for each as above
 * Linux only: the file lies in memory. Ends the program when memory fails. */
#ifndef PROCFLEET_TESTS_FUZZ_ETL_SHAPE_H
#define PROCFLEET_TESTS_FUZZ_ETL_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#define ETL_SHAPE_HEADER  9
#define ETL_SHAPE_WIDE    1 /* byte 1: 8-byte pointers */
#define ETL_SHAPE_CIRCLE  2
#define ETL_SHAPE_UNENDED 4 /* the log-file header has no end */
#define ETL_SHAPE_PACK    1 /* byte 0 of a chunk, beside the CPU in bits 4 to 7: pack it properly */

/* Makes the file or files and gives their number; the paths are valid until the next call. */
size_t etl_shape_files(const char *paths[2], const uint8_t *p, size_t n);

#endif
