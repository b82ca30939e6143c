/* Only metadata is looked at, so that root finds what a service will fail at without opening a file
 * that another user chose. */
#include "common/os/os_owner.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 10000u

static void user_name(char *out, size_t size, uid_t uid)
{
    char room[4096];
    struct passwd entry, *found = NULL;

    if (getpwuid_r(uid, &entry, room, sizeof room, &found) == 0 && found) {
        (void)snprintf(out, size, "%s", found->pw_name);
    } else {
        (void)snprintf(out, size, "%lu", (unsigned long)uid);
    }
}

/* Whether the owner of the directory could read the file. */
static bool is_foreign(const struct stat *dir, const struct stat *file)
{
    bool by_group = file->st_gid == dir->st_gid && (file->st_mode & S_IRGRP);

    return file->st_uid != dir->st_uid && !by_group && !(file->st_mode & S_IROTH) &&
           !S_ISLNK(file->st_mode);
}

static bool is_ours(const char *name, bool in_top)
{
    static const char *const names[] = {"lock",      "wal",         "segments", "catalogue", "feed",
                                        "hosts",     "hosts.new",   "run",      "spool",     "tls",
                                        "forgotten", "ticket.keys", "pki"};
    bool found = !in_top && strcmp(name, "lost+found") != 0 && strcmp(name, "ca.key") != 0;

    for (size_t i = 0; i < sizeof names / sizeof *names && in_top && !found; i++) {
        found = strcmp(name, names[i]) == 0;
    }
    return found;
}

/* One directory; in_top: and those in it. */
static bool dir_find_foreign(struct os_owner_foreign *out, const char *path, const struct stat *top,
                             bool in_top)
{
    DIR *d = opendir(path);
    bool found = false;
    const struct dirent *entry;
    unsigned n = 0;

    while (d && !found && n++ < NAMES_MAX && (entry = readdir(d)) != NULL) {
        char child[sizeof out->path];
        struct stat st;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            !is_ours(entry->d_name, in_top) ||
            snprintf(child, sizeof child, "%s/%s", path, entry->d_name) >= (int)sizeof child ||
            lstat(child, &st) != 0) {
            continue;
        }
        if (is_foreign(top, &st)) {
            memcpy(out->path, child, sizeof child);
            user_name(out->of, sizeof out->of, st.st_uid);
            user_name(out->user, sizeof out->user, top->st_uid);
            found = true;
        } else if (in_top && S_ISDIR(st.st_mode)) {
            found = dir_find_foreign(out, child, top, false);
        }
    }
    if (d) {
        closedir(d);
    }
    return found;
}

bool os_owner_find_foreign(struct os_owner_foreign *out, const char *dir)
{
    struct stat top;

    return stat(dir, &top) == 0 && S_ISDIR(top.st_mode) && dir_find_foreign(out, dir, &top, true);
}

/* The directory, or the nearest above it that there is. */
static bool nearest(char *path, size_t size, const char *dir, struct stat *st)
{
    if (snprintf(path, size, "%s", dir) >= (int)size) {
        return false;
    }
    while (stat(path, st) != 0) {
        char *slash = strrchr(path, '/');

        if (errno != ENOENT || !slash || slash == path) {
            return false;
        }
        *slash = '\0';
    }
    return true;
}

enum err os_owner_check(const char *dir, struct errmsg *why)
{
    struct os_owner_foreign f;
    char path[sizeof f.path];
    struct stat st;

    if (geteuid() == 0 && nearest(path, sizeof path, dir, &st) && st.st_uid != 0) {
        user_name(f.user, sizeof f.user, st.st_uid);
        return errmsg_set(why, ERR_ACCESS,
                          "%s belongs to user %s, who could not read what root makes there: run "
                          "this as that user (runuser -u %s -- ...)",
                          path, f.user, f.user);
    }
    if (os_owner_find_foreign(&f, dir)) {
        return errmsg_set(why, ERR_ACCESS,
                          "%s belongs to %s and user %s cannot read it, as after a start as %s by "
                          "mistake: as root, chown -R %s: %s",
                          f.path, f.of, f.user, f.of, f.user, dir);
    }
    return ERR_OK;
}

enum err os_owner_check_file(const char *path, struct errmsg *why)
{
    (void)path;
    (void)why;
    return ERR_OK;
}

enum err os_owner_check_programs(const char *dir, struct errmsg *why)
{
    (void)dir;
    (void)why;
    return ERR_OK;
}

enum err os_owner_check_above(const char *path, struct errmsg *why)
{
    (void)path;
    (void)why;
    return ERR_OK;
}

enum err os_owner_also_trust(const char *account, struct errmsg *why)
{
    (void)account;
    (void)why;
    return ERR_OK;
}

enum err os_owner_claim(const char *dir, const char *account, bool accept, struct errmsg *why)
{
    (void)account;
    (void)accept;
    return errmsg_set(why, ERR_UNSUPPORTED,
                      "%s: directories are made ready on Windows only; here the package does it",
                      dir);
}
