"""`procfleet-agent watch` against what this machine says of a process that works."""

import csv
import io
import os
import signal
import subprocess
import sys

from fleet import BIN, check, ensure, read_json

AGENT = os.path.join(BIN, "procfleet-agent")


def watch(*args, expect=0):
    done = subprocess.run([AGENT, "watch", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=50)
    check("watch %s ends with %d" % (" ".join(args), expect), done.returncode, expect)
    return done.stdout.decode()


def samples(n, *args):
    """The rows of the first n samples, however long they take, and Ctrl-C."""
    args = ("watch", *args, "--interval", "500ms", "--format", "jsonl")
    process = subprocess.Popen([AGENT, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    rows, times = [], set()
    while len(times) <= n: # the next one has begun
        line = process.stdout.readline()
        ensure("a sample comes", line, rows)
        rows.append(read_json(line))
        times.add(rows[-1]["time"])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=50)
    check("%s ends with 0 when told to" % " ".join(args), process.returncode, 0)
    return [r for r in rows if r["time"] != rows[-1]["time"]]


def used(pid):
    """CPU time of a process as the kernel says, ns."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * (10**9 // os.sysconf("SC_CLK_TCK"))


def shares_are_right(what, rows):
    """Each share is that of the CPU time between two samples, however long that was."""
    for before, row in zip(rows, rows[1:]):
        share = 100 * (row["cpu_time"] - before["cpu_time"]) / (row["time"] - before["time"])
        ensure("%s: %.1f %% of CPU" % (what, row["cpu_percent"]), abs(row["cpu_percent"] - share) < 1, (before, row))


worker = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass", "--password", "a secret phrase"],
                          stdout=subprocess.PIPE)
try:
    pid = str(worker.pid)
    worker.stdout.readline()  # it has all its memory
    begun = used(worker.pid)
    rows = samples(4, "--pid", pid)
    ended = used(worker.pid)
    check("of this process only", {r["pid"] for r in rows}, {worker.pid})
    ensure("the first has no share of CPU time", "cpu_percent" not in rows[0], rows[0])
    shares_are_right("the others", rows)
    ensure("CPU time grows, and is the kernel's", begun <= rows[0]["cpu_time"] < rows[-1]["cpu_time"] <= ended, (begun, rows, ended))
    with open("/proc/%s/statm" % pid) as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    ensure("memory agrees with statm", abs(rows[-1]["working_set_size"] - resident) <= 1 << 20,
           (rows[-1]["working_set_size"], resident))
    ensure("the secret is hidden whole", rows[-1]["command_line"].endswith("--password ***"), rows[-1])

    rows = samples(2, "--pid", pid, "--threads")
    ended = used(worker.pid)
    ours, threads = [r for r in rows if "tid" not in r], [r for r in rows if "tid" in r]
    check("every thread of the process", {r["tid"] for r in threads}, {int(t) for t in os.listdir("/proc/%s/task" % pid)})
    ensure("whose time is the process's", ours[0]["cpu_time"] <= threads[-1]["cpu_time"] <= ended + 2 * 10**7, (rows, ended))
    shares_are_right("a thread", threads)

    table = list(csv.DictReader(io.StringIO(watch("--name", "PYTHON*", "--for", "300ms", "--interval", "100ms",
                                                  "--format", "csv"))))
    ensure("the same by name, in CSV", pid in {r["pid"] for r in table}, table)
    rows = watch("--pid", pid, "--interval", "500ms", "--for", "2s", "--format", "jsonl").splitlines()
    ensure("two seconds at 500 ms are at most some samples", 1 <= len(rows) <= 6, len(rows))
    text = watch("--for", "300ms", "--interval", "100ms", "--limit", "3")
    ensure("a table has a head", text.startswith("TIME"), text)
    with open("/dev/full", "w") as full:
        done = subprocess.run([AGENT, "watch", "--interval", "100ms"], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, timeout=50)
    check("an output that cannot be written is a failure", done.returncode, 1)
finally:
    worker.kill()
    worker.wait()

done = subprocess.run([AGENT, "watch", "--pid", "4294967290", "--for", "300ms", "--interval", "100ms"], stdin=subprocess.DEVNULL,
                      capture_output=True, text=True, timeout=50)
check("nobody of this number", (done.returncode, done.stdout, "no process" in done.stderr), (0, "", True))
watch("--interval", "1ms", expect=2)
watch("--pid", "x", expect=2)
watch("--threads", expect=2)
watch("--format", "xml", expect=2)
watch("--for", "soon", expect=2)
