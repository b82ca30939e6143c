#include "common/wire/wire_admin.h"

#include "common/wire/wire_table.h"
#include "proto/query.pb-c.h"

#define PACK_BYTES   (256u << 10) /* memory for the list, and to repair text in */
#define STATUS_BYTES (64u << 10)  /* what the figures take, decoded */

#define OF struct wire_figure, Procfleet__V1__Figure
static const struct wire_field figure_fields[] = {
    WIRE_TEXT(name, WIRE_FIGURE_TEXT_MAX),
    WIRE_TEXT(labels, WIRE_FIGURE_TEXT_MAX),
    WIRE_NUM_ALWAYS(value),
    WIRE_TEXT(help, WIRE_FIGURE_TEXT_MAX),
    WIRE_END,
};
#undef OF
static const struct wire_table figure_table = WIRE_TABLE(wire_figure, figure, figure_fields);

#define OF struct wire_status_reply, Procfleet__V1__StatusReply
static const struct wire_field status_fields[] = {
    WIRE_TEXT(version, WIRE_FIGURE_TEXT_MAX),
    WIRE_NUM_ALWAYS(started_ns),
    WIRE_NUM_ALWAYS(now_ns),
    WIRE_LIST(figures, n, WIRE_FIGURES_MAX, &figure_table),
    WIRE_END,
};
#undef OF
const struct wire_table wire_admin_status_table =
    WIRE_TABLE(wire_status_reply, status_reply, status_fields);

/* -- what is one field -- */

#define OF struct wire_disconnect, Procfleet__V1__DisconnectRequest
static const struct wire_field disconnect_fields[] = {WIRE_CHARS(host), WIRE_END};
#undef OF
const struct wire_table wire_admin_disconnect_table =
    WIRE_TABLE(wire_disconnect, disconnect_request, disconnect_fields);

#define OF struct wire_disconnect_reply, Procfleet__V1__DisconnectReply
static const struct wire_field disconnected_fields[] = {WIRE_NUM_ALWAYS(connections), WIRE_END};
#undef OF
const struct wire_table wire_admin_disconnect_reply_table =
    WIRE_TABLE(wire_disconnect_reply, disconnect_reply, disconnected_fields);

#define OF struct wire_log_level, Procfleet__V1__SetLogLevelRequest
static const struct wire_field log_level_fields[] = {WIRE_CHARS(level), WIRE_END};
#undef OF
const struct wire_table wire_admin_log_level_table =
    WIRE_TABLE(wire_log_level, set_log_level_request, log_level_fields);

#define OF struct wire_log_level_reply, Procfleet__V1__SetLogLevelReply
static const struct wire_field log_level_reply_fields[] = {WIRE_CHARS(before), WIRE_END};
#undef OF
const struct wire_table wire_admin_log_level_reply_table =
    WIRE_TABLE(wire_log_level_reply, set_log_level_reply, log_level_reply_fields);

#define OF struct wire_forget, Procfleet__V1__ForgetHostRequest
static const struct wire_field forget_fields[] = {WIRE_CHARS(host), WIRE_END};
#undef OF
const struct wire_table wire_admin_forget_table =
    WIRE_TABLE(wire_forget, forget_host_request, forget_fields);

#define OF struct wire_forget_reply, Procfleet__V1__ForgetHostReply
static const struct wire_field forgotten_fields[] = {WIRE_NUM_ALWAYS(hosts), WIRE_END};
#undef OF
const struct wire_table wire_admin_forget_reply_table =
    WIRE_TABLE(wire_forget_reply, forget_host_reply, forgotten_fields);

WIRE_TABLE_OWNED(wire_admin_status_reply, wire_status_reply, wire_admin_status_table, PACK_BYTES, 0,
                 STATUS_BYTES)
WIRE_TABLE_PLAIN(wire_admin_disconnect, wire_disconnect, wire_admin_disconnect_table, PACK_BYTES)
WIRE_TABLE_PLAIN(wire_admin_disconnect_reply, wire_disconnect_reply,
                 wire_admin_disconnect_reply_table, PACK_BYTES)
WIRE_TABLE_PLAIN(wire_admin_log_level, wire_log_level, wire_admin_log_level_table, PACK_BYTES)
WIRE_TABLE_PLAIN(wire_admin_log_level_reply, wire_log_level_reply, wire_admin_log_level_reply_table,
                 PACK_BYTES)
WIRE_TABLE_PLAIN(wire_admin_forget, wire_forget, wire_admin_forget_table, PACK_BYTES)
WIRE_TABLE_PLAIN(wire_admin_forget_reply, wire_forget_reply, wire_admin_forget_reply_table,
                 PACK_BYTES)
