/* Layouts of kernel records about memory: page faults and working sets, pool, heaps, the cache
 * manager, and what stands in kernel memory: objects, handles, notification names, messages of
 * drivers.
 * No figure is made of them: they are only shown, by their names and values. See layout_more.h. */
#include "agent/decode/layout_more.h"

#include "agent/source/etw_guid.h"

static const struct layout_field page_fault_pf_mapped_section_rundown[] = {
    {"RangeBase", LAYOUT_PTR, 0, 0, 0},
    {"RangeEnd", LAYOUT_PTR, 0, 0, 0},
    {"CreatingProcessId", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field page_fault_session_create[] = {
    {"UniqueSessionId", LAYOUT_PTR, 0, 0, 0},
    {"SessionId", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field page_fault_mem_info[] = {
    {"ZeroPageCount", LAYOUT_SIZE, 0, 0, 0},
    {"FreePageCount", LAYOUT_SIZE, 0, 0, 0},
    {"ModifiedPageCount", LAYOUT_SIZE, 0, 0, 0},
    {"ModifiedNoWritePageCount", LAYOUT_SIZE, 0, 0, 0},
    {"BadPageCount", LAYOUT_SIZE, 0, 0, 0},
    {"PageCountByPriority", LAYOUT_BYTES, 0, 0, 64},
    {"RepurposedPagesByPriority", LAYOUT_BYTES, 0, 0, 64},
    {"ModifiedPageCountPageFile", LAYOUT_SIZE, 0, 0, 0},
    {0},
};

static const struct layout_field page_fault_cont_mem_generate[] = {
    {"ThreadId", LAYOUT_U64, 0, 0, 0},
    {"NumberOfBytes", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field page_fault_kernel_mem_usage[] = {
    {"UsageType", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN, 0, 0, 0},
    {"VirtualAddress", LAYOUT_PTR, 0, 0, 0},
    {"PageCount", LAYOUT_SIZE, 0, 0, 0},
    {0},
};

static const struct layout_field page_fault_mem_info_ws[] = {
    {"Count", LAYOUT_U32, 0, 0, 0},
    {"WsEntry", LAYOUT_REST, 0, 0, 0},
    {0},
};

static const struct layout_field page_fault_virtual_rotate[] = {
    {"BaseAddress", LAYOUT_PTR, 0, 0, 0},
    {"SizeInBytes", LAYOUT_SIZE, 0, 0, 0},
    {"Flags", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field page_fault_pf_mapped_section_object_create[] = {
    {"SectionObject", LAYOUT_PTR, 0, 0, 0},
    {"RangeBase", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field pool_pool_allocation[] = {
    {"Type", LAYOUT_U32, 0, 0, 0},
    {"Tag", LAYOUT_HEX32, 0, 0, 0},
    {"NumberOfBytes", LAYOUT_SIZE, 0, 0, 0},
    {"Entry", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field pool_session_pool_allocation[] = {
    {"Type", LAYOUT_U32, 0, 0, 0},           {"Tag", LAYOUT_HEX32, 0, 0, 0},
    {"NumberOfBytes", LAYOUT_SIZE, 0, 0, 0}, {"Entry", LAYOUT_PTR, 0, 0, 0},
    {"SessionId", LAYOUT_U32, 0, 0, 0},      {0},
};

static const struct layout_field nothing[] = {
    {0},
};

static const struct layout_field heap_create[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},      {"HeapFlags", LAYOUT_HEX32, 0, 0, 0},
    {"ReservedSpace", LAYOUT_SIZE, 0, 0, 0},  {"CommittedSpace", LAYOUT_SIZE, 0, 0, 0},
    {"AllocatedSpace", LAYOUT_SIZE, 0, 0, 0}, {0},
};

static const struct layout_field heap_create_v2[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"HeapFlags", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field heap_alloc[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"AllocSize", LAYOUT_SIZE, 0, 0, 0},
    {"AllocAddress", LAYOUT_PTR, 0, 0, 0},
    {"SourceId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field heap_realloc[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"NewAllocAddress", LAYOUT_PTR, 0, 0, 0},
    {"OldAllocAddress", LAYOUT_PTR, 0, 0, 0},
    {"NewAllocSize", LAYOUT_SIZE, 0, 0, 0},
    {"OldAllocSize", LAYOUT_SIZE, 0, 0, 0},
    {"SourceId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field heap_destroy[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field heap_free[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"FreeAddress", LAYOUT_PTR, 0, 0, 0},
    {"SourceId", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field heap_expand[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"CommittedSize", LAYOUT_SIZE, 0, 0, 0},
    {"CommitAddress", LAYOUT_PTR, 0, 0, 0},
    {"FreeSpace", LAYOUT_SIZE, 0, 0, 0},
    {"CommittedSpace", LAYOUT_SIZE, 0, 0, 0},
    {"ReservedSpace", LAYOUT_SIZE, 0, 0, 0},
    {"NoOfUCRs", LAYOUT_U32, 0, 0, 0},
    {"AllocatedSpace", LAYOUT_SIZE, 0, 0, 0},
    {0},
};

static const struct layout_field heap_snap_shot[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"FreeSpace", LAYOUT_SIZE, 0, 0, 0},
    {"CommittedSpace", LAYOUT_SIZE, 0, 0, 0},
    {"ReservedSpace", LAYOUT_SIZE, 0, 0, 0},
    {"HeapFlags", LAYOUT_HEX32, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"LargeUCRSpace", LAYOUT_SIZE, 0, 0, 0},
    {"FreeListLength", LAYOUT_U32, 0, 0, 0},
    {"UCRLength", LAYOUT_U32, 0, 0, 0},
    {"AllocatedSpace", LAYOUT_SIZE, 0, 0, 0},
    {0},
};

static const struct layout_field heap_snap_shot_v2[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},      {"FreeSpace", LAYOUT_SIZE, 0, 0, 0},
    {"CommittedSpace", LAYOUT_SIZE, 0, 0, 0}, {"ReservedSpace", LAYOUT_SIZE, 0, 0, 0},
    {"HeapFlags", LAYOUT_HEX32, 0, 0, 0},     {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"LargeUCRSpace", LAYOUT_SIZE, 0, 0, 0},  {"FreeListLength", LAYOUT_U32, 0, 0, 0},
    {"UCRLength", LAYOUT_U32, 0, 0, 0},       {0},
};

static const struct layout_field heap_contract[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"DeCommittedSize", LAYOUT_SIZE, 0, 0, 0},
    {"DeCommitAddress", LAYOUT_PTR, 0, 0, 0},
    {"FreeSpace", LAYOUT_SIZE, 0, 0, 0},
    {"CommittedSpace", LAYOUT_SIZE, 0, 0, 0},
    {"ReservedSpace", LAYOUT_SIZE, 0, 0, 0},
    {"NoOfUCRs", LAYOUT_U32, 0, 0, 0},
    {"AllocatedSpace", LAYOUT_SIZE, 0, 0, 0},
    {0},
};

static const struct layout_field heap_subsegment_alloc[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"SubSegment", LAYOUT_PTR, 0, 0, 0},
    {"SubSegmentSize", LAYOUT_SIZE, 0, 0, 0},
    {"BlockSize", LAYOUT_SIZE, 0, 0, 0},
    {0},
};

static const struct layout_field heap_commit[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0}, {"Block", LAYOUT_PTR, 0, 0, 0},
    {"Size", LAYOUT_SIZE, 0, 0, 0},      {"Caller", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},        {0},
};

static const struct layout_field heap_subsegment_init[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},    {"SubSegment", LAYOUT_PTR, 0, 0, 0},
    {"BlockSize", LAYOUT_SIZE, 0, 0, 0},    {"BlockCount", LAYOUT_SIZE, 0, 0, 0},
    {"AffinityIndex", LAYOUT_U32, 0, 0, 0}, {0},
};

static const struct layout_field heap_affinity_manager_enable[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"BucketIndex", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field heap_affinity_slot_assigned[] = {
    {"SlotIndex", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field heap_sub_segment_activated[] = {
    {"HeapHandle", LAYOUT_PTR, 0, 0, 0},
    {"SubSegment", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field heap_affinity_slot_changed[] = {
    {"Heap", LAYOUT_PTR, 0, 0, 0},
    {"SubSegment", LAYOUT_PTR, 0, 0, 0},
    {"SlotIndex", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field heap_subsegment_reuse_threshold_activated[] = {
    {"Heap", LAYOUT_PTR, 0, 0, 0},
    {"SubSegment", LAYOUT_PTR, 0, 0, 0},
    {"BucketIndex", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field cc_workitem_enqueue[] = {
    {"WorkItemKey", LAYOUT_PTR, 0, 0, 0}, {"FileObjectKey", LAYOUT_PTR, 0, 0, 0},
    {"QueueType", LAYOUT_U8, 0, 0, 0},    {"WorkItemType", LAYOUT_U8, 0, 0, 0},
    {"Requeue", LAYOUT_U8, 0, 0, 0},      {"Reserved", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},         {0},
};

static const struct layout_field cc_workitem_dequeue[] = {
    {"WorkItemKey", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field cc_can_i_write_fail[] = {
    {"FileObjectKey", LAYOUT_PTR, 0, 0, 0},
    {"TotalDirtyPages", LAYOUT_SIZE, 0, 0, 0},
    {"DirtyPageThreshold", LAYOUT_SIZE, 0, 0, 0},
    {"BytesToWrite", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field cc_flush_cache[] = {
    {"WorkItemKey", LAYOUT_PTR, 0, 0, 0},
    {"FileObjectKey", LAYOUT_PTR, 0, 0, 0},
    {"Offset", LAYOUT_U64, 0, 0, 0},
    {"Length", LAYOUT_U32, 0, 0, 0},
    {"SharedCacheMapFlags", LAYOUT_HEX32, 0, 0, 0},
    {"Flags", LAYOUT_HEX32, 0, 0, 0},
    {"Reserved", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field cc_logged_stream_info[] = {
    {"FileObjectKey", LAYOUT_PTR, 0, 0, 0},
    {"ReasonForFlush", LAYOUT_U32, 0, 0, 0},
    {"PagesToWrite", LAYOUT_U32, 0, 0, 0},
    {"DirtyLoggedPages", LAYOUT_SIZE, 0, 0, 0},
    {"DirtyLoggedPageThreshold", LAYOUT_SIZE, 0, 0, 0},
    {"LargestLsnForLWS", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field cc_extra_writebehind_thread[] = {
    {"ThreadAction", LAYOUT_U32, 0, 0, 0},     {"ActiveExtraWBThreads", LAYOUT_U32, 0, 0, 0},
    {"TotalDirtyPages", LAYOUT_SIZE, 0, 0, 0}, {"DirtyPageThreshold", LAYOUT_SIZE, 0, 0, 0},
    {"AvailablePages", LAYOUT_SIZE, 0, 0, 0},  {0},
};

static const struct layout_field object_create_handle[] = {
    {"Object", LAYOUT_PTR, 0, 0, 0},
    {"Handle", LAYOUT_U32, 0, 0, 0},
    {"ObjectType", LAYOUT_U16, 0, 0, 0},
    {"ObjectName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field object_duplicate_handle[] = {
    {"Object", LAYOUT_PTR, 0, 0, 0},       {"SourceHandle", LAYOUT_U32, 0, 0, 0},
    {"TargetHandle", LAYOUT_U32, 0, 0, 0}, {"TargetProcessId", LAYOUT_U32, 0, 0, 0},
    {"ObjectType", LAYOUT_U16, 0, 0, 0},   {0},
};

static const struct layout_field object_type_dc_start[] = {
    {"ObjectType", LAYOUT_U16, 0, 0, 0},
    {"Reserved", LAYOUT_U16, 0, 0, 0},
    {"TypeName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field object_handle_dc_start[] = {
    {"Object", LAYOUT_PTR, 0, 0, 0},   {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"Handle", LAYOUT_U32, 0, 0, 0},   {"ObjectType", LAYOUT_U16, 0, 0, 0},
    {"ObjectName", LAYOUT_W, 0, 0, 0}, {0},
};

static const struct layout_field object_create_object[] = {
    {"Object", LAYOUT_PTR, 0, 0, 0},
    {"ObjectType", LAYOUT_U16, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field object_reference_object[] = {
    {"Object", LAYOUT_PTR, 0, 0, 0},
    {"Tag", LAYOUT_HEX32, 0, 0, 0},
    {"Count", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field wnf_subscribe[] = {
    {"StateName", LAYOUT_U64, 0, 0, 0},
    {"Subscription", LAYOUT_PTR, 0, 0, 0},
    {"NameSub", LAYOUT_PTR, 0, 0, 0},
    {"Callback", LAYOUT_PTR, 0, 0, 0},
    {"RefCount", LAYOUT_U32, 0, 0, 0},
    {"DeliveryFlags", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field wnf_callback[] = {
    {"StateName", LAYOUT_U64, 0, 0, 0},
    {"Subscription", LAYOUT_PTR, 0, 0, 0},
    {"NameSub", LAYOUT_PTR, 0, 0, 0},
    {"Callback", LAYOUT_PTR, 0, 0, 0},
    {"ChangeStamp", LAYOUT_U32, 0, 0, 0},
    {"DeliveryFlags", LAYOUT_HEX32, 0, 0, 0},
    {"Return", LAYOUT_HEX32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field wnf_publish[] = {
    {"StateName", LAYOUT_U64, 0, 0, 0},
    {"DataLength", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field wnf_name_sub_rundown[] = {
    {"StateName", LAYOUT_U64, 0, 0, 0},
    {"NameSub", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field dbg_print_debug_print[] = {
    {"Component", LAYOUT_U32, 0, 0, 0},
    {"Level", LAYOUT_U32, 0, 0, 0},
    {"Message", LAYOUT_A, 0, 0, 0},
    {0},
};

static const struct layout page_fault_layouts[] = {
    {72, 0, 0, "PfMappedSectionRundown", page_fault_pf_mapped_section_rundown},
    {73, 0, 0, "PfMappedSectionCreate", page_fault_pf_mapped_section_rundown},
    {75, 0, 0, "SessionCreate", page_fault_session_create},
    {79, 0, 0, "PfMappedSectionDelete", page_fault_pf_mapped_section_rundown},
    {112, 0, 0, "MemInfo", page_fault_mem_info},
    {113, 0, 0, "ContMemGenerate", page_fault_cont_mem_generate},
    {123, 0, 0, "KernelMemUsage", page_fault_kernel_mem_usage},
    {125, 0, 0, "MemInfoWs", page_fault_mem_info_ws},
    {126, 0, 0, "MemInfoSessionWs", page_fault_mem_info_ws},
    {127, 2, 0, "VirtualRotate", page_fault_virtual_rotate},
    {134, 2, 0, "MemResetInfo", page_fault_virtual_rotate},
    {135, 0, 0, "PfMappedSectionObjectCreate", page_fault_pf_mapped_section_object_create},
    {136, 0, 0, "PfMappedSectionObjectDelete", page_fault_pf_mapped_section_object_create},
};

static const struct layout pool_layouts[] = {
    {32, 2, 0, "PoolAllocation", pool_pool_allocation},
    {33, 2, 0, "SessionPoolAllocation", pool_session_pool_allocation},
    {34, 2, 0, "PoolFree", pool_pool_allocation},
    {35, 2, 0, "SessionPoolFree", pool_session_pool_allocation},
    {40, 2, 0, "PoolSnapDCStart", nothing},
    {41, 2, 0, "PoolSnapDCEnd", nothing},
    {42, 2, 0, "BigPoolSnapDCStart", nothing},
    {43, 2, 0, "BigPoolSnapDCEnd", nothing},
    {44, 2, 0, "SessionPoolSnapDCStart", nothing},
    {45, 2, 0, "SessionPoolSnapDCEnd", nothing},
    {46, 2, 0, "SessionBigPoolSnapDCStart", nothing},
    {47, 2, 0, "SessionBigPoolSnapDCEnd", nothing},
};

static const struct layout heap_layouts[] = {
    {32, 3, 0, "Create", heap_create},
    {32, 2, 2, "Create", heap_create_v2},
    {33, 2, 0, "Alloc", heap_alloc},
    {34, 2, 0, "Realloc", heap_realloc},
    {35, 2, 0, "Destroy", heap_destroy},
    {36, 2, 0, "Free", heap_free},
    {37, 3, 0, "Expand", heap_expand},
    {38, 3, 0, "SnapShot", heap_snap_shot},
    {38, 2, 2, "SnapShot", heap_snap_shot_v2},
    {42, 3, 0, "Contract", heap_contract},
    {43, 2, 0, "Lock", heap_destroy},
    {44, 2, 0, "Unlock", heap_destroy},
    {45, 2, 0, "Validate", heap_destroy},
    {46, 2, 0, "Walk", heap_destroy},
    {47, 2, 0, "SubsegmentAlloc", heap_subsegment_alloc},
    {48, 2, 0, "SubsegmentFree", heap_subsegment_alloc},
    {49, 2, 0, "SubsegmentAllocCached", heap_subsegment_alloc},
    {50, 2, 0, "SubsegmentFreeCached", heap_subsegment_alloc},
    {51, 2, 0, "Commit", heap_commit},
    {52, 2, 0, "Decommit", heap_commit},
    {53, 2, 0, "SubsegmentInit", heap_subsegment_init},
    {54, 2, 0, "AffinityManagerEnable", heap_affinity_manager_enable},
    {55, 2, 0, "AffinitySlotAssigned", heap_affinity_slot_assigned},
    {56, 2, 0, "SubSegmentActivated", heap_sub_segment_activated},
    {57, 2, 0, "AffinitySlotChanged", heap_affinity_slot_changed},
    {58, 2, 0, "SubsegmentReuseThresholdActivated", heap_subsegment_reuse_threshold_activated},
};

static const struct layout cc_layouts[] = {
    {0, 0, 0, "WorkitemEnqueue", cc_workitem_enqueue},
    {1, 0, 0, "WorkitemDequeue", cc_workitem_dequeue},
    {2, 0, 0, "WorkitemComplete", cc_workitem_dequeue},
    {6, 0, 0, "CanIWriteFail", cc_can_i_write_fail},
    {9, 0, 0, "FlushCache", cc_flush_cache},
    {13, 0, 0, "LoggedStreamInfo", cc_logged_stream_info},
    {14, 0, 0, "ExtraWritebehindThread", cc_extra_writebehind_thread},
};

static const struct layout object_layouts[] = {
    {32, 2, 0, "CreateHandle", object_create_handle},
    {33, 2, 0, "CloseHandle", object_create_handle},
    {34, 3, 0, "DuplicateHandle", object_duplicate_handle},
    {36, 2, 0, "TypeDCStart", object_type_dc_start},
    {37, 2, 0, "TypeDCEnd", object_type_dc_start},
    {38, 2, 0, "HandleDCStart", object_handle_dc_start},
    {39, 2, 0, "HandleDCEnd", object_handle_dc_start},
    {48, 2, 0, "CreateObject", object_create_object},
    {49, 2, 0, "DeleteObject", object_create_object},
    {50, 2, 0, "ReferenceObject", object_reference_object},
    {51, 2, 0, "DereferenceObject", object_reference_object},
};

static const struct layout wnf_layouts[] = {
    {32, 2, 0, "Subscribe", wnf_subscribe},
    {33, 2, 0, "Unsubscribe", wnf_subscribe},
    {34, 2, 0, "Callback", wnf_callback},
    {35, 2, 0, "Publish", wnf_publish},
    {36, 2, 0, "NameSubRundown", wnf_name_sub_rundown},
};

static const struct layout dbg_print_layouts[] = {
    {32, 2, 0, "DebugPrint", dbg_print_debug_print},
};

#define CLASS(GUID, NAME, LAYOUTS)                      \
    {                                                   \
        .guid = GUID, .name = NAME, .layouts = LAYOUTS, \
        .n_layouts = sizeof LAYOUTS / sizeof LAYOUTS[0] \
    }

const struct decode_class layout_memory_classes[] = {
    CLASS(ETW_CLASS_PAGE_FAULT, "PageFault", page_fault_layouts),
    CLASS(ETW_CLASS_POOL, "Pool", pool_layouts),
    CLASS(ETW_CLASS_HEAP, "Heap", heap_layouts),
    CLASS(ETW_CLASS_CC, "Cc", cc_layouts),
    CLASS(ETW_CLASS_OBJECT, "Object", object_layouts),
    CLASS(ETW_CLASS_WNF, "WNF", wnf_layouts),
    CLASS(ETW_CLASS_DBG_PRINT, "DbgPrint", dbg_print_layouts),
};

const size_t layout_memory_n = sizeof layout_memory_classes / sizeof *layout_memory_classes;
