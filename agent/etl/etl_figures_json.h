/* Figures as members of a JSON object that is open. Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_FIGURES_JSON_H
#define PROCFLEET_AGENT_ETL_ETL_FIGURES_JSON_H

#include "agent/etl/etl_figures.h"
#include "common/text/jsonw.h"

/* All figures docs/etl-tool.md lists, in its order. With several files the header is that of the
 * one that began first. Errors: ERR_NOMEM */
NODISCARD enum err etl_figures_json(struct jsonw *j, const struct etl_figures *f,
                                    const struct etl_walk *w, size_t n_files);

/* Members "header", "start_time", "end_time" and "buffers" of a file. */
void etl_figures_json_header(struct jsonw *j, const struct etl_census *c);

/* FILETIME as "2020-07-29T00:07:03.356792Z"; null where it is 0. */
void etl_figures_json_filetime(struct jsonw *j, const char *key, uint64_t filetime);

#endif
