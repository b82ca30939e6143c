#!/usr/bin/env python3
"""Polls processes with psutil, for comparison with bench_overhead.

psutil_loop.py RATE WARM_UP SECONDS PID...: every 1/RATE s the fields that the agent's tables have,
of each pid, as far as this system has them. Prints, of the seconds measured, name=value pairs:
rounds, elapsed_ns, cpu_ns (user and system, of this process), resident (bytes). A round that is not
done when the next is due delays it: rounds tells what was reached. Exit 77: no psutil.
"""
import os
import resource
import sys
import time

try:
    import psutil
except ImportError:
    sys.exit(77)


def read(process):
    """What the agent tells of a process at a tick of a table."""
    with process.oneshot():
        return (
            process.name(),
            process.ppid(),
            process.create_time(),
            process.status(),
            process.cpu_times(),
            process.memory_info(),
            process.num_threads(),
            process.num_ctx_switches(),
            process.io_counters(),
            process.num_fds(),
            process.nice(),
        )


def cpu_ns():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return int((use.ru_utime + use.ru_stime) * 1e9)


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    rate, warm_up, seconds = (float(a) for a in sys.argv[1:4])
    processes = [psutil.Process(int(pid)) for pid in sys.argv[4:]]
    period = 1 / rate
    due = time.monotonic()
    begin, began_cpu, rounds, values = due + warm_up, None, 0, None
    while True:
        now = time.monotonic()
        if began_cpu is None and now >= begin:
            begin, began_cpu, rounds = now, cpu_ns(), 0
        if began_cpu is not None and now >= begin + seconds:
            break
        values = [read(p) for p in processes]
        rounds += 1
        due = max(due + period, time.monotonic() - period)
        time.sleep(max(0.0, due - time.monotonic()))
    if not values:
        sys.exit("nothing was read")
    print(
        f"rounds={rounds} elapsed_ns={int((now - begin) * 1e9)} "
        f"cpu_ns={cpu_ns() - began_cpu} resident={resident()}"
    )


if __name__ == "__main__":
    main()
