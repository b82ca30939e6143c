/* A file of lines that several processes append to: durable, in one order for all of them.
 *
 *   0f3a…  procfleet-book 1 5d41…       checksum, name, version, generation
 *   77c0…  token 2026-11-21T19:00:00…   checksum, text
 *
 * A line's checksum is XXH3-64 over its text, seeded with the generation: a number drawn whenever
 * the file is written anew, by which readers see that they must forget what they read.
 * Bounds:  BOOK_LINES_MAX lines of at most BOOK_LINE_MAX bytes.
 * Threads: one caller at a time; other processes, and other books on the same file, at any time.
 * Crashes: what book_append gave ERR_OK for is there afterwards. A torn end (the last line lacks
 * its line break, or has bytes that are no text) is cut by the next writer. Any other wrong line is
 * ERR_CORRUPT: the book is repaired by people, not by guesses. */
#ifndef PROCFLEET_COLLECTOR_CA_BOOK_H
#define PROCFLEET_COLLECTOR_CA_BOOK_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/os/fio.h"

#define BOOK_LINES_MAX 200000u
#define BOOK_LINE_MAX  1024u /* bytes of text */

struct book;

/* `dir`/book, made when missing. Reads nothing yet.
 * Errors: ERR_NOTFOUND (no such directory), ERR_ACCESS (others may read it, or this user may not),
 * ERR_BUSY, ERR_IO, ERR_NOMEM */
NODISCARD enum err book_open(struct book **out, const char *dir, const struct fio *fio,
                             struct errmsg *why);
void book_close(struct book *b); /* NULL is allowed */

/* Who gets the lines. Begin: the file was written anew, or is read for the first time; forget what
 * came before. A failure of `line` ends reading; that line comes again. */
struct book_reader {
    enum err (*begin)(void *ctx);
    enum err (*line)(void *ctx, const char *text, size_t n); /* ends with NUL, not counted */
    void *ctx;
};

/* What was appended since the last call. Errors: ERR_CORRUPT (names file and line), ERR_VERSION,
 * ERR_NOTFOUND, ERR_ACCESS, ERR_IO, ERR_NOMEM, those of the reader */
NODISCARD enum err book_read(struct book *b, const struct book_reader *to, struct errmsg *why);

/* Between these no other process writes. Waits up to 5 s. Errors: ERR_BUSY, ERR_IO, ERR_ACCESS */
NODISCARD enum err book_lock(struct book *b, struct errmsg *why);
void book_unlock(struct book *b);

/* Locked, and read to the end: appends one line, durably. On failure it is not there, as far as
 * the disk obeys. Errors: ERR_FULL, ERR_INVALID (empty, too long, or not of printable characters),
 * ERR_NOSPACE, ERR_IO, ERR_NOMEM */
NODISCARD enum err book_append(struct book *b, const char *text, size_t n, struct errmsg *why);

/* Locked: writes the file anew with the lines that `keep` wants. Read it again afterwards.
 * Errors: as book_read and book_append */
NODISCARD enum err book_tidy(struct book *b, bool (*keep)(void *ctx, const char *text, size_t n),
                             void *ctx, struct errmsg *why);

size_t book_lines(const struct book *b); /* read so far */
size_t book_torn(const struct book *b);  /* bytes that were cut off its end */

#endif
