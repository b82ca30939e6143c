#include "common/rpc/rpc.h"

#include <string.h>

#include "proto/query.pb-c.h"
#include "proto/rpc.pb-c.h"

static const ProtobufCServiceDescriptor *const services[] = {
    &procfleet__v1__ingest__descriptor,
    &procfleet__v1__query__descriptor,
    &procfleet__v1__enroll__descriptor,
    &procfleet__v1__admin__descriptor,
};

/* "procfleet.v1.Query/Top" names method Top of service procfleet.v1.Query. */
bool rpc_method_exists(const char *name)
{
    const char *slash = strchr(name, '/');

    for (size_t i = 0; slash && i < sizeof services / sizeof *services; i++) {
        size_t n = strlen(services[i]->name);

        if (n == (size_t)(slash - name) && memcmp(services[i]->name, name, n) == 0) {
            return protobuf_c_service_descriptor_get_method_by_name(services[i], slash + 1) != NULL;
        }
    }
    return false;
}

uint32_t rpc_method_id(const char *name)
{
    uint32_t h = 2166136261u;

    for (const char *c = name; *c; c++) {
        h = (h ^ (uint8_t)*c) * 16777619u;
    }
    return h ? h : 1;
}
