/* Class SystemConfig: the hardware and software of the recorded system, told once at the end of a
 * session. Nothing here is about a process at work.
 *
 * Sizes follow the system, not the version alone: where Windows grew a record without a new version
 * the added fields are optional. u16 [n] = UTF-16 text in n units. */
#include "agent/decode/decode_class.h"
#include "agent/etw_guid.h"

static const struct layout_field cpu[] = {
    {"MHz", LAYOUT_U32, 0, 0, 0},
    {"NumberOfProcessors", LAYOUT_U32, 0, 0, 0},
    {"MemSize", LAYOUT_U32, 0, 0, 0},
    {"PageSize", LAYOUT_U32, 0, 0, 0},
    {"AllocationGranularity", LAYOUT_U32, 0, 0, 0},
    {"ComputerName", LAYOUT_W_FIXED, 0, 0, 256},
    {"DomainName", LAYOUT_W_FIXED, 0, 0, 134},
    {"HyperThreadingFlag", LAYOUT_PTR, 1, 0, 0},
    {"HighestUserAddress", LAYOUT_PTR, 3, 0, 0},
    {"ProcessorArchitecture", LAYOUT_U16, 3, 0, 0},
    {"ProcessorLevel", LAYOUT_U16, 3, 0, 0},
    {"ProcessorRevision", LAYOUT_U16, 3, 0, 0},
    {"PaeEnabled", LAYOUT_U8, 3, 0, 0},
    {"NxEnabled", LAYOUT_U8, 3, 0, 0},
    {"MemorySpeed", LAYOUT_U32, 3, 0, 0},
    {0},
};

static const struct layout_field physical_disk[] = {
    {"DiskNumber", LAYOUT_U32, 0, 0, 0},
    {"BytesPerSector", LAYOUT_U32, 0, 0, 0},
    {"SectorsPerTrack", LAYOUT_U32, 0, 0, 0},
    {"TracksPerCylinder", LAYOUT_U32, 0, 0, 0},
    {"Cylinders", LAYOUT_U64, 0, 0, 0},
    {"SCSIPort", LAYOUT_U32, 0, 0, 0},
    {"SCSIPath", LAYOUT_U32, 0, 0, 0},
    {"SCSITarget", LAYOUT_U32, 0, 0, 0},
    {"SCSILun", LAYOUT_U32, 0, 0, 0},
    {"Manufacturer", LAYOUT_W_FIXED, 0, 0, 256},
    {"PartitionCount", LAYOUT_U32, 0, 0, 0},
    {"WriteCacheEnabled", LAYOUT_U8, 0, 0, 0},
    {"Pad", LAYOUT_U8, 0, 0, 0},
    {"BootDriveLetter", LAYOUT_W_FIXED, 0, 0, 3},
    {"Spare", LAYOUT_W_FIXED, 0, 0, 2},
    {0},
};

static const struct layout_field logical_disk[] = {
    {"StartOffset", LAYOUT_U64, 0, 0, 0},
    {"PartitionSize", LAYOUT_U64, 0, 0, 0},
    {"DiskNumber", LAYOUT_U32, 0, 0, 0},
    {"Size", LAYOUT_U32, 0, 0, 0},
    {"DriveType", LAYOUT_U32, 0, 0, 0},
    {"DriveLetterString", LAYOUT_W_FIXED, 0, 0, 4},
    {"Pad1", LAYOUT_U32, 0, 0, 0},
    {"PartitionNumber", LAYOUT_U32, 0, 0, 0},
    {"SectorsPerCluster", LAYOUT_U32, 0, 0, 0},
    {"BytesPerSector", LAYOUT_U32, 0, 0, 0},
    {"Pad2", LAYOUT_U32, 0, 0, 0},
    {"NumberOfFreeClusters", LAYOUT_I64, 0, 0, 0},
    {"TotalNumberOfClusters", LAYOUT_I64, 0, 0, 0},
    {"FileSystem", LAYOUT_W_FIXED, 0, 0, 16},
    {"VolumeExt", LAYOUT_U32, 0, 0, 0},
    {"Pad3", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field nic[] = {
    {"PhysicalAddr", LAYOUT_HEX64, 0, 0, 0},   {"PhysicalAddrLen", LAYOUT_U32, 0, 0, 0},
    {"Ipv4Index", LAYOUT_U32, 0, 0, 0},        {"Ipv6Index", LAYOUT_U32, 0, 0, 0},
    {"NICDescription", LAYOUT_W, 0, 0, 0},     {"IpAddresses", LAYOUT_W, 0, 0, 0},
    {"DnsServerAddresses", LAYOUT_W, 0, 0, 0}, {0},
};

static const struct layout_field video[] = {
    {"MemorySize", LAYOUT_U32, 0, 0, 0},       {"XResolution", LAYOUT_U32, 0, 0, 0},
    {"YResolution", LAYOUT_U32, 0, 0, 0},      {"BitsPerPixel", LAYOUT_U32, 0, 0, 0},
    {"VRefresh", LAYOUT_U32, 0, 0, 0},         {"ChipType", LAYOUT_W_FIXED, 0, 0, 256},
    {"DACType", LAYOUT_W_FIXED, 0, 0, 256},    {"AdapterString", LAYOUT_W_FIXED, 0, 0, 256},
    {"BiosString", LAYOUT_W_FIXED, 0, 0, 256}, {"DeviceId", LAYOUT_W_FIXED, 0, 0, 256},
    {"StateFlags", LAYOUT_HEX32, 0, 0, 0},     {0},
};

static const struct layout_field services[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ServiceState", LAYOUT_U32, 0, 0, 0},
    {"SubProcessTag", LAYOUT_HEX32, 0, 0, 0},
    {"ServiceName", LAYOUT_W, 0, 0, 0},
    {"DisplayName", LAYOUT_W, 0, 0, 0},
    {"ProcessName", LAYOUT_W, 0, 0, 0},
    {"LoadOrderGroup", LAYOUT_W_OPT, 3, 0, 0},
    {"SvchostGroup", LAYOUT_W_OPT, 3, 0, 0},
    {0},
};

static const struct layout_field power[] = {
    {"s1", LAYOUT_U8, 0, 0, 0},   {"s2", LAYOUT_U8, 0, 0, 0},   {"s3", LAYOUT_U8, 0, 0, 0},
    {"s4", LAYOUT_U8, 0, 0, 0},   {"s5", LAYOUT_U8, 0, 0, 0},   {"Pad1", LAYOUT_U8, 0, 0, 0},
    {"Pad2", LAYOUT_U8, 0, 0, 0}, {"Pad3", LAYOUT_U8, 0, 0, 0}, {0},
};

static const struct layout_field network[] = {
    {"TcbTablePartitions", LAYOUT_U32, 0, 0, 0},
    {"MaxHashTableSize", LAYOUT_U32, 0, 0, 0},
    {"MaxUserPort", LAYOUT_U32, 0, 0, 0},
    {"TcpTimedWaitDelay", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field irq[] = {
    {"IRQAffinity", LAYOUT_HEX64, 0, 0, 0},
    {"IRQNum", LAYOUT_U32, 0, 0, 0},
    {"DeviceDescriptionLen", LAYOUT_U32, 0, 0, 0},
    {"DeviceDescription", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field pnp[] = {
    {"IDLength", LAYOUT_U32, 0, 0, 0},
    {"DescriptionLength", LAYOUT_U32, 0, 0, 0},
    {"FriendlyNameLength", LAYOUT_U32, 0, 0, 0},
    {"DeviceID", LAYOUT_W, 0, 0, 0},
    {"DeviceDescription", LAYOUT_W, 0, 0, 0},
    {"FriendlyName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field pnp_v5[] = {
    {"ClassGuid", LAYOUT_GUID, 0, 0, 0},
    {"UpperFiltersCount", LAYOUT_U32, 0, 0, 0},
    {"LowerFiltersCount", LAYOUT_U32, 0, 0, 0},
    {"DevStatus", LAYOUT_HEX32, 0, 0, 0},
    {"DevProblem", LAYOUT_U32, 0, 0, 0},
    {"DeviceID", LAYOUT_W, 0, 0, 0},
    {"DeviceDescription", LAYOUT_W, 0, 0, 0},
    {"FriendlyName", LAYOUT_W, 0, 0, 0},
    {"PdoName", LAYOUT_W, 0, 0, 0},
    {"ServiceName", LAYOUT_W, 0, 0, 0},
    {"Filters", LAYOUT_REST, 0, 0, 0},
    {0},
};

static const struct layout_field ide_channel[] = {
    {"TargetId", LAYOUT_U32, 0, 0, 0},          {"DeviceType", LAYOUT_U32, 0, 0, 0},
    {"DeviceTimingMode", LAYOUT_U32, 0, 0, 0},  {"LocationInformationLen", LAYOUT_U32, 0, 0, 0},
    {"LocationInformation", LAYOUT_W, 0, 0, 0}, {0},
};

static const struct layout layouts[] = {
    {10, 0, 0, "CPU", cpu},
    {11, 2, 0, "PhyDisk", physical_disk},
    {12, 2, 0, "LogDisk", logical_disk},
    {13, 2, 0, "NIC", nic},
    {14, 2, 0, "Video", video},
    {15, 2, 0, "Services", services},
    {16, 0, 0, "Power", power},
    {17, 2, 0, "Network", network},
    {21, 0, 0, "IRQ", irq},
    {22, 5, 0, "PnP", pnp_v5},
    {22, 0, 0, "PnP", pnp},
    {23, 2, 0, "IDEChannel", ide_channel},
};

const struct decode_class decode_system_config_class = {
    .guid = ETW_CLASS_SYSTEM_CONFIG,
    .name = "SystemConfig",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
