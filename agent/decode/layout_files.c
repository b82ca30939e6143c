/* Layouts of kernel records about files, disks, the registry and the network, the loader's steps,
 * and what old systems told of themselves.
 * No figure is made of them: they are only shown, by their names and values. See layout_more.h. */
#include "agent/decode/layout_more.h"

#include "agent/source/etw_guid.h"

static const struct layout_field disk_io_read[] = {
    {"DiskNumber", LAYOUT_U32, 0, 0, 0},          {"IrpFlags", LAYOUT_HEX32, 0, 0, 0},
    {"TransferSize", LAYOUT_U32, 0, 0, 0},        {"ResponseTime", LAYOUT_U32, 0, 0, 0},
    {"ByteOffset", LAYOUT_U64, 0, 0, 0},          {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"HighResResponseTime", LAYOUT_U64, 0, 0, 0}, {0},
};

static const struct layout_field disk_io_read_v0[] = {
    {"DiskNumber", LAYOUT_U32, 0, 0, 0},
    {"IrpFlags", LAYOUT_HEX32, 0, 0, 0},
    {"TransferSize", LAYOUT_U32, 0, 0, 0},
    {"Reserved", LAYOUT_HEX32, 0, 0, 0},
    {"ByteOffset", LAYOUT_U64, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field disk_io_redirected_init[] = {
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"FileKey", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field disk_io_drv_mj_fn_call[] = {
    {"UniqMatchId", LAYOUT_U32, 0, 0, 0},
    {"RoutineAddr", LAYOUT_PTR, 0, 0, 0},
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"MajorFunction", LAYOUT_U32, 0, 0, 0},
    {"MinorFunction", LAYOUT_U32, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field disk_io_drv_mj_fn_ret[] = {
    {"UniqMatchId", LAYOUT_U32, 0, 0, 0},
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field disk_io_drv_compl_req[] = {
    {"RoutineAddr", LAYOUT_PTR, 0, 0, 0},
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"UniqMatchId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field disk_io_drv_compl_req_ret[] = {
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"UniqMatchId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field disk_io_boot_prefetch_information[] = {
    {"Action", LAYOUT_I32, 0, 0, 0},
    {"Status", LAYOUT_HEX32, 0, 0, 0},
    {"Pages", LAYOUT_I32, 0, 0, 0},
    {0},
};

static const struct layout_field file_io_map_file[] = {
    {"ViewBase", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"MiscInfo", LAYOUT_U64, 0, 0, 0},
    {"ViewSize", LAYOUT_SIZE, 0, 0, 0},
    {"FileOffset", LAYOUT_U64, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field file_io_map_file_v2[] = {
    {"ViewBase", LAYOUT_PTR, 0, 0, 0},  {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"MiscInfo", LAYOUT_U64, 0, 0, 0},  {"ViewSize", LAYOUT_SIZE, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0}, {0},
};

static const struct layout_field file_io_pre_op_init[] = {
    {"RoutineAddr", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileContext", LAYOUT_PTR, 0, 0, 0},
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"CallbackDataPtr", LAYOUT_PTR, 0, 0, 0},
    {"MajorFunction", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field file_io_pre_op_completion[] = {
    {"InitialTime", LAYOUT_TICKS, 0, 0, 0}, {"RoutineAddr", LAYOUT_PTR, 0, 0, 0},
    {"FileObject", LAYOUT_PTR, 0, 0, 0},    {"FileContext", LAYOUT_PTR, 0, 0, 0},
    {"IrpPtr", LAYOUT_PTR, 0, 0, 0},        {"CallbackDataPtr", LAYOUT_PTR, 0, 0, 0},
    {"MajorFunction", LAYOUT_U32, 0, 0, 0}, {0},
};

static const struct layout_field file_io_pre_op_failure[] = {
    {"RoutineAddr", LAYOUT_PTR, 0, 0, 0},     {"FileObject", LAYOUT_PTR, 0, 0, 0},
    {"FileContext", LAYOUT_PTR, 0, 0, 0},     {"IrpPtr", LAYOUT_PTR, 0, 0, 0},
    {"CallbackDataPtr", LAYOUT_PTR, 0, 0, 0}, {"MajorFunction", LAYOUT_U32, 0, 0, 0},
    {"Status", LAYOUT_HEX32, 0, 0, 0},        {0},
};

static const struct layout_field split_io_vol_mgr[] = {
    {"ParentIrp", LAYOUT_PTR, 0, 0, 0},
    {"ChildIrp", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field registry_tx_r_commit[] = {
    {"TxrGUID", LAYOUT_GUID, 0, 0, 0}, {"Status", LAYOUT_HEX32, 0, 0, 0},
    {"UowCount", LAYOUT_U32, 0, 0, 0}, {"OperationTime", LAYOUT_U64, 0, 0, 0},
    {"Hive", LAYOUT_W, 0, 0, 0},       {0},
};

static const struct layout_field registry_hive_init[] = {
    {"Hive", LAYOUT_PTR, 0, 0, 0},      {"OperationType", LAYOUT_U32, 0, 0, 0},
    {"PoolTag", LAYOUT_HEX32, 0, 0, 0}, {"Size", LAYOUT_U32, 0, 0, 0},
    {"FileName", LAYOUT_W, 0, 0, 0},    {0},
};

static const struct layout_field registry_hive_destroy[] = {
    {"Hive", LAYOUT_PTR, 0, 0, 0},
    {"FileName", LAYOUT_W, 0, 0, 0},
    {"Path", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field registry_hive_link[] = {
    {"Hive", LAYOUT_PTR, 0, 0, 0},
    {"Path", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field registry_hive_dc_end[] = {
    {"Size", LAYOUT_U64, 0, 0, 0},           {"Hive", LAYOUT_PTR, 0, 0, 0},
    {"LoadedKeyCount", LAYOUT_U32, 0, 0, 0}, {"FileName", LAYOUT_W, 0, 0, 0},
    {"LinkPath", LAYOUT_W, 0, 0, 0},         {0},
};

static const struct layout_field registry_hive_dirty[] = {
    {"Hive", LAYOUT_PTR, 0, 0, 0},
    {"LinkPath", LAYOUT_W, 0, 0, 0},
    {"DirtyReason", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field registry_change_notify[] = {
    {"Notification", LAYOUT_PTR, 0, 0, 0}, {"KeyHandle", LAYOUT_PTR, 0, 0, 0},
    {"Type", LAYOUT_U8, 0, 0, 0},          {"WatchSubtree", LAYOUT_U8, 0, 0, 0},
    {"Primary", LAYOUT_U8, 0, 0, 0},       {0},
};

static const struct layout_field nothing[] = {
    {0},
};

static const struct layout_field image_relocate_image_begin[] = {
    {"BaseAddress", LAYOUT_HEX64, 0, 0, 0},
    {0},
};

static const struct layout_field image_find_dll_by_name[] = {
    {"BaseAddress", LAYOUT_HEX64, 0, 0, 0},
    {"ErrorOpcode", LAYOUT_U8, 0, 0, 0},
    {"Code", LAYOUT_I8, 0, 0, 0},
    {"String", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field image_new_dll_load[] = {
    {"NewDllBaseAddress", LAYOUT_PTR, 0, 0, 0},
    {"ParentDllBaseAddress", LAYOUT_PTR, 0, 0, 0},
    {"LoadReason", LAYOUT_U32, 0, 0, 0},
    {"FilePath", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field image_dll_search_path_external[] = {
    {"BaseAddress", LAYOUT_HEX64, 0, 0, 0}, {"ErrorOpcode", LAYOUT_U8, 0, 0, 0},
    {"Code", LAYOUT_I8, 0, 0, 0},           {"String1", LAYOUT_W, 0, 0, 0},
    {"String2", LAYOUT_W, 0, 0, 0},         {0},
};

static const struct layout_field image_dll_search_results[] = {
    {"LdrLoadFlags", LAYOUT_HEX32, 0, 0, 0}, {"LdrSearchFlags", LAYOUT_HEX32, 0, 0, 0},
    {"SearchInfo", LAYOUT_U32, 0, 0, 0},     {"LoadReason", LAYOUT_U32, 0, 0, 0},
    {"FullDllName", LAYOUT_W, 0, 0, 0},      {0},
};

static const struct layout_field image_dll_path_search_results[] = {
    {"SearchInfo", LAYOUT_U32, 0, 0, 0}, {"Cwd", LAYOUT_W, 0, 0, 0},
    {"AppDir", LAYOUT_W, 0, 0, 0},       {"DllDir", LAYOUT_W, 0, 0, 0},
    {"DllLoadDir", LAYOUT_W, 0, 0, 0},   {0},
};

static const struct layout_field tcp_ip_tcp_copy[] = {
    {"PID", LAYOUT_U32, 0, 0, 0},
    {"size", LAYOUT_U32, 0, 0, 0},
    {"daddr", LAYOUT_IP4, 0, 0, 0},
    {"saddr", LAYOUT_IP4, 0, 0, 0},
    {"dport", LAYOUT_PORT, 0, 0, 0},
    {"sport", LAYOUT_PORT, 0, 0, 0},
    {"connid", LAYOUT_PTR, 0, 0, 0},
    {"seqnum", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field event_trace_provider_binary_path[] = {
    {"GuidCount", LAYOUT_U32, 0, 0, 0},
    {"Guid", LAYOUT_GUID, 0, 0, 0},
    {"BinaryPath", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field event_trace_last_dropped_times[] = {
    {"TimeStampCount", LAYOUT_U32, 0, 0, 0},
    {"Padding", LAYOUT_U32, 0, 0, 0},
    {"TimeStamp", LAYOUT_U64, 0, 0, LAYOUT_TO_END},
    {0},
};

static const struct layout_field system_config_log_disk[] = {
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
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field system_config_nic[] = {
    {"NICName", LAYOUT_W_FIXED, 0, 0, 256},
    {"Index", LAYOUT_U32, 0, 0, 0},
    {"PhysicalAddrLen", LAYOUT_U32, 0, 0, 0},
    {"PhysicalAddr", LAYOUT_W_FIXED, 0, 0, 8},
    {"Size", LAYOUT_U32, 0, 0, 0},
    {"IpAddress", LAYOUT_I32, 0, 0, 0},
    {"SubnetMask", LAYOUT_I32, 0, 0, 0},
    {"DhcpServer", LAYOUT_I32, 0, 0, 0},
    {"Gateway", LAYOUT_I32, 0, 0, 0},
    {"PrimaryWinsServer", LAYOUT_I32, 0, 0, 0},
    {"SecondaryWinsServer", LAYOUT_I32, 0, 0, 0},
    {"DnsServer1", LAYOUT_I32, 0, 0, 0},
    {"DnsServer2", LAYOUT_I32, 0, 0, 0},
    {"DnsServer3", LAYOUT_I32, 0, 0, 0},
    {"DnsServer4", LAYOUT_I32, 0, 0, 0},
    {"Data", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field system_config_services[] = {
    {"ServiceName", LAYOUT_W_FIXED, 0, 0, 34},
    {"DisplayName", LAYOUT_W_FIXED, 0, 0, 256},
    {"ProcessName", LAYOUT_W_FIXED, 0, 0, 34},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout disk_io_layouts[] = {
    {10, 1, 1, "Read", disk_io_read},
    {10, 0, 1, "Read", disk_io_read_v0},
    {11, 1, 1, "Write", disk_io_read},
    {11, 0, 1, "Write", disk_io_read_v0},
    {16, 0, 0, "RedirectedInit", disk_io_redirected_init},
    {34, 1, 1, "DrvMjFnCall", disk_io_drv_mj_fn_call},
    {35, 1, 1, "DrvMjFnRet", disk_io_drv_mj_fn_ret},
    {52, 1, 1, "DrvComplReq", disk_io_drv_compl_req},
    {53, 1, 1, "DrvComplReqRet", disk_io_drv_compl_req_ret},
    {54, 0, 0, "BootPrefetchInformation", disk_io_boot_prefetch_information},
};

static const struct layout file_io_layouts[] = {
    {37, 3, 0, "MapFile", file_io_map_file},
    {37, 2, 2, "MapFile", file_io_map_file_v2},
    {38, 3, 0, "UnmapFile", file_io_map_file},
    {38, 2, 2, "UnmapFile", file_io_map_file_v2},
    {39, 3, 0, "MapFileDCStart", file_io_map_file},
    {39, 2, 2, "MapFileDCStart", file_io_map_file_v2},
    {40, 3, 0, "MapFileDCEnd", file_io_map_file},
    {40, 2, 2, "MapFileDCEnd", file_io_map_file_v2},
    {96, 3, 0, "PreOpInit", file_io_pre_op_init},
    {97, 3, 0, "PostOpInit", file_io_pre_op_init},
    {98, 3, 0, "PreOpCompletion", file_io_pre_op_completion},
    {99, 3, 0, "PostOpCompletion", file_io_pre_op_completion},
    {100, 3, 0, "PreOpFailure", file_io_pre_op_failure},
    {101, 3, 0, "PostOpFailure", file_io_pre_op_failure},
};

static const struct layout split_io_layouts[] = {
    {32, 2, 0, "VolMgr", split_io_vol_mgr},
};

static const struct layout registry_layouts[] = {
    {30, 2, 0, "TxRCommit", registry_tx_r_commit},
    {31, 2, 0, "TxRPrepare", registry_tx_r_commit},
    {32, 2, 0, "TxRRollback", registry_tx_r_commit},
    {36, 2, 0, "HiveInit", registry_hive_init},
    {37, 2, 0, "HiveDestroy", registry_hive_destroy},
    {38, 2, 0, "HiveLink", registry_hive_link},
    {39, 2, 0, "HiveDCEnd", registry_hive_dc_end},
    {40, 2, 0, "HiveDirty", registry_hive_dirty},
    {48, 2, 0, "ChangeNotify", registry_change_notify},
};

static const struct layout image_layouts[] = {
    {128, 2, 0, "LoaderLockAttempt", nothing},
    {129, 2, 0, "LoaderLockAcquire", nothing},
    {130, 2, 0, "LoaderLockTriedAndFailed", nothing},
    {131, 2, 0, "LoaderLockWait", nothing},
    {132, 2, 0, "ProcessInitDone", nothing},
    {133, 2, 0, "CreateSectionBegin", nothing},
    {134, 2, 0, "CreateSectionEnd", nothing},
    {135, 2, 0, "MapViewBegin", nothing},
    {144, 2, 0, "RelocateImageBegin", image_relocate_image_begin},
    {145, 2, 0, "RelocateImageEnd", image_relocate_image_begin},
    {146, 2, 0, "HandleOldDescsBegin", image_relocate_image_begin},
    {147, 2, 0, "HandleOldDescsEnd", image_relocate_image_begin},
    {148, 2, 0, "HandleNewDescsBegin", image_relocate_image_begin},
    {149, 2, 0, "HandleNewDescsEnd", image_relocate_image_begin},
    {150, 2, 0, "DllMainExit", image_relocate_image_begin},
    {160, 2, 0, "FindDllByName", image_find_dll_by_name},
    {161, 2, 0, "MapViewEnd", image_find_dll_by_name},
    {162, 2, 0, "LoaderLockRelease", image_find_dll_by_name},
    {163, 2, 0, "DllMainEnter", image_find_dll_by_name},
    {164, 2, 0, "LoaderError", image_find_dll_by_name},
    {165, 3, 0, "MapViewStart", image_find_dll_by_name},
    {166, 3, 0, "SnappingStart", image_find_dll_by_name},
    {167, 3, 0, "SnappingEnd", image_find_dll_by_name},
    {168, 3, 0, "LoadingStart", image_find_dll_by_name},
    {169, 3, 0, "LoadingEnd", image_find_dll_by_name},
    {170, 3, 0, "FoundKnownDll", image_find_dll_by_name},
    {171, 3, 0, "AbnormalTermination", image_find_dll_by_name},
    {172, 3, 0, "ModulePlaceHolder", image_find_dll_by_name},
    {173, 3, 0, "ReadyToInit", image_find_dll_by_name},
    {174, 3, 0, "ReadyToRun", image_find_dll_by_name},
    {176, 3, 0, "NewDllLoad", image_new_dll_load},
    {177, 3, 0, "NewDllLoadAsData", image_new_dll_load},
    {192, 3, 0, "DllSearchPathExternal", image_dll_search_path_external},
    {193, 3, 0, "DllSearchPathInternal", image_dll_search_path_external},
    {208, 3, 0, "ApiSetResolving", image_find_dll_by_name},
    {209, 3, 0, "ApiSetHosted", image_find_dll_by_name},
    {210, 3, 0, "ApiSetUnhosted", image_find_dll_by_name},
    {211, 3, 0, "ApiSetUnresolved", image_find_dll_by_name},
    {212, 3, 0, "DllSearchResults", image_dll_search_results},
    {213, 3, 0, "DllPathSearchResults", image_dll_path_search_results},
};

static const struct layout tcp_ip_layouts[] = {
    {18, 1, 1, "TCPCopy", tcp_ip_tcp_copy}, {19, 1, 1, "ARPCopy", tcp_ip_tcp_copy},
    {20, 1, 1, "FullACK", tcp_ip_tcp_copy}, {21, 1, 1, "PartACK", tcp_ip_tcp_copy},
    {22, 1, 1, "DupACK", tcp_ip_tcp_copy},
};

static const struct layout event_trace_layouts[] = {
    {67, 2, 0, "ProviderBinaryPath", event_trace_provider_binary_path},
    {82, 2, 0, "LastDroppedTimes", event_trace_last_dropped_times},
};

static const struct layout system_config_layouts[] = {
    {12, 0, 1, "LogDisk", system_config_log_disk},
    {13, 0, 1, "NIC", system_config_nic},
    {15, 0, 1, "Services", system_config_services},
};

#define CLASS(GUID, NAME, LAYOUTS)                      \
    {                                                   \
        .guid = GUID, .name = NAME, .layouts = LAYOUTS, \
        .n_layouts = sizeof LAYOUTS / sizeof LAYOUTS[0] \
    }

const struct decode_class layout_files_classes[] = {
    CLASS(ETW_CLASS_DISK_IO, "DiskIo", disk_io_layouts),
    CLASS(ETW_CLASS_FILE_IO, "FileIo", file_io_layouts),
    CLASS(ETW_CLASS_SPLIT_IO, "SplitIo", split_io_layouts),
    CLASS(ETW_CLASS_REGISTRY, "Registry", registry_layouts),
    CLASS(ETW_CLASS_IMAGE, "Image", image_layouts),
    CLASS(ETW_CLASS_TCP_IP, "TcpIp", tcp_ip_layouts),
    CLASS(ETW_CLASS_EVENT_TRACE, "EventTrace", event_trace_layouts),
    CLASS(ETW_CLASS_SYSTEM_CONFIG, "SystemConfig", system_config_layouts),
};

const size_t layout_files_n = sizeof layout_files_classes / sizeof *layout_files_classes;
