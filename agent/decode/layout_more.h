/* Layouts of records that no figure is made of: further opcodes of the classes of decode_class.h,
 * and classes of their own. Only what shows records asks for them, so a program that counts does
 * not carry them. The records are counted as unknown by decode.h. Threads: any. */
#ifndef PROCFLEET_AGENT_DECODE_LAYOUT_MORE_H
#define PROCFLEET_AGENT_DECODE_LAYOUT_MORE_H

#include "agent/decode/decode_class.h"

extern const struct decode_class layout_files_classes[], layout_memory_classes[],
    layout_work_classes[];
extern const size_t layout_files_n, layout_memory_n, layout_work_n;

/* The i-th of all classes, or NULL behind the last. */
const struct decode_class *layout_more_class(size_t i);

/* The layout of a record, or NULL. *class is its class, where there is one of these; it is left as
 * it is otherwise. */
const struct layout *layout_more_find(const struct raw_event *raw,
                                      const struct decode_class **class);

#endif
