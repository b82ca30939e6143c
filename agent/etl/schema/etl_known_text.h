/* The text of scripts/known-schemas, with a NUL behind it. Threads: constant data. */
#ifndef PROCFLEET_AGENT_ETL_SCHEMA_ETL_KNOWN_TEXT_H
#define PROCFLEET_AGENT_ETL_SCHEMA_ETL_KNOWN_TEXT_H

extern const char etl_known_providers[]; /* etl_providers.txt: "GUID NAME" a line, by GUID */

#endif
