/* Figures as members of a JSON object that is open. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_FIGURES_JSON_H
#define PROCFLEET_AGENT_ETL_FIGURES_JSON_H

#include "agent/etl/figures.h"
#include "agent/etl/jsonw.h"

/* All figures docs/etl-tool.md lists, in its order. With several files the header is that of the
 * one that began first. Errors: ERR_NOMEM */
NODISCARD enum err figures_json(struct jsonw *j, const struct figures *f, const struct walk *w,
                                size_t n_files);

/* Members "header", "start_time", "end_time" and "buffers" of a file. */
void figures_json_header(struct jsonw *j, const struct etl_census *c);

/* FILETIME as "2020-07-29T00:07:03.356792Z"; null where it is 0. */
void figures_json_filetime(struct jsonw *j, const char *key, uint64_t filetime);

#endif
