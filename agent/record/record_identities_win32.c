/* Modules of all processes that may be opened, and of the kernel. A file is read once, however
 * often it is loaded; one that cannot be read has no identity and is left out. */
#include "agent/record/record_identities.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/schema/schema_system.h"
#include "agent/own/own.h"
#include "agent/record/record_pe.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/os/win32.h"

#define PATH_UNITS  1024
#define PATH_BYTES  (3 * PATH_UNITS)
#define FILES_MAX   16384u
#define IMAGES_MAX  200000u /* loads */
#define DRIVERS_MAX 1024

struct identities {
    struct own *own;
    struct map by_path; /* hash of the path to its place in files */
    struct record_pe *files;
    size_t n, cap;
    struct record_identities *out;
};

static bool file_read(void *ctx, uint64_t offset, void *p, size_t n)
{
    FILE *f = ctx;

    return offset <= INT64_MAX && fseeko(f, (off_t)offset, SEEK_SET) == 0 && fread(p, 1, n, f) == n;
}

/* NULL: there is no room. Two paths of one hash, of 64 bits, are taken for one. */
static const struct record_pe *identity_of(struct identities *ids, const char *path)
{
    uint64_t key = hash_bytes(path, strlen(path), 0), place = map_get(&ids->by_path, key);
    struct record_pe_input in = {.read = file_read};
    struct record_pe *pe;
    FILE *f;

    if (place) {
        return &ids->files[place - 1];
    }
    if (map_reserve(&ids->by_path) || VEC_ROOM(&ids->files, &ids->cap, ids->n + 1, FILES_MAX)) {
        return NULL;
    }
    pe = &ids->files[ids->n++];
    *pe = (struct record_pe){.size = 0};
    map_put(&ids->by_path, key, ids->n);
    f = os_fopen(path, "rb");
    if (f) {
        in.ctx = f;
        if (record_pe_read(pe, &in)) {
            *pe = (struct record_pe){.size = 0};
        }
        (void)fclose(f);
    }
    return pe;
}

static void image_write(struct identities *ids, uint32_t pid, uint64_t base, const WCHAR *wide)
{
    char path[PATH_BYTES];
    const struct record_pe *pe;
    struct own_image image = {.pid = pid, .base = base};

    if (!WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, sizeof path, NULL, NULL)) {
        return;
    }
    pe = identity_of(ids, path);
    if (!pe || !pe->has_symbols || ids->out->images == IMAGES_MAX) {
        return;
    }
    image.size = pe->size;
    image.stamp = pe->stamp;
    image.age = pe->age;
    memcpy(image.rsds, pe->rsds, sizeof image.rsds);
    image.pdb = str_make(pe->pdb);
    image.path = str_make(path);
    own_image(ids->own, &image);
    ids->out->images++;
}

static void images_of_process(struct identities *ids, DWORD pid)
{
    HANDLE h = CreateToolhelp32Snapshot(TH32CS_SNAPMODULE | TH32CS_SNAPMODULE32, pid);
    MODULEENTRY32W m = {.dwSize = sizeof m};

    if (h == INVALID_HANDLE_VALUE) {
        return;
    }
    for (BOOL more = Module32FirstW(h, &m); more; more = Module32NextW(h, &m)) {
        image_write(ids, pid, (uint64_t)(uintptr_t)m.modBaseAddr, m.szExePath);
    }
    CloseHandle(h);
}

/* "\\SystemRoot\\…" is below the directory of Windows, "\\??\\C:\\…" is C:. */
static void images_of_kernel(struct identities *ids)
{
    static const WCHAR root[] = L"\\SystemRoot\\", dos[] = L"\\??\\";
    const size_t root_n = sizeof root / sizeof *root - 1, dos_n = sizeof dos / sizeof *dos - 1;
    WCHAR name[PATH_UNITS], path[PATH_UNITS];
    void *bases[DRIVERS_MAX];
    DWORD bytes = 0;
    UINT n;

    if (!EnumDeviceDrivers(bases, sizeof bases, &bytes)) {
        return;
    }
    for (size_t i = 0; i < bytes / sizeof *bases && i < DRIVERS_MAX; i++) {
        const WCHAR *p = name;

        if (!bases[i] || !GetDeviceDriverFileNameW(bases[i], name, PATH_UNITS)) {
            continue;
        }
        if (_wcsnicmp(name, root, root_n) == 0) {
            n = GetWindowsDirectoryW(path, PATH_UNITS);
            if (n == 0 || n + wcslen(name + root_n) + 2 > PATH_UNITS) {
                continue;
            }
            path[n] = L'\\';
            wcscpy_s(path + n + 1, PATH_UNITS - n - 1, name + root_n);
            p = path;
        } else if (wcsncmp(name, dos, dos_n) == 0) {
            p = name + dos_n;
        }
        image_write(ids, 0, (uint64_t)(uintptr_t)bases[i], p);
    }
}

static void images_write(struct identities *ids)
{
    HANDLE h = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    PROCESSENTRY32W p = {.dwSize = sizeof p};

    images_of_kernel(ids);
    if (h == INVALID_HANDLE_VALUE) {
        return;
    }
    for (BOOL more = Process32FirstW(h, &p); more; more = Process32NextW(h, &p)) {
        if (p.th32ProcessID) {
            images_of_process(ids, p.th32ProcessID);
        }
    }
    CloseHandle(h);
}

static void schema_write(void *ctx, uint8_t opcode, const uint8_t *p, size_t n)
{
    struct identities *ids = ctx;

    own_schema(ids->own, opcode, p, n);
    ids->out->schemas++;
}

void record_identities_write(const struct record_plan *plan, struct record_identities *out)
{
    struct identities ids = {.out = out};
    struct schema_system *sys = NULL;

    *out = (struct record_identities){.images = 0};
    if (own_open(&ids.own)) {
        return;
    }
    if (own_listens(ids.own)) {
        if (plan->n_providers && schema_system_open(&sys)) {
            sys = NULL;
        }
        for (size_t i = 0; sys && i < plan->n_providers; i++) {
            err_ignore(schema_system_each(sys, plan->providers[i].guid, schema_write, &ids));
        }
        images_write(&ids); /* the resolver's own among them */
    }
    schema_system_close(sys);
    own_close(ids.own);
    map_fini(&ids.by_path);
    mem_free(ids.files);
}
