/* What the tool that merges a trace adds so that it can be read on another machine
 * (KernelTraceControl): which image files the loaded images were, and what the system looked like.
 * All of it tells about things, not about processes, so there are no facts here.
 *
 * ImageID, one set of records per loaded image, in front of its load record:
 *
 *   0    Info          P base, P size, u32 pid, u32 time stamp, w file name
 *   32   None          P base, u32 pid: the image has no debug directory
 *   36   DbgID_RSDS    P base, u32 pid, signature GUID, u32 age, a path of the symbol file
 *   37   DbgID_ILRSDS  the same for the managed code of a precompiled image
 *   38   DbgPPDB       P base, u32 pid, u32 time stamp, u16 × 2 version: portable symbol file
 *   40   DbgDeterm     P base, u32 pid: the build is deterministic, its stamps are hashes
 *   64   FileVersion   u32 size, u32 time stamp, w × 10 strings of the version resource
 *
 * SysConfig:
 *
 *   32   BuildInfo         FILETIME of installation, w build lab, w product name
 *   33   SystemPaths       w system directory, w Windows directory
 *   34   UnknownVolume     w device path without drive letter
 *   35   VolumeMapping     w prefix of NT paths, w prefix of DOS paths
 *   36   NetworkInterface  MIB_IF_ROW2 of the IP helper, 1352 bytes
 *   37   Opcode(37)        16 bytes; the first eight are the file version of the kernel (revision,
 *                          build, minor, major as u16) on Windows 10, 0 before; the rest is unknown
 *
 * The names of 36 and 37 are ours; the others are TraceEvent's. */
#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"

static const struct layout_field image_info[] = {
    {"ImageBase", LAYOUT_PTR, 0, 0, 0},      {"ImageSize", LAYOUT_SIZE, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},      {"TimeDateStamp", LAYOUT_U32, 0, 0, 0},
    {"OriginalFileName", LAYOUT_W, 0, 0, 0}, {0},
};

static const struct layout_field image_only[] = {
    {"ImageBase", LAYOUT_PTR, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field image_symbols[] = {
    {"ImageBase", LAYOUT_PTR, 0, 0, 0}, {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"GuidSig", LAYOUT_GUID, 0, 0, 0},  {"Age", LAYOUT_U32, 0, 0, 0},
    {"PDBFileName", LAYOUT_A, 0, 0, 0}, {0},
};

static const struct layout_field image_portable[] = {
    {"ImageBase", LAYOUT_PTR, 0, 0, 0},       {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"TimeDateStamp", LAYOUT_HEX32, 0, 0, 0}, {"MajorVersion", LAYOUT_U16, 0, 0, 0},
    {"MinorVersion", LAYOUT_U16, 0, 0, 0},    {0},
};

static const struct layout_field image_version[] = {
    {"ImageSize", LAYOUT_U32, 0, 0, 0},
    {"TimeDateStamp", LAYOUT_U32, 0, 0, 0},
    {"OrigFileName", LAYOUT_W, 0, 0, 0},
    {"FileDescription", LAYOUT_W, 0, 0, 0},
    {"FileVersion", LAYOUT_W, 0, 0, 0},
    {"BinFileVersion", LAYOUT_W, 0, 0, 0},
    {"VerLanguage", LAYOUT_W, 0, 0, 0},
    {"ProductName", LAYOUT_W, 0, 0, 0},
    {"CompanyName", LAYOUT_W, 0, 0, 0},
    {"ProductVersion", LAYOUT_W, 0, 0, 0},
    {"FileId", LAYOUT_W, 0, 0, 0},
    {"ProgramId", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout image_layouts[] = {
    {0, 0, 0, "Info", image_info},
    {32, 0, 0, "None", image_only},
    {36, 0, 0, "DbgID_RSDS", image_symbols},
    {37, 0, 0, "DbgID_ILRSDS", image_symbols},
    {38, 0, 0, "DbgPPDB", image_portable},
    {40, 0, 0, "DbgDeterm", image_only},
    {64, 0, 0, "FileVersion", image_version},
};

static const struct layout_field build_info[] = {
    {"InstallDate", LAYOUT_FILETIME, 0, 0, 0},
    {"BuildLab", LAYOUT_W, 0, 0, 0},
    {"ProductName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field system_paths[] = {
    {"SystemDirectory", LAYOUT_W, 0, 0, 0},
    {"SystemWindowsDirectory", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field unknown_volume[] = {
    {"Value", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field volume_mapping[] = {
    {"NtPath", LAYOUT_W, 0, 0, 0},
    {"DosPath", LAYOUT_W, 0, 0, 0},
    {0},
};

#define IF_TEXT     257 /* units of the names */
#define IF_HARDWARE 32  /* bytes of the addresses */

static const struct layout_field network_interface[] = {
    {"InterfaceLuid", LAYOUT_HEX64, 0, 0, 0},
    {"InterfaceIndex", LAYOUT_U32, 0, 0, 0},
    {"InterfaceGuid", LAYOUT_GUID, 0, 0, 0},
    {"Alias", LAYOUT_W_FIXED, 0, 0, IF_TEXT},
    {"Description", LAYOUT_W_FIXED, 0, 0, IF_TEXT},
    {"PhysicalAddressLength", LAYOUT_U32, 0, 0, 0},
    {"PhysicalAddress", LAYOUT_BYTES, 0, 0, IF_HARDWARE},
    {"PermanentPhysicalAddress", LAYOUT_BYTES, 0, 0, IF_HARDWARE},
    {"Mtu", LAYOUT_U32, 0, 0, 0},
    {"Type", LAYOUT_U32, 0, 0, 0},
    {"TunnelType", LAYOUT_U32, 0, 0, 0},
    {"MediaType", LAYOUT_U32, 0, 0, 0},
    {"PhysicalMediumType", LAYOUT_U32, 0, 0, 0},
    {"AccessType", LAYOUT_U32, 0, 0, 0},
    {"DirectionType", LAYOUT_U32, 0, 0, 0},
    {"InterfaceAndOperStatusFlags", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_SKIP, 0, 0, 3},
    {"OperStatus", LAYOUT_U32, 0, 0, 0},
    {"AdminStatus", LAYOUT_U32, 0, 0, 0},
    {"MediaConnectState", LAYOUT_U32, 0, 0, 0},
    {"NetworkGuid", LAYOUT_GUID, 0, 0, 0},
    {"ConnectionType", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {"TransmitLinkSpeed", LAYOUT_U64, 0, 0, 0},
    {"ReceiveLinkSpeed", LAYOUT_U64, 0, 0, 0},
    {"InOctets", LAYOUT_U64, 0, 0, 0},
    {"InUcastPkts", LAYOUT_U64, 0, 0, 0},
    {"InNUcastPkts", LAYOUT_U64, 0, 0, 0},
    {"InDiscards", LAYOUT_U64, 0, 0, 0},
    {"InErrors", LAYOUT_U64, 0, 0, 0},
    {"InUnknownProtos", LAYOUT_U64, 0, 0, 0},
    {"InUcastOctets", LAYOUT_U64, 0, 0, 0},
    {"InMulticastOctets", LAYOUT_U64, 0, 0, 0},
    {"InBroadcastOctets", LAYOUT_U64, 0, 0, 0},
    {"OutOctets", LAYOUT_U64, 0, 0, 0},
    {"OutUcastPkts", LAYOUT_U64, 0, 0, 0},
    {"OutNUcastPkts", LAYOUT_U64, 0, 0, 0},
    {"OutDiscards", LAYOUT_U64, 0, 0, 0},
    {"OutErrors", LAYOUT_U64, 0, 0, 0},
    {"OutUcastOctets", LAYOUT_U64, 0, 0, 0},
    {"OutMulticastOctets", LAYOUT_U64, 0, 0, 0},
    {"OutBroadcastOctets", LAYOUT_U64, 0, 0, 0},
    {"OutQLen", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field kernel_version[] = {
    {"FileVersion", LAYOUT_HEX64, 0, 0, 0},
    {"Unknown", LAYOUT_HEX64, 0, 0, 0},
    {0},
};

static const struct layout system_layouts[] = {
    {32, 0, 0, "BuildInfo", build_info},
    {33, 0, 0, "SystemPaths", system_paths},
    {34, 0, 0, "UnknownVolume", unknown_volume},
    {35, 0, 0, "VolumeMapping", volume_mapping},
    {36, 0, 0, "NetworkInterface", network_interface},
    {37, 0, 0, "Opcode(37)", kernel_version},
};

const struct decode_class decode_image_id_class = {
    .guid = ETW_CONTROL_IMAGE_ID,
    .name = "ImageID",
    .layouts = image_layouts,
    .n_layouts = sizeof image_layouts / sizeof image_layouts[0],
};

const struct decode_class decode_sys_config_class = {
    .guid = ETW_CONTROL_SYS_CONFIG,
    .name = "SysConfig",
    .layouts = system_layouts,
    .n_layouts = sizeof system_layouts / sizeof system_layouts[0],
};
