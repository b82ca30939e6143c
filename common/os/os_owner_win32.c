/* What a service that is the system takes from a directory, it takes as if an administrator had put
 * it there. Whoever may make a directory below %ProgramData%, and that is everybody, could make
 * ours first, with a configuration, a key or a junction in it. So nothing is taken on trust: every
 * object is opened as it stands, never followed, and judged by its handle. A directory is closed to
 * others before what is in it is looked at, so that nothing comes after the look. */
#include "common/os/os_owner.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/os/os_acl_win32.h"
#include "common/os/os_impl_win32.h"
#include "common/os/win32.h"

#define PATH_UNITS OS_WIN32_PATH_UNITS
#define NAMES_MAX  20000u
#define DIRS_MAX   1000u
#define NAME_BYTES 256

/* What to do, around the directory's name. */
struct owner_remedy {
    const char *before, *after;
};

static const struct owner_remedy check_remedy = {
    "nothing in it is trusted: an administrator looks at what it holds, removes ",
    ", and 'procfleet-agent service prepare --data DIR' makes it anew, or another one"};
static const struct owner_remedy open_remedy = {
    "as an administrator run 'procfleet-agent service prepare --data ", "', which closes it"};
static const struct owner_remedy accept_remedy = {
    "as an administrator look at what it holds, then run 'procfleet-agent service prepare --accept "
    "--data ",
    "', which closes it"};
static const struct owner_remedy file_remedy = {
    "what others can put there or change is not trusted: keep ",
    " in a directory that only administrators can change"};
static const struct owner_remedy above_remedy = {
    "whoever can move it or owns it can put another in its place: keep ",
    " below directories that only administrators can move"};
static const struct owner_remedy admin_remedy = {"run this as an administrator (", ")"};

/* One look through a directory. */
struct owner_walk {
    bool claim;          /* set the list of everything, too */
    bool accept;         /* of files that others could change as well */
    enum os_acl_use use; /* what others must not be able to do */
    BYTE user[SECURITY_MAX_SID_SIZE];
    struct os_acl list; /* with claim */
    const struct owner_remedy *remedy;
    const char *dir; /* as the caller named it */
    WCHAR **dirs;    /* owned, each too: directories still to be looked through */
    size_t n_dirs, cap_dirs, n_names;
    struct errmsg *why;
};

static void owner_narrow(char *out, size_t size, const WCHAR *text)
{
    if (!WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)size, NULL, NULL)) {
        out[0] = '\0';
    }
}

/* The account's name, or its number where it has none. */
static void owner_name(char *out, size_t size, PSID sid)
{
    WCHAR name[NAME_BYTES], domain[NAME_BYTES], *number;
    DWORD n = NAME_BYTES, m = NAME_BYTES;
    SID_NAME_USE use;

    (void)snprintf(out, size, "somebody");
    if (LookupAccountSidW(NULL, sid, name, &n, domain, &m, &use)) {
        owner_narrow(out, size, name);
    } else if (ConvertSidToStringSidW(sid, &number)) {
        owner_narrow(out, size, number);
        LocalFree(number);
    }
}

static enum err owner_refuse(const struct owner_walk *w, const WCHAR *path,
                             const struct owner_remedy *remedy, const char *cause, const char *who)
{
    char text[NAME_BYTES];

    owner_narrow(text, sizeof text, path);
    return errmsg_set(w->why, ERR_ACCESS, "%s %s%s; %s%s%s", text, cause, who, remedy->before,
                      w->dir, remedy->after);
}

static bool owner_others_may(const struct owner_walk *w, const struct os_acl_object *o)
{
    return os_acl_judge(o->security, (void *)w->user, w->use) != ERR_OK;
}

/* One object. With claim: belongs to the administrators then, unless it is a service's. */
static enum err owner_judge(const struct owner_walk *w, const WCHAR *path,
                            const struct os_acl_object *o)
{
    SECURITY_INFORMATION what = DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION;
    char who[NAME_BYTES];
    bool is_file;

    if (o->is_link) {
        return owner_refuse(w, path, w->remedy, "is a link to another place", "");
    }
    if (!os_acl_is_trusted(o->owner, (PSID)w->user)) {
        owner_name(who, sizeof who, o->owner);
        return owner_refuse(w, path, w->remedy, "belongs to ", who);
    }
    is_file = !(o->attributes & FILE_ATTRIBUTE_DIRECTORY);
    if ((!w->claim || (is_file && !w->accept)) && owner_others_may(w, o)) {
        return owner_refuse(w, path,
                            w->remedy != &check_remedy ? w->remedy
                            : is_file                  ? &accept_remedy
                                                       : &open_remedy,
                            w->use >= OS_ACL_MOVE
                                ? "can be moved or given away by others than administrators"
                                : "can be changed by others than administrators",
                            "");
    }
    if (!w->claim) {
        return ERR_OK;
    }
    if (!os_acl_is_trusted(o->owner, NULL)) {
        what |= OWNER_SECURITY_INFORMATION;
    }
    return SetKernelObjectSecurity(o->handle, what, (PSECURITY_DESCRIPTOR)&w->list.descriptor)
               ? ERR_OK
               : owner_refuse(w, path, &admin_remedy, "does not take a new access list", "");
}

/* What is gone meanwhile is fine. */
static enum err owner_look(struct owner_walk *w, const WCHAR *path, bool *is_dir)
{
    struct os_acl_object o;
    enum err e = os_acl_open(&o, path, w->claim ? WRITE_DAC | WRITE_OWNER : 0);

    *is_dir = false;
    if (e == ERR_NOTFOUND || e == ERR_NOMEM) {
        return e;
    }
    if (e) {
        return owner_refuse(w, path, w->remedy, "cannot be looked at: ", err_text(e));
    }
    e = owner_judge(w, path, &o);
    *is_dir = (o.attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    os_acl_close(&o);
    return e;
}

static enum err owner_push(struct owner_walk *w, const WCHAR *path)
{
    enum err e = VEC_ROOM(&w->dirs, &w->cap_dirs, w->n_dirs + 1, DIRS_MAX);
    size_t n = wcslen(path) + 1;
    WCHAR *copy = e ? NULL : mem_array(n, sizeof *copy);

    if (!copy) {
        return errmsg_set(w->why, e ? e : ERR_NOMEM, "%s: %s", w->dir, err_text(e ? e : ERR_NOMEM));
    }
    memcpy(copy, path, n * sizeof *copy);
    w->dirs[w->n_dirs++] = copy;
    return ERR_OK;
}

/* What is in one directory. Its names are as long as they can be opened. */
static enum err owner_look_in(struct owner_walk *w, const WCHAR *dir)
{
    WCHAR path[PATH_UNITS];
    WIN32_FIND_DATAW found;
    enum err e = ERR_OK;
    HANDLE h;
    bool is_dir;

    if (_snwprintf(path, PATH_UNITS, L"%ls\\*", dir) >= PATH_UNITS - 1) {
        return errmsg_set(w->why, ERR_INVALID, "%s: a path in it is too long", w->dir);
    }
    h = FindFirstFileW(path, &found);
    if (h == INVALID_HANDLE_VALUE) {
        return GetLastError() == ERROR_FILE_NOT_FOUND
                   ? ERR_OK
                   : owner_refuse(w, dir, w->remedy, "cannot be looked through", "");
    }
    do {
        if (wcscmp(found.cFileName, L".") == 0 || wcscmp(found.cFileName, L"..") == 0) {
            continue;
        }
        if (w->n_names++ >= NAMES_MAX) {
            e = errmsg_set(w->why, ERR_FULL, "%s holds more than %u files: it cannot be an agent's",
                           w->dir, NAMES_MAX);
        } else if (_snwprintf(path, PATH_UNITS, L"%ls\\%ls", dir, found.cFileName) >=
                   PATH_UNITS - 1) {
            e = errmsg_set(w->why, ERR_INVALID, "%s: a path in it is too long", w->dir);
        } else {
            e = owner_look(w, path, &is_dir);
            e = e == ERR_NOTFOUND ? ERR_OK : e;
            e = !e && is_dir ? owner_push(w, path) : e;
        }
    } while (!e && FindNextFileW(h, &found));
    FindClose(h);
    return e;
}

/* The directory itself first. ERR_NOTFOUND: there is none. */
static enum err owner_walk(struct owner_walk *w, const WCHAR *path)
{
    bool is_dir;
    enum err e = owner_look(w, path, &is_dir);

    e = !e && is_dir ? owner_push(w, path) : e;
    while (!e && w->n_dirs > 0) {
        WCHAR *dir = w->dirs[--w->n_dirs];

        e = owner_look_in(w, dir);
        mem_free(dir);
    }
    while (w->n_dirs > 0) {
        mem_free(w->dirs[--w->n_dirs]);
    }
    mem_free(w->dirs);
    return e;
}

/* A full path without a separator at its end. */
static enum err owner_full(WCHAR out[PATH_UNITS], const char *path, struct errmsg *why)
{
    WCHAR given[PATH_UNITS];
    DWORD n =
        os_win32_wide(given, PATH_UNITS, path) ? GetFullPathNameW(given, PATH_UNITS, out, NULL) : 0;

    if (n == 0 || n >= PATH_UNITS) {
        return errmsg_set(why, ERR_INVALID, "%s: not a path that can be used", path);
    }
    while (n > 3 && (out[n - 1] == L'\\' || out[n - 1] == L'/')) {
        out[--n] = L'\0';
    }
    return ERR_OK;
}

bool os_owner_find_foreign(struct os_owner_foreign *out, const char *dir)
{
    (void)out;
    (void)dir;
    return false; /* what is made there inherits the directory's access list */
}

/* So many units are the name of a volume's top, "C:\\" or "\\\\server\\share". */
static size_t owner_top(const WCHAR *full)
{
    size_t n = 0, parts = 0;

    if (full[0] != L'\\' || (full[2] == L'?' && full[5] == L':')) {
        return full[0] == L'\\' ? 7 : 3;
    }
    while (full[n] && parts < 4) {
        parts += full[n++] == L'\\';
    }
    return parts == 4 ? n - 1 : n;
}

/* Makes it the directory that it is in. False: it is a top. */
static bool owner_up(WCHAR *full)
{
    size_t n = wcslen(full), top = owner_top(full);

    if (n <= top) {
        return false;
    }
    while (n > top && full[n - 1] != L'\\') {
        n--;
    }
    full[n > top ? n - 1 : n] = L'\0';
    return true;
}

static enum err owner_begin(struct owner_walk *out, WCHAR full[PATH_UNITS], const char *path,
                            const struct owner_remedy *remedy, struct errmsg *why)
{
    enum err e = owner_full(full, path, why);

    *out = (struct owner_walk){.dir = path, .remedy = remedy, .use = OS_ACL_CHANGE, .why = why};
    return e || os_acl_user(out->user) == ERR_OK
               ? e
               : errmsg_set(why, ERR_IO, "the system does not say whom this runs as");
}

static enum err owner_check(const char *dir, const struct owner_remedy *remedy, struct errmsg *why)
{
    struct owner_walk w;
    WCHAR path[PATH_UNITS];
    enum err e = owner_begin(&w, path, dir, remedy, why);

    e = e ? e : owner_walk(&w, path);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

enum err os_owner_check(const char *dir, struct errmsg *why)
{
    return owner_check(dir, &check_remedy, why);
}

enum err os_owner_check_programs(const char *dir, struct errmsg *why)
{
    return owner_check(dir, &file_remedy, why);
}

enum err os_owner_check_file(const char *path, struct errmsg *why)
{
    struct owner_walk w;
    WCHAR full[PATH_UNITS];
    bool is_dir;
    enum err e = owner_begin(&w, full, path, &file_remedy, why);

    e = e ? e : owner_look(&w, full, &is_dir);
    if (!e && owner_up(full)) {
        e = owner_look(&w, full, &is_dir);
    }
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* One that is not there yet will be made, and is judged then. */
static enum err owner_above(struct owner_walk *w, WCHAR *full)
{
    enum err e = ERR_OK;
    bool is_dir;

    while (!e && owner_up(full)) {
        w->use = wcslen(full) <= owner_top(full) ? OS_ACL_TOP : OS_ACL_MOVE;
        e = owner_look(w, full, &is_dir);
        e = e == ERR_NOTFOUND ? ERR_OK : e;
    }
    return e;
}

enum err os_owner_check_above(const char *path, struct errmsg *why)
{
    struct owner_walk w;
    WCHAR full[PATH_UNITS];
    enum err e = owner_begin(&w, full, path, &above_remedy, why);

    return e ? e : owner_above(&w, full);
}

enum err os_owner_also_trust(const char *account, struct errmsg *why)
{
    WCHAR name[NAME_BYTES];

    return os_win32_wide(name, NAME_BYTES, account) && os_acl_also_trust(name) == ERR_OK
               ? ERR_OK
               : errmsg_set(why, ERR_NOTFOUND, "there is no account %s", account);
}

/* -- making one -- */

static bool owner_has(const WCHAR *dir, const WCHAR *name)
{
    WCHAR path[PATH_UNITS];

    return _snwprintf(path, PATH_UNITS, L"%ls\\%ls", dir, name) < PATH_UNITS - 1 &&
           GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES;
}

static bool owner_is_empty(const WCHAR *dir)
{
    WCHAR path[PATH_UNITS];
    WIN32_FIND_DATAW found;
    bool empty = true;
    HANDLE h = INVALID_HANDLE_VALUE;

    if (_snwprintf(path, PATH_UNITS, L"%ls\\*", dir) < PATH_UNITS - 1) {
        h = FindFirstFileW(path, &found);
    }
    if (h == INVALID_HANDLE_VALUE) {
        return true;
    }
    do {
        empty = wcscmp(found.cFileName, L".") == 0 || wcscmp(found.cFileName, L"..") == 0;
    } while (empty && FindNextFileW(h, &found));
    FindClose(h);
    return empty;
}

/* A new list for everything in C:\Windows would end this machine. */
static enum err owner_is_agents(const WCHAR *path, const char *dir, struct errmsg *why)
{
    static const WCHAR *const names[] = {L"agent.yaml", L"lock", L"tls"};
    const WCHAR *slash = wcsrchr(path, L'\\');

    if (!slash || slash[1] == L'\0' || wcslen(path) <= 3) {
        return errmsg_set(why, ERR_INVALID, "%s: a directory of the agent's own is needed", dir);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (owner_has(path, names[i])) {
            return ERR_OK;
        }
    }
    return owner_is_empty(path)
               ? ERR_OK
               : errmsg_set(why, ERR_INVALID,
                            "%s holds things that are not an agent's: take an empty directory, or "
                            "one that is not there yet",
                            dir);
}

static enum err owner_make(struct owner_walk *w, WCHAR *path)
{
    WCHAR *slash = wcsrchr(path, L'\\');
    char parent[PATH_UNITS];

    if (CreateDirectoryW(path, &w->list.attributes) || GetLastError() == ERROR_ALREADY_EXISTS) {
        return ERR_OK;
    }
    if (GetLastError() == ERROR_PATH_NOT_FOUND && slash) {
        enum err e;

        *slash = L'\0';
        owner_narrow(parent, sizeof parent, path);
        *slash = L'\\';
        e = os_mkdirs(parent, false);
        if (!e && CreateDirectoryW(path, &w->list.attributes)) {
            return ERR_OK;
        }
    }
    return errmsg_set(w->why, os_win32_last_error(),
                      "%s cannot be made: %s; run this as an administrator", w->dir,
                      err_text(os_win32_last_error()));
}

enum err os_owner_claim(const char *dir, const char *account, bool accept, struct errmsg *why)
{
    struct owner_walk w;
    WCHAR path[PATH_UNITS], name[NAME_BYTES];
    BYTE sid[SECURITY_MAX_SID_SIZE];
    enum err e = owner_begin(&w, path, dir, &check_remedy, why);

    if (!e && account) {
        e = os_owner_also_trust(account, why);
        if (!e && (!os_win32_wide(name, NAME_BYTES, account) || os_acl_account(sid, name))) {
            e = ERR_NOTFOUND;
        }
    }
    e = e ? e : owner_is_agents(path, dir, why);
    e = e ? e : os_owner_check_above(dir, why);
    if (!e && os_acl_private(&w.list, account ? sid : NULL)) {
        e = errmsg_set(why, ERR_IO, "the system does not say whom this runs as");
    }
    w.claim = true;
    w.accept = accept;
    e = e ? e : owner_make(&w, path);
    e = e ? e : os_owner_check_above(dir, why); /* also of what was made on the way */
    return e ? e : owner_walk(&w, path);
}
