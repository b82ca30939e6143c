/* The first line is a pattern, the rest a file's name: what fits says texts of that name alone. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void expect(bool so)
{
    if (!so) {
        abort();
    }
}

static bool is_inside(struct str s, const struct etl_name *n)
{
    return s.n > 0 && s.p >= n->text && s.p + s.n <= n->text + strlen(n->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    char text[1024], *file;
    struct errmsg why;
    struct etl_name name;
    bool sound;

    n = n < sizeof text - 1 ? n : sizeof text - 1;
    memcpy(text, p, n);
    text[n] = '\0';
    file = strchr(text, '\n');
    if (!file) {
        return 0;
    }
    *file++ = '\0';
    sound = etl_name_check(text, &why) == ERR_OK;
    if (!etl_name_match(&name, text, file)) {
        return 0;
    }
    expect(sound && name.run.n > 0 && name.run.n <= RUN_FILE_NAME_MAX);
    expect(name.n_labels <= ETL_NAME_FIELDS && (!name.host.n || is_inside(name.host, &name)));
    for (size_t i = 0; i < name.n_labels; i++) {
        expect(is_inside(name.labels[i].value, &name) && name.labels[i].key.n > 0);
    }
    return 0;
}
