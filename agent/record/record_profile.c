/* The profiles are those of packaging/windows/procfleet.wprp; a test compares them. */
#include "agent/record/record_profile.h"

#include <string.h>

#include "agent/conf/etw_conf.h"
#include "agent/source/etw_guid.h"

#define FILE_NAMES 0x200u /* EVENT_TRACE_FLAG_DISK_FILE_IO: files of disk requests by name */
#define BASE \
    (ETW_FLAG_PROCESS | ETW_FLAG_THREAD | ETW_FLAG_IMAGE | (uint32_t)ETW_FLAG_PROCESS_COUNTERS)

enum { CSWITCH, READY, SAMPLE, DISK_READ, FAULT, CREATE, READ, WRITE };

static const struct record_stack stacks[] = {
    [CSWITCH] = {"CSwitch", ETW_CLASS_THREAD, 36},
    [READY] = {"ReadyThread", ETW_CLASS_THREAD, 50},
    [SAMPLE] = {"SampledProfile", ETW_CLASS_PERF_INFO, 46},
    [DISK_READ] = {"DiskReadInit", ETW_CLASS_DISK_IO, 12},
    [FAULT] = {"HardFault", ETW_CLASS_PAGE_FAULT, 32},
    [CREATE] = {"FileCreate", ETW_CLASS_FILE_IO, 64},
    [READ] = {"FileRead", ETW_CLASS_FILE_IO, 67},
    [WRITE] = {"FileWrite", ETW_CLASS_FILE_IO, 68},
};

enum { CLR, TCPIP, DNS, HTTP, RPC };

static const struct source_provider providers[] = {
    [CLR] = {.guid = ETW_PROVIDER_CLR, .level = 4, .any = 0x1c011},
    [TCPIP] = {.guid = ETW_GUID(0x2f07e2ee, 0x15db, 0x40f1, 0x90, 0xef, 0x9d, 0x7b, 0xa2, 0x82,
                                0x18, 0x8a),
               .level = 4},
    [DNS] = {.guid = ETW_GUID(0x1c95126e, 0x7eea, 0x49a9, 0xa3, 0xfe, 0xa3, 0x78, 0xb0, 0x3d, 0xdb,
                              0x4d),
             .level = 4},
    [HTTP] = {.guid = ETW_GUID(0xdd5ef90a, 0x6398, 0x47a4, 0xad, 0x34, 0x4d, 0xce, 0xcd, 0xef, 0x79,
                               0x5f),
              .level = 4},
    [RPC] = {.guid = ETW_GUID(0x6ad52b32, 0xd609, 0x4be9, 0xae, 0x07, 0xce, 0x8d, 0xae, 0x93, 0x7e,
                              0x39),
             .level = 4},
};

#define BIT(n) (1u << (n))

static const struct {
    const char *name;
    uint32_t flags;
    unsigned stacks, providers; /* BIT of each */
    bool clr_rundown;
} profiles[] = {
    /* who runs, waits and is ready */
    {"cpu",
     BASE | ETW_FLAG_CSWITCH | ETW_FLAG_DISPATCHER | ETW_FLAG_PROFILE | ETW_FLAG_DPC |
         ETW_FLAG_INTERRUPT,
     BIT(CSWITCH) | BIT(READY) | BIT(SAMPLE), 0, false},
    /* requests of disks, and who faults from disk */
    {"disk",
     BASE | ETW_FLAG_DISK_IO | ETW_FLAG_DISK_INIT | ETW_FLAG_HARD_FAULTS | ETW_FLAG_FILE_IO |
         FILE_NAMES,
     BIT(DISK_READ) | BIT(FAULT), 0, false},
    /* collections, compiled methods, exceptions and contention of .NET */
    {"dotnet", BASE | ETW_FLAG_CSWITCH | ETW_FLAG_PROFILE, BIT(SAMPLE), BIT(CLR), true},
    /* operations on files and the registry */
    {"file",
     BASE | ETW_FLAG_FILE_IO | ETW_FLAG_FILE_IO_INIT | FILE_NAMES | ETW_FLAG_REGISTRY |
         ETW_FLAG_DISK_IO | ETW_FLAG_HARD_FAULTS,
     BIT(CREATE) | BIT(READ) | BIT(WRITE), 0, false},
    /* a bit of everything */
    {"general",
     BASE | ETW_FLAG_CSWITCH | ETW_FLAG_PROFILE | ETW_FLAG_DISK_IO | ETW_FLAG_HARD_FAULTS |
         ETW_FLAG_NETWORK | FILE_NAMES,
     BIT(SAMPLE), BIT(CLR) | BIT(DNS), false},
    /* connections, names and requests of HTTP */
    {"network", BASE | ETW_FLAG_NETWORK, 0, BIT(TCPIP) | BIT(DNS) | BIT(HTTP) | BIT(RPC), false},
};

#define PROFILES (sizeof profiles / sizeof *profiles)

static void record_add_stack(struct record_plan *plan, const struct record_stack *s)
{
    for (size_t i = 0; i < plan->n_stacks; i++) {
        if (plan->stacks[i].name == s->name) {
            return;
        }
    }
    plan->stacks[plan->n_stacks++] = *s;
}

static void record_add_provider(struct record_plan *plan, const struct source_provider *p)
{
    for (size_t i = 0; i < plan->n_providers; i++) {
        if (memcmp(plan->providers[i].guid, p->guid, sizeof p->guid) == 0) {
            return;
        }
    }
    plan->providers[plan->n_providers++] = *p;
}

_Static_assert(sizeof stacks / sizeof *stacks <= RECORD_STACKS, "all of them at once");
_Static_assert(sizeof providers / sizeof *providers <= RECORD_PROVIDERS, "likewise");

enum err record_profile_add(struct record_plan *plan, const char *name, size_t n)
{
    size_t i = 0;

    while (i < PROFILES &&
           (strlen(profiles[i].name) != n || memcmp(profiles[i].name, name, n) != 0)) {
        i++;
    }
    if (i == PROFILES) {
        return ERR_NOTFOUND;
    }
    plan->flags |= profiles[i].flags;
    plan->clr_rundown = plan->clr_rundown || profiles[i].clr_rundown;
    for (size_t k = 0; k < sizeof stacks / sizeof *stacks; k++) {
        if (profiles[i].stacks & BIT(k)) {
            record_add_stack(plan, &stacks[k]);
        }
    }
    for (size_t k = 0; k < sizeof providers / sizeof *providers; k++) {
        if (profiles[i].providers & BIT(k)) {
            record_add_provider(plan, &providers[k]);
        }
    }
    return ERR_OK;
}
