#include "agent/source/linux/proc_text.h"

#include <string.h>

/* A reading position whose failure latches, as in cur.h, for text. */
struct scan {
    const char *p;
    const char *end;
    bool bad;
};

static uint64_t scan_u64(struct scan *s)
{
    uint64_t v = 0;
    const char *p = s->p;

    while (p < s->end && *p == ' ') {
        p++;
    }
    s->bad = s->bad || p == s->end || *p < '0' || *p > '9';
    while (p < s->end && *p >= '0' && *p <= '9') {
        uint64_t digit = (uint64_t)(*p - '0');

        if (v > (UINT64_MAX - digit) / 10) {
            s->bad = true;
            break;
        }
        v = v * 10 + digit;
        p++;
    }
    s->p = p;
    return s->bad ? 0 : v;
}

static int64_t scan_i64(struct scan *s)
{
    bool negative;
    uint64_t v;

    while (s->p < s->end && *s->p == ' ') {
        s->p++;
    }
    negative = s->p < s->end && *s->p == '-';
    if (negative) {
        s->p++;
    }
    v = scan_u64(s);
    if (v > INT64_MAX) {
        s->bad = true;
        return 0;
    }
    return negative ? -(int64_t)v : (int64_t)v;
}

static uint32_t scan_u32(struct scan *s)
{
    uint64_t v = scan_u64(s);

    if (v > UINT32_MAX) {
        s->bad = true;
        return 0;
    }
    return (uint32_t)v;
}

/* Ids are printed signed; -1 and 0 both mean "none". */
static uint32_t scan_id(struct scan *s)
{
    int64_t v = scan_i64(s);

    return v > 0 && v <= INT32_MAX ? (uint32_t)v : 0;
}

static void scan_skip(struct scan *s, unsigned fields)
{
    while (fields-- > 0) {
        while (s->p < s->end && *s->p == ' ') {
            s->p++;
        }
        s->bad = s->bad || s->p == s->end;
        while (s->p < s->end && *s->p != ' ') {
            s->p++;
        }
    }
}

/* "(name)" as it is, whatever bytes it has (Linux since 4.18; before, newline and backslash were
 * escaped); it may itself hold parentheses, so it ends at the last one. */
static void scan_name(struct scan *s, struct proc_stat *st)
{
    const char *name, *close;
    size_t n;

    if (s->bad || s->end - s->p < 2 || s->p[0] != ' ' || s->p[1] != '(') {
        s->bad = true;
        return;
    }
    name = s->p + 2;
    close = memrchr(name, ')', (size_t)(s->end - name));
    if (!close) {
        s->bad = true;
        return;
    }
    n = (size_t)(close - name);
    st->name_n = n < sizeof st->name ? n : sizeof st->name;
    memcpy(st->name, name, st->name_n);
    s->p = close + 1;
}

enum err proc_text_stat(struct proc_stat *out, const char *p, size_t n)
{
    struct scan s = {p, p + n, false};
    struct proc_stat st;

    st.pid = scan_u32(&s);
    scan_name(&s, &st);
    if (s.bad || s.end - s.p < 2 || s.p[0] != ' ') {
        return ERR_CORRUPT;
    }
    st.state = s.p[1];
    s.p += 2;
    st.parent = scan_id(&s);
    scan_skip(&s, 1); /* process group */
    st.session = scan_id(&s);
    scan_skip(&s, 2); /* terminal, its foreground group */
    st.flags = scan_u32(&s);
    st.minor_faults = scan_u64(&s);
    scan_skip(&s, 1); /* of waited-for children */
    st.major_faults = scan_u64(&s);
    scan_skip(&s, 1);
    st.user_ticks = scan_u64(&s);
    st.kernel_ticks = scan_u64(&s);
    scan_skip(&s, 2);
    st.priority = scan_i64(&s);
    scan_skip(&s, 1); /* nice: priority says it */
    st.threads = scan_u32(&s);
    scan_skip(&s, 1);
    st.start_ticks = scan_u64(&s);
    st.virtual_bytes = scan_u64(&s);
    st.resident_pages = scan_i64(&s);
    scan_skip(&s, 1); /* limit on resident memory */
    st.start_code = scan_u64(&s);
    scan_skip(&s, 1);
    st.start_stack = scan_u64(&s);
    /* Without a byte behind it the last number may have been cut. */
    if (s.bad || s.p == s.end || st.pid == 0) {
        return ERR_CORRUPT;
    }
    *out = st;
    return ERR_OK;
}

/* Gives the next line and moves behind it; false at the end. An unfinished last line is no line. */
static bool next_line(struct scan *s, struct scan *line)
{
    const char *nl = s->p < s->end ? memchr(s->p, '\n', (size_t)(s->end - s->p)) : NULL;

    if (!nl) {
        return false;
    }
    *line = (struct scan){s->p, nl, false};
    s->p = nl + 1;
    return true;
}

/* Moves behind `label` (which ends with a colon) and the blanks after it. */
static bool take_label(struct scan *line, const char *label, size_t n)
{
    if ((size_t)(line->end - line->p) < n || memcmp(line->p, label, n) != 0) {
        return false;
    }
    line->p += n;
    while (line->p < line->end && (*line->p == '\t' || *line->p == ' ')) {
        line->p++;
    }
    return true;
}

#define TAKE(line, label) take_label(line, label, sizeof(label) - 1)

static uint64_t scan_kib(struct scan *s)
{
    uint64_t v = scan_u64(s);

    if (v > UINT64_MAX / 1024) {
        s->bad = true;
        return 0;
    }
    return v * 1024;
}

/* Hexadecimal words of 32 bits, the highest first, commas between: the value's lowest 64 bits. */
static uint64_t scan_mask(struct scan *s)
{
    uint64_t v = 0;

    s->bad = s->p == s->end;
    for (; s->p < s->end; s->p++) {
        char c = *s->p;

        if (c >= '0' && c <= '9') {
            v = v << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            v = v << 4 | (uint64_t)(c - 'a' + 10);
        } else if (c != ',') {
            s->bad = true;
        }
    }
    return v;
}

struct status_parts {
    struct proc_status st;
    uint64_t anon, swap, voluntary, forced;
    unsigned anon_known, swap_known, voluntary_known, forced_known;
    bool bad;
};

static void status_line(struct status_parts *s, struct scan *line)
{
    if (TAKE(line, "Uid:")) {
        s->st.uid = scan_u32(line);
        s->st.have |= STATUS_UID;
    } else if (TAKE(line, "VmHWM:")) {
        s->st.peak_bytes = scan_kib(line);
        s->st.have |= STATUS_PEAK;
    } else if (TAKE(line, "RssAnon:")) {
        s->anon = scan_kib(line);
        s->anon_known = 1;
    } else if (TAKE(line, "VmSwap:")) {
        s->swap = scan_kib(line);
        s->swap_known = 1;
    } else if (TAKE(line, "Cpus_allowed:")) {
        s->st.cpus_allowed = scan_mask(line);
        s->st.have |= STATUS_CPUS;
    } else if (TAKE(line, "voluntary_ctxt_switches:")) {
        s->voluntary = scan_u64(line);
        s->voluntary_known = 1;
    } else if (TAKE(line, "nonvoluntary_ctxt_switches:")) {
        s->forced = scan_u64(line);
        s->forced_known = 1;
    }
    s->bad = s->bad || line->bad;
}

enum err proc_text_status(struct proc_status *out, const char *p, size_t n)
{
    struct scan s = {p, p + n, false};
    struct status_parts parts = {0};
    struct scan line;

    while (next_line(&s, &line)) {
        /* Of some sixty lines only these begin a wanted one. */
        if (line.p < line.end && memchr("UVRCvn", *line.p, 6)) {
            status_line(&parts, &line);
        }
    }
    if (parts.bad || s.p != s.end || n == 0) {
        return ERR_CORRUPT;
    }
    if (parts.anon_known && parts.swap_known && parts.anon <= UINT64_MAX - parts.swap) {
        parts.st.private_bytes = parts.anon + parts.swap;
        parts.st.have |= STATUS_PRIVATE;
    }
    if (parts.voluntary_known && parts.forced_known) {
        parts.st.switches = parts.voluntary + parts.forced;
        parts.st.have |= STATUS_SWITCHES;
    }
    *out = parts.st;
    return ERR_OK;
}

enum err proc_text_io(struct proc_io *out, const char *p, size_t n)
{
    struct scan s = {p, p + n, false};
    struct proc_io io = {0};
    unsigned seen = 0;
    bool bad = false;
    struct scan line;

    while (next_line(&s, &line)) {
        if (TAKE(&line, "rchar:")) {
            io.read_chars = scan_u64(&line);
            seen |= 1;
        } else if (TAKE(&line, "wchar:")) {
            io.write_chars = scan_u64(&line);
            seen |= 2;
        } else if (TAKE(&line, "syscr:")) {
            io.read_calls = scan_u64(&line);
            seen |= 4;
        } else if (TAKE(&line, "syscw:")) {
            io.write_calls = scan_u64(&line);
            seen |= 8;
        } else if (TAKE(&line, "read_bytes:")) {
            io.disk_read = scan_u64(&line);
            seen |= 16;
        } else if (TAKE(&line, "write_bytes:")) {
            io.disk_write = scan_u64(&line);
            seen |= 32;
        }
        bad = bad || line.bad;
    }
    if (bad || seen != 63) {
        return ERR_CORRUPT;
    }
    *out = io;
    return ERR_OK;
}

enum err proc_text_schedstat(struct proc_turns *out, const char *p, size_t n)
{
    struct scan s = {p, p + n, false};
    struct proc_turns v;

    v.run_ns = scan_u64(&s);
    v.ready_ns = scan_u64(&s);
    v.turns = scan_u64(&s);
    if (s.bad || s.p == s.end) {
        return ERR_CORRUPT;
    }
    *out = v;
    return ERR_OK;
}

enum err proc_text_statm(struct proc_pages *out, const char *p, size_t n)
{
    struct scan s = {p, p + n, false};
    struct proc_pages v;

    v.size = scan_u64(&s);
    v.resident = scan_u64(&s);
    if (s.bad || s.p == s.end) {
        return ERR_CORRUPT;
    }
    *out = v;
    return ERR_OK;
}

enum err proc_text_pid(uint32_t *out, const char *name)
{
    struct scan s = {name, name + strlen(name), false};
    uint32_t pid;

    if (*name == ' ') {
        return ERR_CORRUPT;
    }
    pid = scan_u32(&s);
    if (s.bad || s.p != s.end || pid == 0) {
        return ERR_CORRUPT;
    }
    *out = pid;
    return ERR_OK;
}

/* Length of the UTF-8 character at p, 0 when it is none (or cut, overlong, a surrogate). */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    size_t len = p[0] < 0x80   ? 1
                 : p[0] < 0xc2 ? 0
                 : p[0] < 0xe0 ? 2
                 : p[0] < 0xf0 ? 3
                 : p[0] < 0xf5 ? 4
                               : 0;

    if (len == 0 || len > n) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) {
        return 0;
    }
    return len;
}

size_t proc_text_utf8(char *out, size_t cap, const char *p, size_t n)
{
    size_t used = 0;

    for (size_t i = 0; i < n && used < cap;) {
        size_t len = utf8_length((const unsigned char *)p + i, n - i);

        if (len > cap - used) {
            break;
        }
        if (len == 0 || p[i] == '\0') {
            out[used++] = '?';
            i++;
            continue;
        }
        memcpy(out + used, p + i, len);
        used += len;
        i += len;
    }
    return used;
}

/* Text that is cut when it does not fit. */
struct args_out {
    char *p;
    size_t cap, n;
    bool cut;
};

static void put_text(struct args_out *o, const char *p, size_t n)
{
    size_t put = proc_text_utf8(o->p + o->n, o->cap - o->n, p, n);

    /* '?' replaces one byte by one byte, so a shorter result was cut. */
    o->cut = o->cut || put < n;
    o->n += put;
}

static void put_bytes(struct args_out *o, char c, size_t n)
{
    for (; n > 0 && !o->cut; n--) {
        if (o->n == o->cap) {
            o->cut = true;
        } else {
            o->p[o->n++] = c;
        }
    }
}

static size_t backslashes_before(const char *p, size_t n)
{
    size_t i = 0;

    while (i < n && p[n - 1 - i] == '\\') {
        i++;
    }
    return i;
}

/* In quotes; where it has both kinds itself, and at its end, as Windows programs would read it. */
static void put_quoted(struct args_out *o, const char *p, size_t n)
{
    char quote = memchr(p, '"', n) && !memchr(p, '\'', n) ? '\'' : '"';
    size_t from = 0;

    put_bytes(o, quote, 1);
    for (size_t i = 0; i < n && quote == '"'; i++) {
        if (p[i] == '"') {
            put_text(o, p + from, i - from);
            put_bytes(o, '\\', backslashes_before(p, i) + 1);
            from = i;
        }
    }
    put_text(o, p + from, n - from);
    if (quote == '"') {
        put_bytes(o, '\\', backslashes_before(p, n));
    }
    put_bytes(o, quote, 1);
}

static bool has_blank(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == ' ' || p[i] == '\t' || p[i] == '\n' || p[i] == '\r') {
            return true;
        }
    }
    return false;
}

size_t proc_text_args(char *out, size_t cap, const char *p, size_t n, bool *cut)
{
    struct args_out o = {.p = out, .cap = cap};
    bool several;

    while (n > 0 && p[n - 1] == '\0') {
        n--;
    }
    several = n > 0 && memchr(p, '\0', n);
    while (n > 0 && !o.cut) {
        const char *nul = memchr(p, '\0', n);
        size_t arg_n = nul ? (size_t)(nul - p) : n;

        if (several && has_blank(p, arg_n)) {
            put_quoted(&o, p, arg_n);
        } else {
            put_text(&o, p, arg_n);
        }
        if (!nul) {
            break;
        }
        put_bytes(&o, ' ', 1);
        p = nul + 1;
        n -= arg_n + 1;
    }
    *cut = o.cut;
    return o.n;
}

void proc_text_file_name(const char **name, size_t *name_n, const char *path, size_t n)
{
    const char *slash = n > 0 && path[0] == '/' ? memrchr(path, '/', n) : NULL;
    *name = slash ? slash + 1 : path;
    *name_n = slash ? (size_t)(path + n - *name) : 0;
}

void proc_text_first_argument(const char **name, size_t *name_n, const char *p, size_t n)
{
    const char *end;

    while (n > 0 && p[n - 1] == '\0') {
        n--;
    }
    end = n > 0 ? memchr(p, '\0', n) : NULL;
    if (!end) {
        end = n > 0 ? memchr(p, ' ', n) : NULL;
    }
    proc_text_file_name(name, name_n, p, end ? (size_t)(end - p) : n);
}

size_t proc_text_worker(const char *name, size_t n)
{
    static const char prefix[] = "kworker/";
    const char *colon = n > sizeof prefix ? memchr(name, ':', n) : NULL;

    if (!colon || memcmp(name, prefix, sizeof prefix - 1) != 0) {
        return n;
    }
    for (const char *p = colon; p < name + n; p++) {
        if (*p == '-' || *p == '+') {
            return (size_t)(p - name);
        }
    }
    return n;
}
