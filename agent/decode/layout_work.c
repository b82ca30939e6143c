/* Layouts of kernel records about what runs: processes, threads, jobs, what the scheduler, the
 * clock and the power manager do, and messages between processes.
 * No figure is made of them: they are only shown, by their names and values. See layout_more.h. */
#include "agent/decode/layout_more.h"

#include "agent/source/etw_guid.h"

static const struct layout_field process_in_swap[] = {
    {"DirectoryTableBase", LAYOUT_PTR, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field process_boot_phase_start[] = {
    {"Phase", LAYOUT_I32, 0, 0, 0},
    {0},
};

static const struct layout_field process_wake_charge_user[] = {
    {"Object", LAYOUT_PTR, 0, 0, 0},
    {"Tag", LAYOUT_PTR, 0, 0, 0},
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"Count", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field process_wake_event_user[] = {
    {"Object", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field process_debug_event[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"Reason", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field thread_set_name[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"ThreadName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field thread_k_queue_wait[] = {
    {"Queue", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"Action", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field thread_executive_resource[] = {
    {"AcquireTime", LAYOUT_U64, 0, 0, 0},
    {"HoldTime", LAYOUT_U64, 0, 0, 0},
    {"WaitTime", LAYOUT_U64, 0, 0, 0},
    {"MaxRecursionDepth", LAYOUT_U32, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"Resource", LAYOUT_PTR, 0, 0, 0},
    {"Action", LAYOUT_U32, 0, 0, 0},
    {"ContentionDelta", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field thread_push_lock[] = {
    {"PushLock", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"Action", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field thread_wait_single[] = {
    {"ThreadId", LAYOUT_U32, 0, 0, 0}, {"", LAYOUT_ALIGN, 0, 0, 0},
    {"Object", LAYOUT_PTR, 0, 0, 0},   {"ObjectType", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},      {0},
};

static const struct layout_field thread_delay_execution[] = {
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {"Delta", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field thread_worker_thread[] = {
    {"TThreadId", LAYOUT_U32, 0, 0, 0},
    {"StartTime", LAYOUT_U64, 0, 0, 0},
    {"ThreadRoutine", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field thread_dfss_start_new_interval[] = {
    {"CurrentGeneration", LAYOUT_U32, 0, 0, 0}, {"SessionCount", LAYOUT_U32, 0, 0, 0},
    {"TotalCycleCredit", LAYOUT_U64, 0, 0, 0},  {"TotalCyclesAccumulated", LAYOUT_U64, 0, 0, 0},
    {"SessionQuota", LAYOUT_REST, 0, 0, 0},     {0},
};

static const struct layout_field thread_dfss_release_thread[] = {
    {"CurrentGeneration", LAYOUT_U32, 0, 0, 0},
    {"SessionSelectedToRun", LAYOUT_U32, 0, 0, 0},
    {"CycleBaseAllowance", LAYOUT_U64, 0, 0, 0},
    {"CyclesRemaining", LAYOUT_I64, 0, 0, 0},
    {0},
};

static const struct layout_field thread_pool_cb_enqueue[] = {
    {"PoolId", LAYOUT_PTR, 0, 0, 0},           {"TaskId", LAYOUT_PTR, 0, 0, 0},
    {"CallbackFunction", LAYOUT_PTR, 0, 0, 0}, {"CallbackContext", LAYOUT_PTR, 0, 0, 0},
    {"SubProcessTag", LAYOUT_PTR, 0, 0, 0},    {0},
};

static const struct layout_field thread_pool_cb_dequeue[] = {
    {"TaskId", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field thread_pool_cb_cancel[] = {
    {"PoolId", LAYOUT_PTR, 0, 0, 0},
    {"TaskId", LAYOUT_PTR, 0, 0, 0},
    {"CallbackFunction", LAYOUT_PTR, 0, 0, 0},
    {"CallbackContext", LAYOUT_PTR, 0, 0, 0},
    {"SubProcessTag", LAYOUT_PTR, 0, 0, 0},
    {"CancelCount", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field thread_pool_cb_cancel_v2[] = {
    {"TaskId", LAYOUT_PTR, 0, 0, 0},
    {"CancelCount", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field thread_pool_pool_create[] = {
    {"PoolId", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field thread_pool_thread_min_set[] = {
    {"PoolId", LAYOUT_PTR, 0, 0, 0},
    {"ThreadNum", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field job_create[] = {
    {"JobId", LAYOUT_GUID, 0, 0, 0},
    {"JobHandle", LAYOUT_U32, 0, 0, 0},
    {"Flags", LAYOUT_HEX32, 0, 0, 0},
    {"Status", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field job_set_cpu_rate[] = {
    {"AllFlags", LAYOUT_HEX32, 0, 0, 0},
    {"Value", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field job_set_net_rate[] = {
    {"Flags", LAYOUT_HEX32, 0, 0, 0},      {"", LAYOUT_ALIGN8, 0, 0, 0},
    {"MaxBandwidth", LAYOUT_U64, 0, 0, 0}, {"DscpTag", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},          {0},
};

static const struct layout_field ums_d_switch_start[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ScheduledThreadId", LAYOUT_U32, 0, 0, 0},
    {"PrimaryThreadId", LAYOUT_U32, 0, 0, 0},
    {"SwitchFlags", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field ums_scheduled_park[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ScheduledThreadId", LAYOUT_U32, 0, 0, 0},
    {"ParkFlags", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field ums_disassociate[] = {
    {"ProcessId", LAYOUT_U32, 0, 0, 0},       {"ScheduledThreadId", LAYOUT_U32, 0, 0, 0},
    {"PrimaryThreadId", LAYOUT_U32, 0, 0, 0}, {"UmsApcControlFlags", LAYOUT_HEX32, 0, 0, 0},
    {"Status", LAYOUT_HEX32, 0, 0, 0},        {0},
};

static const struct layout_field ums_c_switch[] = {
    {"ScheduledThreadId", LAYOUT_U32, 0, 0, 0}, {"SwitchCount", LAYOUT_U32, 0, 0, 0},
    {"KernelYieldCount", LAYOUT_U32, 0, 0, 0},  {"MixedYieldCount", LAYOUT_U32, 0, 0, 0},
    {"YieldCount", LAYOUT_U32, 0, 0, 0},        {0},
};

static const struct layout_field nothing[] = {
    {0},
};

static const struct layout_field mmcss_scheduler[] = {
    {"ScheduledPID", LAYOUT_U32, 0, 0, 0},
    {"ScheduledTID", LAYOUT_U32, 0, 0, 0},
    {"SchedulingPriority", LAYOUT_U32, 0, 0, 0},
    {"TaskIndex", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field mmcss_wakeup[] = {
    {"Reason", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field alpc_alpc_send_message[] = {
    {"MessageID", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field alpc_alpc_wait_for_new_message[] = {
    {"IsServerPort", LAYOUT_U32, 0, 0, 0},
    {"PortName", LAYOUT_A, 0, 0, 0},
    {0},
};

static const struct layout_field alpc_alpc_unwait[] = {
    {"Status", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field crit_sec_collision[] = {
    {"LockCount", LAYOUT_U32, 0, 0, 0},
    {"SpinCount", LAYOUT_U32, 0, 0, 0},
    {"OwningThread", LAYOUT_PTR, 0, 0, 0},
    {"CritSecAddr", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field crit_sec_init[] = {
    {"SpinCount", LAYOUT_SIZE, 0, 0, 0},
    {"CritSecAddr", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_sample_prof[] = {
    {"InstructionPointer", LAYOUT_PTR, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},
    {"Count", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_pmc_ctr_corruption[] = {
    {"ProcessorNumber", LAYOUT_U32, 0, 0, 0},
    {"CounterCount", LAYOUT_U32, 0, 0, 0},
    {"CounterStatus", LAYOUT_REST, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_isr[] = {
    {"InitialTime", LAYOUT_TICKS, 0, 0, 0},
    {"Routine", LAYOUT_PTR, 0, 0, 0},
    {"ReturnValue", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_dpc[] = {
    {"InitialTime", LAYOUT_TICKS, 0, 0, 0},
    {"Routine", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_collection_start[] = {
    {"SpinLockSpinThreshold", LAYOUT_U32, 0, 0, 0},
    {"SpinLockContentionSampleRate", LAYOUT_U32, 0, 0, 0},
    {"SpinLockAcquireSampleRate", LAYOUT_U32, 0, 0, 0},
    {"SpinLockHoldThreshold", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_collection_start_v2[] = {
    {"SpinLockSpinThreshold", LAYOUT_U32, 0, 0, 0},
    {"SpinLockContentionSampleRate", LAYOUT_U32, 0, 0, 0},
    {"SpinLockAcquireSampleRate", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_e_resource_dc_start[] = {
    {"ReleaseSamplingRate", LAYOUT_U32, 0, 0, 0},
    {"ContentionSamplingRate", LAYOUT_U32, 0, 0, 0},
    {"NumberOfExcessiveTimeouts", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_clock_interrupt[] = {
    {"InterruptTime", LAYOUT_U64, 0, 0, 0},
    {"Flags", LAYOUT_U16, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_timer_expiration_start[] = {
    {"InterruptTime", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_timer_expiration[] = {
    {"ExpectedDueTime", LAYOUT_U64, 0, 0, 0},
    {"TimerAddress", LAYOUT_PTR, 0, 0, 0},
    {"DeferredRoutine", LAYOUT_PTR, 0, 0, 0},
    {"EncodedDelay", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_timer_set_periodic[] = {
    {"ExpectedDueTime", LAYOUT_U64, 0, 0, 0},
    {"TimerAddress", LAYOUT_PTR, 0, 0, 0},
    {"TargetProcessorGroup", LAYOUT_U16, 0, 0, 0},
    {"TargetProcessorIndex", LAYOUT_U8, 0, 0, 0},
    {"Flags", LAYOUT_U8, 0, 0, 0},
    {"Period", LAYOUT_U32, 0, 0, 0},
    {"EncodedDelay", LAYOUT_U8, 0, 0, 0},
    {"Reserved0", LAYOUT_U8, 0, 0, 0},
    {"Reserved1", LAYOUT_U16, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_timer_cancel[] = {
    {"TimerAddress", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_clock_mode_switch[] = {
    {"NewState", LAYOUT_U8, 0, 0, 0},    {"PrevState", LAYOUT_U8, 0, 0, 0},
    {"Reserved", LAYOUT_BYTES, 0, 0, 6}, {"DeliveredIncrement", LAYOUT_U64, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},        {0},
};

static const struct layout_field perf_info_clock_time_update[] = {
    {"InterruptTime", LAYOUT_U64, 0, 0, 0},
    {"ClockOwner", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_clock_configuration[] = {
    {"KnownType", LAYOUT_U32, 0, 0, 0},
    {"Capabilities", LAYOUT_U32, 0, 0, 0},
    {"DisableReason", LAYOUT_REST, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_ipi[] = {
    {"RequestType", LAYOUT_U32, 0, 0, 0},
    {"TargetProcessor", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_cpu_cache_flush[] = {
    {"Address", LAYOUT_PTR, 0, 0, 0},     {"Bytes", LAYOUT_SIZE, 0, 0, 0},
    {"Clean", LAYOUT_U8, 0, 0, 0},        {"FullFlush", LAYOUT_U8, 0, 0, 0},
    {"Rectangle", LAYOUT_U8, 0, 0, 0},    {"Reserved0", LAYOUT_U8, 0, 0, 0},
    {"Reserved1", LAYOUT_HEX32, 0, 0, 0}, {0},
};

static const struct layout_field perf_info_dpc_enqueue[] = {
    {"Key", LAYOUT_PTR, 0, 0, 0},
    {"DpcQueueDepth", LAYOUT_I32, 0, 0, 0},
    {"DpcCount", LAYOUT_U32, 0, 0, 0},
    {"TargetProcessorIndex", LAYOUT_U32, 0, 0, 0},
    {"Importance", LAYOUT_U8, 0, 0, 0},
    {"Reserved", LAYOUT_BYTES, 0, 0, 3},
    {0},
};

static const struct layout_field perf_info_dpc_execution[] = {
    {"DpcRoutine", LAYOUT_PTR, 0, 0, 0},
    {"Key", LAYOUT_PTR, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_should_yield_processor[] = {
    {"YieldReason", LAYOUT_U32, 0, 0, 0},
    {"DpcWatchdogCount", LAYOUT_U32, 0, 0, 0},
    {"DpcTimeCount", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field perf_info_context_registers_amd64[] = {
    {"Registers", LAYOUT_HEX64, 0, 0, LAYOUT_TO_END},
    {0},
};

static const struct layout_field perf_info_context_registers_arm64[] = {
    {"Cpsr", LAYOUT_HEX32, 0, 0, 0},
    {"X0", LAYOUT_HEX64, 0, 0, 0},
    {"X1", LAYOUT_HEX64, 0, 0, 0},
    {"X2", LAYOUT_HEX64, 0, 0, 0},
    {"X3", LAYOUT_HEX64, 0, 0, 0},
    {"X4", LAYOUT_HEX64, 0, 0, 0},
    {"X5", LAYOUT_HEX64, 0, 0, 0},
    {"X6", LAYOUT_HEX64, 0, 0, 0},
    {"X7", LAYOUT_HEX64, 0, 0, 0},
    {"X8", LAYOUT_HEX64, 0, 0, 0},
    {"X9", LAYOUT_HEX64, 0, 0, 0},
    {"X10", LAYOUT_HEX64, 0, 0, 0},
    {"X11", LAYOUT_HEX64, 0, 0, 0},
    {"X12", LAYOUT_HEX64, 0, 0, 0},
    {"X13", LAYOUT_HEX64, 0, 0, 0},
    {"X14", LAYOUT_HEX64, 0, 0, 0},
    {"X15", LAYOUT_HEX64, 0, 0, 0},
    {"X16", LAYOUT_HEX64, 0, 0, 0},
    {"X17", LAYOUT_HEX64, 0, 0, 0},
    {"X18", LAYOUT_HEX64, 0, 0, 0},
    {"X19", LAYOUT_HEX64, 0, 0, 0},
    {"X20", LAYOUT_HEX64, 0, 0, 0},
    {"X21", LAYOUT_HEX64, 0, 0, 0},
    {"X22", LAYOUT_HEX64, 0, 0, 0},
    {"X23", LAYOUT_HEX64, 0, 0, 0},
    {"X24", LAYOUT_HEX64, 0, 0, 0},
    {"X25", LAYOUT_HEX64, 0, 0, 0},
    {"X26", LAYOUT_HEX64, 0, 0, 0},
    {"X27", LAYOUT_HEX64, 0, 0, 0},
    {"X28", LAYOUT_HEX64, 0, 0, 0},
    {"Fp", LAYOUT_HEX64, 0, 0, 0},
    {"Lr", LAYOUT_HEX64, 0, 0, 0},
    {"Sp", LAYOUT_HEX64, 0, 0, 0},
    {"Pc", LAYOUT_HEX64, 0, 0, 0},
    {0},
};

static const struct layout_field power_battery_life_info[] = {
    {"RemainingCapacity", LAYOUT_U32, 0, 0, 0},
    {"Rate", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field power_idle_state_change[] = {
    {"State", LAYOUT_U32, 0, 0, 0},
    {"Throttle", LAYOUT_U32, 0, 0, 0},
    {"Direction", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field power_set_power_action[] = {
    {"Trigger", LAYOUT_PTR, 0, 0, 0},
    {"PowerAction", LAYOUT_U32, 0, 0, 0},
    {"LightestState", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field power_set_power_action_ret[] = {
    {"Trigger", LAYOUT_PTR, 0, 0, 0},
    {"Status", LAYOUT_HEX32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field power_set_devices_state[] = {
    {"SystemState", LAYOUT_U32, 0, 0, 0}, {"Waking", LAYOUT_U8, 0, 0, 0},
    {"Shutdown", LAYOUT_U8, 0, 0, 0},     {"IrpMinor", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},         {0},
};

static const struct layout_field power_po_notify_device[] = {
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"DriverStart", LAYOUT_PTR, 0, 0, 0},
    {"OrderLevel", LAYOUT_U8, 0, 0, 0},
    {"MajorFunction", LAYOUT_U8, 0, 0, 0},
    {"MinorFunction", LAYOUT_U8, 0, 0, 0},
    {"", LAYOUT_SKIP, 0, 0, 1},
    {"Type", LAYOUT_U32, 0, 0, 0},
    {"State", LAYOUT_U32, 0, 0, 0},
    {"DeviceNameLength", LAYOUT_U32, 0, 0, 0},
    {"DeviceName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field power_po_notify_device_complete[] = {
    {"Irp", LAYOUT_PTR, 0, 0, 0},
    {"Status", LAYOUT_HEX32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {0},
};

static const struct layout_field power_po_session_callout[] = {
    {"SystemAction", LAYOUT_U32, 0, 0, 0},
    {"MinSystemState", LAYOUT_U32, 0, 0, 0},
    {"Flags", LAYOUT_HEX32, 0, 0, 0},
    {"PowerStateTask", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field power_po_pre_sleep[] = {
    {"PerformanceCounter", LAYOUT_U64, 0, 0, 0},
    {"PerformanceFrequency", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field power_po_post_sleep[] = {
    {"PerformanceCounter", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field power_ppm_throttle_state_change[] = {
    {"Type", LAYOUT_U32, 0, 0, 0},       {"NewState", LAYOUT_U32, 0, 0, 0},
    {"OldState", LAYOUT_U32, 0, 0, 0},   {"Result", LAYOUT_HEX32, 0, 0, 0},
    {"Processors", LAYOUT_U64, 0, 0, 0}, {0},
};

static const struct layout_field power_ppm_thermal_constraint[] = {
    {"Constraint", LAYOUT_U32, 0, 0, 0},
    {"", LAYOUT_ALIGN8, 0, 0, 0},
    {"Processors", LAYOUT_U64, 0, 0, 0},
    {0},
};

static const struct layout_field power_idle_exit_latency[] = {
    {"Flags", LAYOUT_HEX32, 0, 0, 0},        {"PlatformState", LAYOUT_U32, 0, 0, 0},
    {"ProcessorState", LAYOUT_U32, 0, 0, 0}, {"ReturnLatency", LAYOUT_U32, 0, 0, 0},
    {"TotalLatency", LAYOUT_U32, 0, 0, 0},   {0},
};

static const struct layout_field power_ppm_idle_processor_selection[] = {
    {"SelectedState", LAYOUT_U32, 0, 0, 0},
    {"VetoedStates", LAYOUT_U32, 0, 0, 0},
    {"VetoReason", LAYOUT_U32, 0, 0, LAYOUT_TO_END},
    {0},
};

static const struct layout_field lbr_lbr_record[] = {
    {"TimeStamp", LAYOUT_TICKS, 0, 0, 0}, {"ProcessId", LAYOUT_U32, 0, 0, 0},
    {"ThreadId", LAYOUT_U32, 0, 0, 0},    {"Options", LAYOUT_HEX32, 0, 0, 0},
    {"Entries", LAYOUT_REST, 0, 0, 0},    {0},
};

static const struct layout_field provider_ps_disk_io_attribution_start[] = {
    {"JobID", LAYOUT_U32, 0, 0, 0},
    {"DiskIoAttribution", LAYOUT_PTR, 0, 0, 0},
    {"StatusCode", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field provider_ps_io_rate_control_start[] = {
    {"JobID", LAYOUT_U32, 0, 0, 0},
    {"IoRateControl", LAYOUT_PTR, 0, 0, 0},
    {"MaxIops", LAYOUT_U64, 0, 0, 0},
    {"MaxBandwidth", LAYOUT_U64, 0, 0, 0},
    {"MaxTimePercent", LAYOUT_U64, 0, 0, 0},
    {"ReservationIops", LAYOUT_U64, 0, 0, 0},
    {"ReservationBandwidth", LAYOUT_U64, 0, 0, 0},
    {"ReservationTimePercent", LAYOUT_U64, 0, 0, 0},
    {"CriticalReservationIops", LAYOUT_U64, 0, 0, 0},
    {"CriticalReservationBandwidth", LAYOUT_U64, 0, 0, 0},
    {"CriticalReservationTimePercent", LAYOUT_U64, 0, 0, 0},
    {"ControlFlags", LAYOUT_HEX32, 0, 0, 0},
    {"VolumeName", LAYOUT_W, 0, 0, 0},
    {"StatusCode", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field provider_ps_io_rate_control_start_v0[] = {
    {"JobID", LAYOUT_U32, 0, 0, 0},
    {"IoRateControl", LAYOUT_PTR, 0, 0, 0},
    {"ControlType", LAYOUT_U32, 0, 0, 0},
    {"RateType", LAYOUT_U32, 0, 0, 0},
    {"RateAmount", LAYOUT_U32, 0, 0, 0},
    {"StatusCode", LAYOUT_HEX32, 0, 0, 0},
    {0},
};

static const struct layout_field provider_thread_work_on_behalf_update[] = {
    {"OldWorkOnBehalfThreadID", LAYOUT_U32, 0, 0, 0},
    {"NewWorkOnBehalfThreadID", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout_field provider_job_server_silo_state_change[] = {
    {"ContainerID", LAYOUT_GUID, 0, 0, 0},
    {"JobID", LAYOUT_U32, 0, 0, 0},
    {"State", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field provider_server_silo_create_callback_start[] = {
    {"ContainerID", LAYOUT_GUID, 0, 0, 0},
    {"JobID", LAYOUT_U32, 0, 0, 0},
    {"MonitorName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field provider_server_silo_create_callback_stop[] = {
    {"ContainerID", LAYOUT_GUID, 0, 0, 0},
    {"JobID", LAYOUT_U32, 0, 0, 0},
    {"Status", LAYOUT_HEX32, 0, 0, 0},
    {"MonitorName", LAYOUT_W, 0, 0, 0},
    {0},
};

static const struct layout_field provider_process_in_private_set[] = {
    {"ProcessName", LAYOUT_W, 0, 0, 0},
    {"ProcessID", LAYOUT_U32, 0, 0, 0},
    {0},
};

static const struct layout process_layouts[] = {
    {35, 2, 0, "InSwap", process_in_swap},
    {38, 0, 0, "BootPhaseStart", process_boot_phase_start},
    {48, 2, 0, "WakeChargeUser", process_wake_charge_user},
    {49, 2, 0, "WakeChargeExecution", process_wake_charge_user},
    {50, 2, 0, "WakeChargeKernel", process_wake_charge_user},
    {51, 2, 0, "WakeChargeInstrumentation", process_wake_charge_user},
    {52, 2, 0, "WakeChargePreserveProcess", process_wake_charge_user},
    {64, 2, 0, "WakeReleaseUser", process_wake_charge_user},
    {65, 2, 0, "WakeReleaseExecution", process_wake_charge_user},
    {66, 2, 0, "WakeReleaseKernel", process_wake_charge_user},
    {67, 2, 0, "WakeReleaseInstrumentation", process_wake_charge_user},
    {68, 2, 0, "WakeReleasePreserveProcess", process_wake_charge_user},
    {80, 2, 0, "WakeDropUser", process_wake_charge_user},
    {81, 2, 0, "WakeDropExecution", process_wake_charge_user},
    {82, 2, 0, "WakeDropKernel", process_wake_charge_user},
    {83, 2, 0, "WakeDropInstrumentation", process_wake_charge_user},
    {84, 2, 0, "WakeDropPreserveProcess", process_wake_charge_user},
    {96, 2, 0, "WakeEventUser", process_wake_event_user},
    {97, 2, 0, "WakeEventExecution", process_wake_event_user},
    {98, 2, 0, "WakeEventKernel", process_wake_event_user},
    {99, 2, 0, "WakeEventInstrumentation", process_wake_event_user},
    {112, 0, 0, "DebugEvent", process_debug_event},
};

static const struct layout thread_layouts[] = {
    {10, 2, 0, "SetName", thread_set_name},
    {42, 0, 0, "KQueueWait", thread_k_queue_wait},
    {43, 0, 0, "ExecutiveResource", thread_executive_resource},
    {44, 0, 0, "PushLock", thread_push_lock},
    {45, 0, 0, "WaitSingle", thread_wait_single},
    {47, 0, 0, "DelayExecution", thread_delay_execution},
    {57, 1, 1, "WorkerThread", thread_worker_thread},
    {58, 0, 0, "DfssStartNewInterval", thread_dfss_start_new_interval},
    {59, 0, 0, "DfssReleaseThread", thread_dfss_release_thread},
};

static const struct layout thread_pool_layouts[] = {
    {32, 2, 0, "CBEnqueue", thread_pool_cb_enqueue},
    {33, 3, 0, "CBDequeue", thread_pool_cb_enqueue},
    {33, 2, 2, "CBDequeue", thread_pool_cb_dequeue},
    {34, 2, 0, "CBStart", thread_pool_cb_enqueue},
    {35, 3, 0, "CBStop", thread_pool_cb_enqueue},
    {35, 2, 2, "CBStop", thread_pool_cb_dequeue},
    {36, 3, 0, "CBCancel", thread_pool_cb_cancel},
    {36, 2, 2, "CBCancel", thread_pool_cb_cancel_v2},
    {37, 2, 0, "PoolCreate", thread_pool_pool_create},
    {38, 2, 0, "PoolClose", thread_pool_pool_create},
    {39, 2, 0, "ThreadMinSet", thread_pool_thread_min_set},
    {40, 2, 0, "ThreadMaxSet", thread_pool_thread_min_set},
};

static const struct layout job_layouts[] = {
    {32, 0, 0, "Create", job_create},
    {33, 0, 0, "Terminate", job_create},
    {34, 0, 0, "Open", job_create},
    {44, 0, 0, "SetCpuRate", job_set_cpu_rate},
    {45, 0, 0, "SetNetRate", job_set_net_rate},
};

static const struct layout ums_layouts[] = {
    {32, 2, 0, "DSwitchStart", ums_d_switch_start},
    {33, 2, 0, "DSwitchEnd", ums_d_switch_start},
    {34, 2, 0, "ScheduledPark", ums_scheduled_park},
    {35, 2, 0, "Disassociate", ums_disassociate},
    {36, 2, 0, "CSwitch", ums_c_switch},
};

static const struct layout mmcss_layouts[] = {
    {32, 0, 0, "Start", nothing},
    {33, 0, 0, "Stop", nothing},
    {34, 0, 0, "Scheduler", mmcss_scheduler},
    {35, 0, 0, "Wakeup", mmcss_wakeup},
    {36, 0, 0, "Sleep", nothing},
    {37, 0, 0, "SleepResp", nothing},
};

static const struct layout alpc_layouts[] = {
    {33, 2, 0, "ALPC-Send-Message", alpc_alpc_send_message},
    {34, 2, 0, "ALPC-Receive-Message", alpc_alpc_send_message},
    {35, 2, 0, "ALPC-Wait-For-Reply", alpc_alpc_send_message},
    {36, 2, 0, "ALPC-Wait-For-New-Message", alpc_alpc_wait_for_new_message},
    {37, 2, 0, "ALPC-Unwait", alpc_alpc_unwait},
};

static const struct layout crit_sec_layouts[] = {
    {34, 0, 0, "Collision", crit_sec_collision},
    {35, 0, 0, "Init", crit_sec_init},
};

static const struct layout perf_info_layouts[] = {
    {46, 1, 1, "SampleProf", perf_info_sample_prof},
    {49, 2, 0, "PmcCtrCorruption", perf_info_pmc_ctr_corruption},
    {67, 1, 1, "ISR", perf_info_isr},
    {68, 1, 1, "DPC", perf_info_dpc},
    {69, 1, 1, "TimerDPC", perf_info_dpc},
    {75, 3, 0, "CollectionStart", perf_info_collection_start},
    {75, 2, 2, "CollectionStart", perf_info_collection_start_v2},
    {76, 3, 0, "CollectionEnd", perf_info_collection_start},
    {76, 2, 2, "CollectionEnd", perf_info_collection_start_v2},
    {77, 0, 0, "EResourceDCStart", perf_info_e_resource_dc_start},
    {78, 0, 0, "EResourceDCEnd", perf_info_e_resource_dc_start},
    {79, 0, 0, "ClockInterrupt", perf_info_clock_interrupt},
    {80, 0, 0, "TimerExpirationStart", perf_info_timer_expiration_start},
    {81, 0, 0, "TimerExpiration", perf_info_timer_expiration},
    {82, 0, 0, "TimerSetPeriodic", perf_info_timer_set_periodic},
    {83, 0, 0, "TimerSetOneShot", perf_info_timer_set_periodic},
    {84, 0, 0, "TimerSetThread", perf_info_timer_set_periodic},
    {85, 0, 0, "TimerCancel", perf_info_timer_cancel},
    {87, 0, 0, "ClockModeSwitch", perf_info_clock_mode_switch},
    {88, 0, 0, "ClockTimeUpdate", perf_info_clock_time_update},
    {90, 0, 0, "ClockConfiguration", perf_info_clock_configuration},
    {91, 0, 0, "Ipi", perf_info_ipi},
    {95, 1, 1, "ISR-Passive", perf_info_isr},
    {99, 0, 0, "CpuCacheFlush", perf_info_cpu_cache_flush},
    {100, 0, 0, "DpcEnqueue", perf_info_dpc_enqueue},
    {101, 0, 0, "DpcExecution", perf_info_dpc_execution},
    {109, 0, 0, "ShouldYieldProcessor", perf_info_should_yield_processor},
    {122, 2, 0, "ContextRegistersAMD64", perf_info_context_registers_amd64},
    {123, 2, 0, "ContextRegistersARM64", perf_info_context_registers_arm64},
};

static const struct layout power_layouts[] = {
    {32, 0, 0, "BatteryLifeInfo", power_battery_life_info},
    {33, 0, 0, "IdleStateChange", power_idle_state_change},
    {34, 0, 0, "SetPowerAction", power_set_power_action},
    {35, 0, 0, "SetPowerActionRet", power_set_power_action_ret},
    {36, 0, 0, "SetDevicesState", power_set_devices_state},
    {37, 0, 0, "SetDevicesStateRet", alpc_alpc_unwait},
    {38, 0, 0, "PoNotifyDevice", power_po_notify_device},
    {39, 0, 0, "PoNotifyDeviceComplete", power_po_notify_device_complete},
    {40, 0, 0, "PoSessionCallout", power_po_session_callout},
    {41, 0, 0, "PoSessionCalloutRet", alpc_alpc_unwait},
    {48, 0, 0, "PoPreSleep", power_po_pre_sleep},
    {49, 0, 0, "PoPostSleep", power_po_post_sleep},
    {50, 0, 0, "PoCalibratedPerfCounter", power_po_post_sleep},
    {52, 0, 0, "PpmThrottleStateChange", power_ppm_throttle_state_change},
    {54, 0, 0, "PpmThermalConstraint", power_ppm_thermal_constraint},
    {60, 2, 0, "IdleExitLatency", power_idle_exit_latency},
    {61, 0, 0, "PpmIdleProcessorSelection", power_ppm_idle_processor_selection},
    {62, 0, 0, "PpmIdlePlatformSelection", power_ppm_idle_processor_selection},
};

static const struct layout lbr_layouts[] = {
    {32, 2, 0, "LbrRecord", lbr_lbr_record},
};

static const struct layout provider_layouts[] = {
    {16, 0, 0, "Task0", nothing},
    {17, 0, 0, "PsDiskIoAttributionStart", provider_ps_disk_io_attribution_start},
    {18, 0, 0, "PsDiskIoAttributionStop", provider_ps_disk_io_attribution_start},
    {19, 1, 0, "PsIoRateControlStart", provider_ps_io_rate_control_start},
    {19, 0, 1, "PsIoRateControlStart", provider_ps_io_rate_control_start_v0},
    {20, 1, 0, "PsIoRateControlStop", provider_ps_io_rate_control_start},
    {20, 0, 1, "PsIoRateControlStop", provider_ps_io_rate_control_start_v0},
    {21, 0, 0, "ThreadWorkOnBehalfUpdate", provider_thread_work_on_behalf_update},
    {22, 0, 0, "JobServerSiloStateChange", provider_job_server_silo_state_change},
    {23, 0, 0, "ServerSiloCreateCallbackStart", provider_server_silo_create_callback_start},
    {24, 0, 0, "ServerSiloCreateCallbackStop", provider_server_silo_create_callback_stop},
    {25, 0, 0, "ServerSiloTerminateCallbackStart", provider_server_silo_create_callback_start},
    {26, 0, 0, "ServerSiloTerminateCallbackStop", provider_server_silo_create_callback_start},
    {27, 0, 0, "ProcessInPrivateSet", provider_process_in_private_set},
};

#define CLASS(GUID, NAME, LAYOUTS)                      \
    {                                                   \
        .guid = GUID, .name = NAME, .layouts = LAYOUTS, \
        .n_layouts = sizeof LAYOUTS / sizeof LAYOUTS[0] \
    }

const struct decode_class layout_work_classes[] = {
    CLASS(ETW_CLASS_PROCESS, "Process", process_layouts),
    CLASS(ETW_CLASS_THREAD, "Thread", thread_layouts),
    CLASS(ETW_CLASS_THREAD_POOL, "ThreadPool", thread_pool_layouts),
    CLASS(ETW_CLASS_JOB, "Job", job_layouts),
    CLASS(ETW_CLASS_UMS, "UMS", ums_layouts),
    CLASS(ETW_CLASS_MMCSS, "MMCSS", mmcss_layouts),
    CLASS(ETW_CLASS_ALPC, "ALPC", alpc_layouts),
    CLASS(ETW_CLASS_CRIT_SEC, "CritSec", crit_sec_layouts),
    CLASS(ETW_CLASS_PERF_INFO, "PerfInfo", perf_info_layouts),
    CLASS(ETW_CLASS_POWER, "Power", power_layouts),
    CLASS(ETW_CLASS_LBR, "LBR", lbr_layouts),
    {.guid = ETW_PROVIDER_KERNEL_PROCESS,
     .form = RAW_MANIFEST,
     .name = "Microsoft-Windows-Kernel-Process",
     .layouts = provider_layouts,
     .n_layouts = sizeof provider_layouts / sizeof provider_layouts[0]},
};

const size_t layout_work_n = sizeof layout_work_classes / sizeof *layout_work_classes;
