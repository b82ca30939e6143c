/* The one list of metrics. proto/PROTOCOL.md has it too; test_schema compares the two. */
#ifndef PROCFLEET_COMMON_MODEL_METRIC_LIST_H
#define PROCFLEET_COMMON_MODEL_METRIC_LIST_H

/* id, name, kind, unit, 1 = column on the wire, help */
#define METRIC_LIST(X)                                                                            \
    X(1, pid, ATTRIBUTE, NONE, 0, "process id")                                                   \
    X(2, name, ATTRIBUTE, TEXT, 0, "image name")                                                  \
    X(3, parent_pid, ATTRIBUTE, NONE, 0, "process id of the parent at start")                     \
    X(4, session_id, ATTRIBUTE, NONE, 0, "session (Windows: 0 = services; Linux: POSIX session)") \
    X(5, create_time, ATTRIBUTE, UTC_NS, 0, "start of the process")                               \
    X(6, exit_time, ATTRIBUTE, UTC_NS, 0, "end of the process")                                   \
    X(7, exit_code, ATTRIBUTE, NONE, 0, "exit code")                                              \
    X(8, command_line, ATTRIBUTE, TEXT, 0, "command line as the privacy policy lets it pass")     \
    X(9, cpu_time, COUNTER, NS, 1, "time on a CPU; its origin is times, cswitch or samples")      \
    X(10, cpu_percent, DERIVED, PERMILLE, 0, "share of one logical CPU in the interval")          \
    X(11, cpu_cycles, COUNTER, COUNT, 1, "CPU reference cycles")                                  \
    X(12, kernel_time, COUNTER, NS, 1, "CPU time in kernel mode")                                 \
    X(13, user_time, COUNTER, NS, 1, "CPU time in user mode")                                     \
    X(14, context_switches, COUNTER, COUNT, 1, "context switches of all threads")                 \
    X(15, priority, GAUGE, NONE, 1, "base priority")                                              \
    X(16, affinity_mask, GAUGE, MASK, 1, "CPUs allowed, the first 64")                            \
    X(17, working_set_size, GAUGE, BYTES, 1, "resident memory, shared pages included")            \
    X(18, private_bytes, GAUGE, BYTES, 1, "private memory (Linux: touched anonymous memory)")     \
    X(19, virtual_bytes, GAUGE, BYTES, 1, "address space")                                        \
    X(20, page_faults, COUNTER, COUNT, 1, "page faults, soft and hard")                           \
    X(21, hard_faults, COUNTER, COUNT, 1, "page faults that read from disk")                      \
    X(22, peak_working_set, GAUGE, BYTES, 1, "largest resident memory so far")                    \
    X(23, paged_pool, GAUGE, BYTES, 1, "paged pool charged to the process")                       \
    X(24, non_paged_pool, GAUGE, BYTES, 1, "non-paged pool charged to the process")               \
    X(25, thread_count, GAUGE, COUNT, 1, "threads")                                               \
    X(26, thread_ids, ATTRIBUTE, NONE, 0, "thread ids; local only")                               \
    X(27, active_threads, GAUGE, COUNT, 1, "threads that ran in the interval")                    \
    X(28, suspended_threads, GAUGE, COUNT, 1, "threads that are suspended or stopped")            \
    X(29, thread_cpu_cycles, ATTRIBUTE, COUNT, 0, "cycles per thread; local only")                \
    X(30, thread_states, DERIVED, COUNT, 0, "threads per state: the thread_states.* columns")     \
    X(31, read_operations, COUNTER, COUNT, 1, "read operations, all kinds of I/O")                \
    X(32, write_operations, COUNTER, COUNT, 1, "write operations, all kinds of I/O")              \
    X(33, other_operations, COUNTER, COUNT, 1, "control operations")                              \
    X(34, read_bytes, COUNTER, BYTES, 1, "bytes read, all kinds of I/O")                          \
    X(35, write_bytes, COUNTER, BYTES, 1, "bytes written, all kinds of I/O")                      \
    X(36, io_priority, GAUGE, NONE, 1, "I/O priority")                                            \
    X(37, handle_count, GAUGE, COUNT, 1, "open handles (Linux: descriptors)")                     \
    X(38, gdi_objects, GAUGE, COUNT, 1, "GDI objects")                                            \
    X(39, user_objects, GAUGE, COUNT, 1, "USER objects")                                          \
    X(40, peak_handle_count, GAUGE, COUNT, 1, "largest number of open handles seen")              \
    X(41, thread_states.running, GAUGE, COUNT, 1, "threads running (Linux: or runnable)")         \
    X(42, thread_states.ready, GAUGE, COUNT, 1, "threads ready to run")                           \
    X(43, thread_states.waiting, GAUGE, COUNT, 1, "threads waiting (Linux: sleeping)")            \
    X(44, thread_states.disk_wait, GAUGE, COUNT, 1, "threads in uninterruptible wait (Linux)")    \
    X(45, thread_states.stopped, GAUGE, COUNT, 1, "threads stopped or traced (Linux)")            \
    X(46, thread_states.terminated, GAUGE, COUNT, 1, "threads ended, not yet removed")            \
    X(47, thread_states.idle, GAUGE, COUNT, 1, "kernel threads at rest (Linux)")                  \
    X(48, tcp_send_bytes, COUNTER, BYTES, 1, "bytes sent by TCP")                                 \
    X(49, tcp_recv_bytes, COUNTER, BYTES, 1, "bytes received by TCP")                             \
    X(50, udp_send_bytes, COUNTER, BYTES, 1, "bytes sent by UDP")                                 \
    X(51, udp_recv_bytes, COUNTER, BYTES, 1, "bytes received by UDP")                             \
    X(52, ready_time, COUNTER, NS, 1, "time its threads were ready, waiting for a CPU")           \
    X(53, tcp_retransmits, COUNTER, COUNT, 1, "TCP segments sent again")                          \
    X(54, disk_read_bytes, COUNTER, BYTES, 1, "bytes read from disk")                             \
    X(55, disk_write_bytes, COUNTER, BYTES, 1, "bytes written to disk")                           \
    X(56, agent.level, GAUGE, NONE, 1, "level of collection; only of an agent's own process")     \
    X(57, agent.events, COUNTER, COUNT, 1, "events the agent took in; its own process")           \
    X(58, agent.callback_p99, GAUGE, NS, 1, "what 99 % of its callbacks took; its own process")   \
    X(59, agent.bytes_sent, COUNTER, BYTES, 1, "batches acknowledged; its own process")           \
    X(60, disk_reads, COUNTER, COUNT, 1, "disk reads, by who asked")                              \
    X(61, disk_writes, COUNTER, COUNT, 1, "disk writes, by who asked")                            \
    X(62, disk_time, COUNTER, NS, 1, "time its disk requests took, overlaps added")               \
    X(63, file_operations, COUNTER, COUNT, 1, "file system operations begun")                     \
    X(64, tcp_connects, COUNTER, COUNT, 1, "TCP connections made or accepted")                    \
    X(65, io_wait_time, COUNTER, NS, 1, "time its threads waited for block I/O (Linux)")          \
    X(66, memory_wait_time, COUNTER, NS, 1, "time its threads waited for memory (Linux)")         \
    X(67, wait_time, COUNTER, NS, 1, "time its threads neither ran nor were ready")               \
    X(68, interrupt_time, COUNTER, NS, 1, "time DPCs and ISRs took from its threads")             \
    X(69, system_calls, COUNTER, COUNT, 1, "system calls")                                        \
    X(70, hard_fault_bytes, COUNTER, BYTES, 1, "bytes read from disk for page faults")            \
    X(71, virtual_alloc_bytes, COUNTER, BYTES, 1, "address space reserved or committed")          \
    X(72, virtual_free_bytes, COUNTER, BYTES, 1, "address space released")                        \
    X(73, file_read_bytes, COUNTER, BYTES, 1, "bytes asked for in file reads")                    \
    X(74, file_write_bytes, COUNTER, BYTES, 1, "bytes given to file writes")                      \
    X(75, registry_operations, COUNTER, COUNT, 1, "registry operations")                          \
    X(76, image_loads, COUNTER, COUNT, 1, "images loaded")                                        \
    X(77, threads_started, COUNTER, COUNT, 1, "threads started")                                  \
    X(78, private_working_set, GAUGE, BYTES, 1, "resident memory that is not shared")             \
    X(79, presents, COUNTER, COUNT, 1, "frames handed to the display system")                     \
    X(80, clr.gc_count, COUNTER, COUNT, 1, ".NET: garbage collections begun")                     \
    X(81, clr.gc_gen1, COUNTER, COUNT, 1, ".NET: of these, of generation 1")                      \
    X(82, clr.gc_gen2, COUNTER, COUNT, 1, ".NET: of these, of generation 2")                      \
    X(83, clr.gc_pause, COUNTER, NS, 1, ".NET: time its threads stood still for collections")     \
    X(84, clr.heap_bytes, GAUGE, BYTES, 1, ".NET: size of the heap after a collection")           \
    X(85, clr.alloc_bytes, COUNTER, BYTES, 1, ".NET: bytes allocated, to some 100 KB")            \
    X(86, clr.jit_methods, COUNTER, COUNT, 1, ".NET: methods compiled while it ran")              \
    X(87, clr.jit_time, COUNTER, NS, 1, ".NET: time that compiling them took")                    \
    X(88, clr.exceptions, COUNTER, COUNT, 1, ".NET: exceptions thrown")                           \
    X(89, clr.contentions, COUNTER, COUNT, 1, ".NET: waits for a managed lock")                   \
    X(90, clr.contention_time, COUNTER, NS, 1, ".NET: time of these waits")                       \
    X(91, clr.starvations, COUNTER, COUNT, 1, ".NET: thread pool grown because it starved")

#endif
