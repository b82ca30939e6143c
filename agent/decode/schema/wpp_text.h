/* The text of a WPP message from what its message file says and the arguments that were read. */
#ifndef PROCFLEET_AGENT_DECODE_SCHEMA_WPP_TEXT_H
#define PROCFLEET_AGENT_DECODE_SCHEMA_WPP_TEXT_H

#include "agent/decode/schema/describe_wpp.h"

/* Writes w->message from w->arguments (of them n_arguments) and the record itself; a text that
 * has no room is cut. */
void wpp_text_make(struct wpp *w, const struct tmf_message *m, const struct raw_event *raw);

#endif
