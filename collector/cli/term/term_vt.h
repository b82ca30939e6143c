/* VT sequences of the terminal's beginning and end, for both systems. */
#ifndef PROCFLEET_COLLECTOR_CLI_TERM_TERM_VT_H
#define PROCFLEET_COLLECTOR_CLI_TERM_TERM_VT_H

/* Alternate screen, no cursor, no line wrapping, pastes are marked. */
#define TERM_ENTER "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[0m\x1b[2J"
#define TERM_LEAVE "\x1b[0m\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"

#endif
