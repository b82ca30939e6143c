/* Any bytes as the command line's configuration file: the first line is the profile that --profile
 * asks for (empty: none), the rest the file. It is refused with a reason, or every setting is one
 * that the table of keys allows and says where it is from. */
#include <string.h>

#include "collector/cli/profile.h"
#include "common/base/clk.h"
#include "tests/fuzz/file_input.h"

#define NAME_MAX_BYTES 128

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const struct opt opts[] = {
    {"collector", 0, "HOST", "", 0}, {"events", 0, "HOST", "", 0},
    {"ca", 0, "TEXT", "", 0},        {"cert", 0, "TEXT", "", 0},
    {"key", 0, "TEXT", "", 0},       {"server-name", 0, "NAME", "", 0},
    {"timeout", 0, "SPAN", "", 0},   {"format", 0, "NAME", "", 0},
    {"host", 0, "HOST", "", 0},      {"config", 0, "TEXT", "", 0},
    {"profile", 0, "NAME", "", 0},
};
static const struct opt_command cmd = {
    .program = "procfleet", .opts = opts, .n_opts = sizeof opts / sizeof *opts};

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* Nothing of the environment counts. */
static void forget_environment(void)
{
    static const char *const variables[] = {
        "PROCFLEET_COLLECTOR", "PROCFLEET_EVENTS",      "PROCFLEET_CA",      "PROCFLEET_CERT",
        "PROCFLEET_KEY",       "PROCFLEET_SERVER_NAME", "PROCFLEET_TIMEOUT", "PROCFLEET_FORMAT",
        "PROCFLEET_HOST",      "PROCFLEET_CONFIG",      "PROCFLEET_PROFILE"};
    static bool forgotten;

    for (size_t i = 0; !forgotten && i < sizeof variables / sizeof *variables; i++) {
        must(unsetenv(variables[i]) == 0);
    }
    forgotten = true;
}

static bool is_one_of(const char *word, const char *const words[3])
{
    return strcmp(word, words[0]) == 0 || strcmp(word, words[1]) == 0 ||
           strcmp(word, words[2]) == 0;
}

static void judge(const struct profile *p, const char *named)
{
    static const char *const formats[] = {"table", "json", "csv"};
    char from[PROFILE_FROM_TEXT];
    int64_t timeout_ns;

    must(profile_file(p) != NULL);
    must(!named || strcmp(profile_chosen(p), named) == 0);
    for (enum profile_setting s = 0; s < PROFILE_SETTINGS; s++) {
        const char *value = profile_value(p, s);

        must(profile_from(p, s, from, sizeof from) == from && from[0] &&
             strlen(from) < sizeof from);
        must(value != NULL || strcmp(from, "default") == 0);
    }
    must(is_one_of(profile_value(p, PROFILE_FORMAT), formats));
    must(clk_parse_span(&timeout_ns, profile_value(p, PROFILE_TIMEOUT)) == ERR_OK);
    must(timeout_ns >= CLK_MS && timeout_ns <= 3600 * CLK_S);
}

static void try_with(char *config, char *chosen, const char *named)
{
    char *words[] = {config, chosen};
    struct errmsg why = {""};
    struct opt_args *args;
    struct profile *profile;
    enum err e;

    if (opt_parse(&args, &cmd, chosen ? 2 : 1, words, NULL)) {
        return; /* such a name cannot be asked for */
    }
    e = profile_open(&profile, args, &why);
    if (!e) {
        judge(profile, named);
        profile_close(profile);
    } else {
        must(e == ERR_NOMEM || (e == ERR_USAGE && why.text[0]));
    }
    opt_free(args);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    const uint8_t *line = n ? memchr(p, '\n', n) : NULL;
    size_t name_n = line ? (size_t)(line - p) : n;
    size_t rest = line ? name_n + 1 : n;
    char config[320], chosen[NAME_MAX_BYTES + 16];
    bool named = name_n > 0 && p[0] && name_n <= NAME_MAX_BYTES;

    forget_environment();
    (void)snprintf(config, sizeof config, "--config=%s", file_input(p + rest, n - rest));
    (void)snprintf(chosen, sizeof chosen, "--profile=%.*s", named ? (int)name_n : 0,
                   (const char *)p);
    try_with(config, named ? chosen : NULL, named ? chosen + strlen("--profile=") : NULL);
    return 0;
}
