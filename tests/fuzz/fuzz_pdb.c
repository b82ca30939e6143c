/* Any bytes as a program database, asked for functions at addresses spread over it. */
#include "agent/etl/symbol/etl_pdb.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    enum { ASKED = 64 };
    struct touch_input b = {p, n};
    const struct etl_pdb_input input = {touch_read, &b};
    struct etl_pdb_hit hits[ASKED];
    uint32_t rvas[ASKED];
    struct touch touch = {0};
    char name[ETL_PDB_NAME];
    struct etl_pdb *pdb;

    if (etl_pdb_open(&pdb, &input)) {
        return 0;
    }
    for (uint32_t i = 0; i < ASKED; i++) {
        rvas[i] = 0x1000 + 8 * i;
    }
    rvas[ASKED - 1] = UINT32_MAX;
    if (etl_pdb_find(pdb, rvas, ASKED, hits) == ERR_OK) {
        for (size_t i = 0; i < ASKED; i++) {
            touch_must(!hits[i].kind || hits[i].start <= rvas[i]);
            etl_pdb_name(pdb, &hits[i], name);
            touch_bytes(&touch, name, strlen(name) + 1);
        }
    }
    etl_pdb_close(pdb);
    return 0;
}
