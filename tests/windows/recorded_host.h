/* The host that a recording was made on, alive again: from recorded_host_begin on its time runs
 * with this system's. Records are moved to the clocks of here, and the table of processes that the
 * program asks for is the one of that moment: who lived, since when, with as much CPU time as the
 * recording shows. Columns that a recording does not have hold their offset in the entry, as those
 * of snap_gen.h do. Our own process is in the table too.
 * Threads: open first; then any. */
#ifndef PROCFLEET_TESTS_WINDOWS_RECORDED_HOST_H
#define PROCFLEET_TESTS_WINDOWS_RECORDED_HOST_H

#include <stdbool.h>

#include "agent/source/source.h"

#define RECORDED_PERIOD_NS 100000000 /* of what CPU time is known */

/* Reads the recording; its time will run at speed ÷ 1000 of ours, delay after the beginning. What
 * is wrong with it ends the program: this is a test. */
void recorded_host_open(const char *path, unsigned speed_permille, unsigned delay_ms);

/* Its time will start to run. Further calls change nothing. */
void recorded_host_begin(void);

/* See etwreplay_script.move. A session that starts late is told first who lives. */
bool recorded_host_move(struct raw_event *raw, uint8_t *room, int64_t since_ns);
uint64_t recorded_host_frequency(void);

/* Whether one of its processes has our number: what is said of that one would be wrong. */
bool recorded_host_collides(void);

/* From now on the program's calls of NtQuerySystemInformation are answered from here where asked()
 * says so; by then the recording must be open. False: the program does not import it. Mutexes with
 * names are its own: several such hosts may live beside each other. */
bool recorded_host_hook(bool (*asked)(void));

#endif
