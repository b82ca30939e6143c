/* Class EventTrace: what a log file says about itself. Nothing of it is a fact about a process;
 * the reader takes the clock from the header before anything is decoded.
 *
 * P = pointer of the record, w = UTF-16 text with terminator.
 *   header 0        always the first record: sizes, counts, LoggerName and LogFileName as pointers
 *                   of no meaning, TIME_ZONE_INFORMATION (172 bytes), padding, times; then w
 *                   session name, w file name
 *   extension 5, 32 the kernel's group masks, u32 × 8; 5 also u32 version of the kernel's events
 *   rundown end 8   all that lived before the session has been told
 *   64              GUID, u32 age, 8-bit path: the logger's own symbol file (only private loggers
 *                   write it)
 *   66              8-bit name of the system's build
 *   80              of containers: u16 version, u16 reserved, u32 kind, u64 offset of the counter,
 *                   GUID, GUID; all zero on the host, behind the header of unmerged logs since
 *                   Windows 10
 *
 * Lost events (its own class): the record itself is the message. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"

/* A real-time session dropped something here: of which CPU it does not say. */
static enum err decode_lost(struct event *out, enum event_kind kind, const struct raw_event *raw,
                            struct decode_text *text)
{
    (void)kind;
    (void)text;
    out->u.lost = (struct ev_lost){
        .all_cpus = true, .events = raw->opcode == 32, .buffers = raw->opcode == 33};
    return ERR_OK;
}

static const struct layout_field header[] = {
    {"BufferSize", LAYOUT_U32, 0, 0, 0},
    {"Version", LAYOUT_U32, 0, 0, 0},
    {"ProviderVersion", LAYOUT_U32, 0, 0, 0},
    {"NumberOfProcessors", LAYOUT_U32, 0, 0, 0},
    {"EndTime", LAYOUT_FILETIME, 0, 0, 0},
    {"TimerResolution", LAYOUT_U32, 0, 0, 0},
    {"MaxFileSize", LAYOUT_U32, 0, 0, 0},
    {"LogFileMode", LAYOUT_HEX32, 0, 0, 0},
    {"BuffersWritten", LAYOUT_U32, 0, 0, 0},
    {"StartBuffers", LAYOUT_U32, 0, 0, 0},
    {"PointerSize", LAYOUT_U32, 0, 0, 0},
    {"EventsLost", LAYOUT_U32, 0, 0, 0},
    {"CPUSpeed", LAYOUT_U32, 0, 0, 0},
    {"LoggerName", LAYOUT_PTR, 0, 0, 0},
    {"LogFileName", LAYOUT_PTR, 0, 0, 0},
    {"TimeZoneInformation", LAYOUT_BEGIN, 0, 0, 0},
    {"Bias", LAYOUT_I32, 0, 0, 0},
    {"StandardName", LAYOUT_W_FIXED, 0, 0, 32},
    {"StandardDate", LAYOUT_SYSTEMTIME, 0, 0, 0},
    {"StandardBias", LAYOUT_I32, 0, 0, 0},
    {"DaylightName", LAYOUT_W_FIXED, 0, 0, 32},
    {"DaylightDate", LAYOUT_SYSTEMTIME, 0, 0, 0},
    {"DaylightBias", LAYOUT_I32, 0, 0, 0},
    {"TimeZoneInformation", LAYOUT_END, 0, 0, 0},
    {"Padding", LAYOUT_U32, 0, 0, 0},
    {"BootTime", LAYOUT_FILETIME, 0, 0, 0},
    {"PerfFreq", LAYOUT_U64, 0, 0, 0},
    {"StartTime", LAYOUT_FILETIME, 0, 0, 0},
    {"ReservedFlags", LAYOUT_U32, 0, 0, 0},
    {"BuffersLost", LAYOUT_U32, 0, 0, 0},
    {"SessionNameString", LAYOUT_W_OPT, 0, 0, 0},
    {"LogFileNameString", LAYOUT_W_OPT, 0, 0, 0},
    {0},
};

static const struct layout_field extension[] = {
    {"GroupMask1", LAYOUT_HEX32, 0, 0, 0},       {"GroupMask2", LAYOUT_HEX32, 0, 0, 0},
    {"GroupMask3", LAYOUT_HEX32, 0, 0, 0},       {"GroupMask4", LAYOUT_HEX32, 0, 0, 0},
    {"GroupMask5", LAYOUT_HEX32, 0, 0, 0},       {"GroupMask6", LAYOUT_HEX32, 0, 0, 0},
    {"GroupMask7", LAYOUT_HEX32, 0, 0, 0},       {"GroupMask8", LAYOUT_HEX32, 0, 0, 0},
    {"KernelEventVersion", LAYOUT_U32, 2, 0, 0}, {0},
};

static const struct layout_field nothing[] = {{0}};

static const struct layout_field symbols[] = {
    {"GuidSig", LAYOUT_GUID, 0, 0, 0},
    {"Age", LAYOUT_U32, 0, 0, 0},
    {"PdbName", LAYOUT_A, 0, 0, 0},
    {0},
};

static const struct layout_field build[] = {
    {"BuildString", LAYOUT_A, 0, 0, 0},
    {0},
};

static const struct layout_field partition[] = {
    {"EventVersion", LAYOUT_U16, 0, 0, 0},
    {"Reserved", LAYOUT_U16, 0, 0, 0},
    {"PartitionType", LAYOUT_U32, 0, 0, 0},
    {"QpcOffsetFromRoot", LAYOUT_U64, 0, 0, 0},
    {"PartitionId", LAYOUT_GUID, 0, 0, 0},
    {"ParentId", LAYOUT_GUID, 0, 0, 0},
    {0},
};

static const struct layout_field rest[] = {
    {"Reserved", LAYOUT_REST, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {0, 0, 0, "Header", header},
    {5, 0, 0, "Extension", extension},
    {8, 0, 0, "RDComplete", nothing},
    {32, 0, 0, "EndExtension", extension},
    {64, 0, 0, "DbgIdRSDS", symbols},
    {66, 0, 0, "BuildInfo", build},
    {80, 0, 0, "PartitionInfoExtension", partition},
};

const struct decode_class decode_event_trace_class = {
    .guid = ETW_CLASS_EVENT_TRACE,
    .name = "EventTrace",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};

static const struct decode_op ops[] = {
    {32, 0, EV_LOST, decode_lost},
    {33, 0, EV_LOST, decode_lost},
    {34, 0, EV_LOST, decode_lost},
};

static const struct layout lost_layouts[] = {
    {32, 0, 0, "RTLostEvent", rest},
    {33, 0, 0, "RTLostBuffer", rest},
    {34, 0, 0, "RTLostFile", rest},
};

const struct decode_class decode_lost_event_class = {
    .guid = ETW_CLASS_LOST_EVENT,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "RT_LostEvent",
    .layouts = lost_layouts,
    .n_layouts = sizeof lost_layouts / sizeof lost_layouts[0],
};
