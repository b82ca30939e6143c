#include "agent/decode/decode_class.h"

const struct decode_class *const decode_classes[] = {
    &decode_thread_class,     &decode_perf_info_class,      &decode_stack_walk_class,
    &decode_page_fault_class, &decode_disk_io_class,        &decode_file_io_class,
    &decode_tcp_ip_class,     &decode_udp_ip_class,         &decode_registry_class,
    &decode_image_class,      &decode_process_class,        &decode_image_id_class,
    &decode_sys_config_class, &decode_event_trace_class,    &decode_system_config_class,
    &decode_lost_event_class, &decode_kernel_process_class,
};

const size_t decode_classes_n = sizeof decode_classes / sizeof decode_classes[0];

const struct decode_class *decode_class_find(const struct raw_event *raw)
{
    for (size_t i = 0; i < decode_classes_n; i++) {
        const struct decode_class *k = decode_classes[i];

        if (k->form == raw->form && memcmp(k->guid, raw->guid, sizeof raw->guid) == 0) {
            return k;
        }
    }
    return NULL;
}
