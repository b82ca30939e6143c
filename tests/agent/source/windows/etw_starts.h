/* The smallest recording that tells of a start. */
#ifndef PROCFLEET_TESTS_AGENT_SOURCE_WINDOWS_ETW_STARTS_H
#define PROCFLEET_TESTS_AGENT_SOURCE_WINDOWS_ETW_STARTS_H

#include "tests/support/etl_session.h"

/* Three records: a process ends, another one starts and ends. */
static inline void etw_starts_write(const char *to)
{
    struct etl_session_conf conf = etl_session_defaults();
    struct etl_session s;
    int64_t now = conf.file.zero_ticks;

    etl_session_begin(&s, &conf, to);
    etl_session_process(&s, 0, ETL_END, ++now, 400, 4, "first.exe");
    etl_session_process(&s, 0, ETL_START, ++now, 404, 4, "next.exe");
    etl_session_process(&s, 0, ETL_END, ++now, 404, 4, "next.exe");
    etl_session_end(&s, ++now);
}

#endif
