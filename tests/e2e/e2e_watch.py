"""`procfleet-agent watch` against what this machine says of a process that works."""

import csv
import io
import os
import subprocess
import sys

from fleet import BIN, check, ensure, read_json

AGENT = os.path.join(BIN, "procfleet-agent")


def watch(*args, expect=0):
    done = subprocess.run([AGENT, "watch", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=50)
    check("watch %s ends with %d" % (" ".join(args), expect), done.returncode, expect)
    return done.stdout.decode()


worker = subprocess.Popen([sys.executable, "-c", "while True: pass", "--password", "a secret phrase"])
try:
    pid = str(worker.pid)
    rows = [read_json(line) for line in watch("--pid", pid, "--interval", "500ms", "--for", "2s",
                                               "--format", "jsonl").splitlines()]
    ensure("two seconds at 500 ms are some samples", 3 <= len(rows) <= 6, len(rows))
    check("of this process only", {r["pid"] for r in rows}, {worker.pid})
    ensure("the first has no share of CPU time", "cpu_percent" not in rows[0], rows[0])
    ensure("the others have one", all(0 < r["cpu_percent"] <= 110 for r in rows[1:]), rows)
    ensure("CPU time grows", rows[0]["cpu_time"] < rows[-1]["cpu_time"], rows)
    with open("/proc/%s/statm" % pid) as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    ensure("memory agrees with statm", abs(rows[-1]["working_set_size"] - resident) <= 1 << 20,
           (rows[-1]["working_set_size"], resident))
    ensure("the secret is hidden whole", rows[-1]["command_line"].endswith("--password ***"), rows[-1])

    rows = [read_json(line) for line in watch("--pid", pid, "--threads", "--interval", "500ms", "--for", "1200ms",
                                               "--format", "jsonl").splitlines()]
    ours, threads = [r for r in rows if "tid" not in r], [r for r in rows if "tid" in r]
    check("every thread of the process", {r["tid"] for r in threads}, {int(t) for t in os.listdir("/proc/%s/task" % pid)})
    ensure("whose time is the process's", abs(threads[-1]["cpu_time"] - ours[-1]["cpu_time"]) < 10**8, rows)
    ensure("with a share of it", 0 < threads[-1]["cpu_percent"] <= 110, threads)

    table = list(csv.DictReader(io.StringIO(watch("--name", "PYTHON*", "--for", "300ms", "--interval", "100ms",
                                                  "--format", "csv"))))
    ensure("the same by name, in CSV", pid in {r["pid"] for r in table}, table)
    text = watch("--for", "300ms", "--interval", "100ms", "--limit", "3")
    ensure("a table has a head", text.startswith("TIME"), text)
    with open("/dev/full", "w") as full:
        done = subprocess.run([AGENT, "watch", "--interval", "100ms"], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, timeout=50)
    check("an output that cannot be written is a failure", done.returncode, 1)
finally:
    worker.kill()
    worker.wait()

watch("--interval", "1ms", expect=2)
watch("--pid", "x", expect=2)
watch("--threads", expect=2)
watch("--format", "xml", expect=2)
watch("--for", "soon", expect=2)
