/* Class SystemConfig: the hardware and software of the recorded system, told once at the end of a
 * session. Nothing here is about a process at work, so there are no facts.
 *
 * Texts of a fixed number of UTF-16 units end at their first NUL. Records of systems before Vista
 * (version 0) that differ are not described. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"

static const struct layout_field cpu[] = {
    {"MHz", LAYOUT_U32, 0, 0, 0},
    {"NumberOfProcessors", LAYOUT_U32, 0, 0, 0},
    {"MemSize", LAYOUT_U32, 0, 0, 0},
    {"PageSize", LAYOUT_U32, 0, 0, 0},
    {"AllocationGranularity", LAYOUT_U32, 0, 0, 0},
    {"ComputerName", LAYOUT_W_FIXED, 0, 0, 256},
    {"DomainName", LAYOUT_W_FIXED, 0, 1, 132},
    {"DomainName", LAYOUT_W_FIXED, 2, 0, 134},
    {"HyperThreadingFlag", LAYOUT_PTR, 0, 0, 0},
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
    {"LoadOrderGroup", LAYOUT_W, 3, 0, 0},
    {"SvchostGroup", LAYOUT_W, 3, 0, 0},
    {0},
};

static const struct layout_field power[] = {
    {"S1", LAYOUT_U8, 0, 0, 0},   {"S2", LAYOUT_U8, 0, 0, 0},   {"S3", LAYOUT_U8, 0, 0, 0},
    {"S4", LAYOUT_U8, 0, 0, 0},   {"S5", LAYOUT_U8, 0, 0, 0},   {"Pad1", LAYOUT_U8, 0, 0, 0},
    {"Pad2", LAYOUT_U8, 0, 0, 0}, {"Pad3", LAYOUT_U8, 0, 0, 0}, {0},
};

static const struct layout_field network[] = {
    {"TcbTablePartitions", LAYOUT_U32, 0, 0, 0},
    {"MaxHashTableSize", LAYOUT_U32, 0, 0, 0},
    {"MaxUserPort", LAYOUT_U32, 0, 0, 0},
    {"TcpTimedWaitDelay", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field optical_disk[] = {
    {"DiskNumber", LAYOUT_U16, 0, 0, 0},
    {"BusType", LAYOUT_U16, 0, 0, 0},
    {"DeviceType", LAYOUT_U16, 0, 0, 0},
    {"MediaType", LAYOUT_U16, 0, 0, 0},
    {"StartingOffset", LAYOUT_U64, 0, 0, 0},
    {"Size", LAYOUT_U64, 0, 0, 0},
    {"NumberOfFreeBlocks", LAYOUT_U64, 0, 0, 0},
    {"TotalNumberOfBlocks", LAYOUT_U64, 0, 0, 0},
    {"NextWritableAddress", LAYOUT_U64, 0, 0, 0},
    {"NumberOfSessions", LAYOUT_U32, 0, 0, 0},
    {"NumberOfTracks", LAYOUT_U32, 0, 0, 0},
    {"BytesPerSector", LAYOUT_U32, 0, 0, 0},
    {"DiscStatus", LAYOUT_U16, 0, 0, 0},
    {"LastSessionStatus", LAYOUT_U16, 0, 0, 0},
    {"DriveLetter", LAYOUT_W, 0, 0, 0},
    {"FileSystemName", LAYOUT_W, 0, 0, 0},
    {"DeviceName", LAYOUT_A, 0, 0, 0},
    {"ManufacturerName", LAYOUT_A, 0, 0, 0},
    {0},
};

static const struct layout_field irq[] = {
    {"IRQAffinity", LAYOUT_HEX64, 0, 0, 0},
    {"IRQGroup", LAYOUT_U16, 3, 0, 0},
    {"Reserved", LAYOUT_U16, 3, 0, 0},
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
    {"PdoName", LAYOUT_W, 3, 0, 0},
    {0},
};

/* The names of as many upper and then lower filters as were counted. */
static const struct layout_field pnp_v4[] = {
    {"ClassGuid", LAYOUT_GUID, 0, 0, 0},
    {"UpperFiltersCount", LAYOUT_U32, 0, 0, 0},
    {"LowerFiltersCount", LAYOUT_U32, 0, 0, 0},
    {"DevStatus", LAYOUT_HEX32, 5, 0, 0},
    {"DevProblem", LAYOUT_U32, 5, 0, 0},
    {"DeviceID", LAYOUT_W, 0, 0, 0},
    {"DeviceDescription", LAYOUT_W, 0, 0, 0},
    {"FriendlyName", LAYOUT_W, 0, 0, 0},
    {"PdoName", LAYOUT_W, 0, 0, 0},
    {"ServiceName", LAYOUT_W, 0, 0, 0},
    {"Filters", LAYOUT_W_REST, 0, 0, 0},
    {0},
};

static const struct layout_field ide_channel[] = {
    {"TargetId", LAYOUT_U32, 0, 0, 0},          {"DeviceType", LAYOUT_U32, 0, 0, 0},
    {"DeviceTimingMode", LAYOUT_U32, 0, 0, 0},  {"LocationInformationLen", LAYOUT_U32, 0, 0, 0},
    {"LocationInformation", LAYOUT_W, 0, 0, 0}, {0},
};

static const struct layout_field numa_node[] = {
    {"NodeCount", LAYOUT_U32, 0, 0, 0},
    {"NodeMap", LAYOUT_HEX64, 0, 0, LAYOUT_TO_END},
    {0},
};

static const struct layout_field platform[] = {
    {"SystemManufacturer", LAYOUT_W, 0, 0, 0},
    {"SystemProductName", LAYOUT_W, 0, 0, 0},
    {"BiosDate", LAYOUT_W, 0, 0, 0},
    {"BiosVersion", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field processor_group[] = {
    {"GroupCount", LAYOUT_U32, 0, 0, 0},
    {"Affinity", LAYOUT_PTR, 0, 0, LAYOUT_TO_END},
    {0},
};

static const struct layout_field processor_number[] = {
    {"ProcessorCount", LAYOUT_U32, 0, 0, 0},
    {"ProcessorNumber", LAYOUT_U32, 0, 0, LAYOUT_TO_END},
    {0},
};

static const struct layout_field dpi[] = {
    {"MachineDPI", LAYOUT_U32, 0, 0, 0},
    {"UserDPI", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field code_integrity[] = {
    {"CodeIntegrityInfo", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field telemetry[] = {
    {"MachineId", LAYOUT_GUID, 0, 0, 0},
    {0},
};

static const struct layout_field defragmentation[] = {
    {"AlignmentClusters", LAYOUT_U64, 0, 0, 0},
    {"AvgFreeSpaceSize", LAYOUT_U64, 0, 0, 0},
    {"ClustersPerSlab", LAYOUT_U64, 0, 0, 0},
    {"FragmentedDirectoryExtents", LAYOUT_U64, 0, 0, 0},
    {"FragmentedExtents", LAYOUT_U64, 0, 0, 0},
    {"FreeSpaceCount", LAYOUT_U64, 0, 0, 0},
    {"LargestFreeSpaceSize", LAYOUT_U64, 0, 0, 0},
    {"LastRunActualPurgeClusters", LAYOUT_U64, 0, 0, 0},
    {"LastRunClustersTrimmed", LAYOUT_U64, 0, 0, 0},
    {"LastRunFullDefragTime", LAYOUT_U64, 0, 0, 0},
    {"LastRunTime", LAYOUT_U64, 0, 0, 0},
    {"MFTSize", LAYOUT_U64, 0, 0, 0},
    {"TotalClusters", LAYOUT_U64, 0, 0, 0},
    {"TotalUsedClusters", LAYOUT_U64, 0, 0, 0},
    {"AvgFragmentsPerFile", LAYOUT_U32, 0, 0, 0},
    {"BytesPerCluster", LAYOUT_U32, 0, 0, 0},
    {"DirectoryCount", LAYOUT_U32, 0, 0, 0},
    {"FragmentedDirectories", LAYOUT_U32, 0, 0, 0},
    {"FragmentedFiles", LAYOUT_U32, 0, 0, 0},
    {"FragmentedSpace", LAYOUT_U32, 0, 0, 0},
    {"HardwareIssue", LAYOUT_U32, 0, 0, 0},
    {"InUseMFTRecords", LAYOUT_U32, 0, 0, 0},
    {"InUseSlabs", LAYOUT_U32, 0, 0, 0},
    {"LastRunActualPurgeSlabs", LAYOUT_U32, 0, 0, 0},
    {"LastRunInitialBackedSlabs", LAYOUT_U32, 0, 0, 0},
    {"LastRunPercentFragmentation", LAYOUT_U32, 0, 0, 0},
    {"LastRunPinnedSlabs", LAYOUT_U32, 0, 0, 0},
    {"LastRunPotentialPurgeSlabs", LAYOUT_U32, 0, 0, 0},
    {"LastRunSpaceInefficientSlabs", LAYOUT_U32, 0, 0, 0},
    {"LastRunTrimmedSlabs", LAYOUT_U32, 0, 0, 0},
    {"LastRunUnknownEvictFailSlabs", LAYOUT_U32, 0, 0, 0},
    {"LastRunVolsnapPinnedSlabs", LAYOUT_U32, 0, 0, 0},
    {"MFTFragmentCount", LAYOUT_U32, 0, 0, 0},
    {"MovableFiles", LAYOUT_U32, 0, 0, 0},
    {"TotalMFTRecords", LAYOUT_U32, 0, 0, 0},
    {"TotalSlabs", LAYOUT_U32, 0, 0, 0},
    {"UnmovableFiles", LAYOUT_U32, 0, 0, 0},
    {"VolumeId", LAYOUT_GUID, 0, 0, 0},
    {"VolumePathNames", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field mobile[] = {
    {"BootLoaderVersion", LAYOUT_W, 0, 0, 0},
    {"FirmwareRevision", LAYOUT_W, 0, 0, 0},
    {"FriendlyName", LAYOUT_W, 0, 0, 0},
    {"HardwareRevision", LAYOUT_W, 0, 0, 0},
    {"Manufacturer", LAYOUT_W, 0, 0, 0},
    {"ManufacturerDisplayName", LAYOUT_W, 0, 0, 0},
    {"ManufacturerModelName", LAYOUT_W, 0, 0, 0},
    {"MobileOperatorDisplayName", LAYOUT_W, 0, 0, 0},
    {"MobileOperatorName", LAYOUT_W, 0, 0, 0},
    {"ModelName", LAYOUT_W, 0, 0, 0},
    {"RadioHardwareRevision", LAYOUT_W, 0, 0, 0},
    {"RadioSoftwareRevision", LAYOUT_W, 0, 0, 0},
    {"ROMVersion", LAYOUT_W, 0, 0, 0},
    {"SOCVersion", LAYOUT_W, 0, 0, 0},
    {"HardwareVariant", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field mobile_v3[] = {
    {"DeviceManufacturer", LAYOUT_W, 0, 0, 0},
    {"DeviceManufacturerDisplayName", LAYOUT_W, 0, 0, 0},
    {"DeviceModel", LAYOUT_W, 0, 0, 0},
    {"DeviceModelDisplayName", LAYOUT_W, 0, 0, 0},
    {"MobileOperator", LAYOUT_W, 0, 0, 0},
    {"MobileOperatorDisplayName", LAYOUT_W, 0, 0, 0},
    {"HardwareVersion", LAYOUT_W, 0, 0, 0},
    {"SocVersion", LAYOUT_W, 0, 0, 0},
    {"RadioHardwareVersion", LAYOUT_W, 0, 0, 0},
    {"RadioSoftwareVersion", LAYOUT_W, 0, 0, 0},
    {"BspVersion", LAYOUT_W, 0, 0, 0},
    {"OemSoftwareVersion", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field mobile_v4[] = {
    {"DeviceManufacturer", LAYOUT_W, 0, 0, 0}, {"DeviceManufacturerDisplayName", LAYOUT_W, 0, 0, 0},
    {"DeviceModel", LAYOUT_W, 0, 0, 0},        {"DeviceModelDisplayName", LAYOUT_W, 0, 0, 0},
    {"MobileOperator", LAYOUT_W, 0, 0, 0},     {"SocVersion", LAYOUT_W, 0, 0, 0},
    {"BspVersion", LAYOUT_W, 0, 0, 0},         {0},
};

static const struct layout_field device_family[] = {
    {"UAPInfo", LAYOUT_HEX64, 0, 0, 0},
    {"DeviceFamily", LAYOUT_U32, 0, 0, 0},
    {"DeviceForm", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field flights[] = {
    {"UpdateId", LAYOUT_W, 0, 0, 0},
    {"FlightIdList", LAYOUT_W, 0, 0, 0},
    {0},
};

/* In this order in recordings, whatever the MOF class says. */
static const struct layout_field processors[] = {
    {"ProcessorIndex", LAYOUT_U32, 0, 0, 0},
    {"FeatureSet", LAYOUT_HEX32, 0, 0, 0},
    {"ProcessorSpeed", LAYOUT_U32, 0, 0, 0},
    {"ProcessorName", LAYOUT_W_FIXED, 0, 0, 64},
    {"ProcessorIdentifier", LAYOUT_W_FIXED, 0, 0, 128},
    {"VendorIdentifier", LAYOUT_W_FIXED, 0, 0, 16},
    {0},
};

static const struct layout_field virtualization[] = {
    {"VbsEnabled", LAYOUT_U8, 0, 0, 0},
    {"HvciEnabled", LAYOUT_U8, 0, 0, 0},
    {"HyperVisorEnabled", LAYOUT_U8, 0, 0, 0},
    {"Reserved", LAYOUT_U8, 0, 0, 0},
    {0},
};

static const struct layout_field boot[] = {
    {"BootFlags", LAYOUT_HEX64, 0, 0, 0},
    {"FirmwareType", LAYOUT_U32, 0, 0, 0},
    {"SecureBootEnabled", LAYOUT_U8, 0, 0, 0},
    {"SecureBootCapable", LAYOUT_U8, 0, 0, 0},
    {"Reserved1", LAYOUT_U8, 0, 0, 0},
    {"Reserved2", LAYOUT_U8, 0, 0, 0},
    {0},
};

static const struct layout layouts[] = {
    {10, 0, 0, "CPU", cpu},
    {11, 0, 0, "PhyDisk", physical_disk},
    {12, 2, 0, "LogDisk", logical_disk},
    {13, 2, 0, "NIC", nic},
    {14, 0, 0, "Video", video},
    {15, 2, 0, "Services", services},
    {16, 0, 0, "Power", power},
    {17, 2, 0, "Network", network},
    {18, 2, 0, "OpticalDisk", optical_disk},
    {21, 0, 0, "IRQ", irq},
    {22, 4, 0, "PnP", pnp_v4},
    {22, 0, 0, "PnP", pnp},
    {23, 2, 0, "IDEChannel", ide_channel},
    {24, 2, 0, "NumaNode", numa_node},
    {25, 2, 0, "Platform", platform},
    {26, 2, 0, "ProcessorGroup", processor_group},
    {27, 2, 0, "ProcessorNumber", processor_number},
    {28, 2, 0, "DPI", dpi},
    {29, 2, 0, "CodeIntegrity", code_integrity},
    {30, 2, 0, "TelemetryConfiguration", telemetry},
    {31, 2, 0, "Defragmentation", defragmentation},
    {32, 4, 0, "MobilePlatform", mobile_v4},
    {32, 3, 3, "MobilePlatform", mobile_v3},
    {32, 2, 2, "MobilePlatform", mobile},
    {33, 2, 0, "DeviceFamily", device_family},
    {34, 2, 0, "FlightIds", flights},
    {35, 2, 0, "Processors", processors},
    {36, 2, 0, "VirtualizationConfigInfo", virtualization},
    {37, 2, 0, "BootConfigInfo", boot},
};

const struct decode_class decode_system_config_class = {
    .guid = ETW_CLASS_SYSTEM_CONFIG,
    .name = "SystemConfig",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
