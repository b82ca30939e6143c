/* Long texts of an instance cut short for memory's sake: of a command line its beginning stays, of
 * an image's path its end, with the program's name; "…" stands for the rest, and a command line
 * that is cut is flagged so. Names and users are never cut: sums on disk go by them.
 * Private to head_info.c and its tests. No state. */
#ifndef PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_CUT_H
#define PROCFLEET_COLLECTOR_STORE_MEMTABLE_HEAD_CUT_H

#include "common/model/model.h"

#define HEAD_CUT_MAX   1024u /* bytes that stay, at most */
#define HEAD_CUT_LEAST 64u
#define HEAD_CUT_NONE  MODEL_COMMAND_LINE_MAX /* nothing is longer */

struct head_cut_room {
    char line[HEAD_CUT_MAX], image[HEAD_CUT_MAX];
};

/* Neither text longer than `max`: HEAD_CUT_LEAST to HEAD_CUT_MAX, or HEAD_CUT_NONE; the cut ones
 * are in *room. True: something was cut. */
bool head_cut(struct proc_info *info, size_t max, struct head_cut_room *room);

/* Whether the command line, or the path, is cut and says no more than `whole`. */
bool head_cut_is_of(struct str line, struct str whole);
bool head_cut_is_end_of(struct str image, struct str whole);

#endif
