"""A large trace is summarised exactly and in little memory: TRACE_BYTES of it (256 MiB), packed or not, at most 32 MB resident; other
questions take at most 64 MiB of memory, all of them for 4 GiB and more."""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
import time

from fleet import BIN, check, ensure, skip

BYTES = int(os.environ.get("TRACE_BYTES", 256 << 20))
COMPRESS = ["compress"] if os.environ.get("TRACE_COMPRESS") == "1" else []
LIMIT = 32 * 10**6  # of resident memory, whatever the size of the trace
ASKED = [["stacks"], ["stacks", "--event", "switch", "--ready", "--format", "html"], ["pcap"]]
MORE = {"events": ["--provider", "Process"], "stacks": ["--event", "virtual", "--live"]}  # beside the command's name


def every_command():
    """As the program lists them; those of a large recording."""
    text = subprocess.run([os.path.join(BIN, "procfleet-etl"), "--help"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  ([a-z]+) ", text.split("Commands:")[1].split("\n\n")[0], re.M)
    return [[n, *MORE.get(n, [])] for n in names if n not in ("summary", "layouts", "session", "completion", "man", "version")]


# A child's memory is at least what its parent had: this one has little.
SMALL = "import os,sys; p=os.posix_spawn(sys.argv[1],sys.argv[1:],{},file_actions=[(os.POSIX_SPAWN_OPEN,1,'/dev/null',1,0)]);" \
    "_,s,u=os.wait4(p,0); print(s,u.ru_maxrss,'%.1f'%(u.ru_utime+u.ru_stime))"
said = []


def listen(terminal):
    """Takes what the terminal gets until its program ends."""
    try:
        while data := os.read(terminal, 4096):
            said.append(data.decode())
    except OSError:  # the other side is closed
        pass


if os.environ.get("PROCFLEET_SANITIZED") == "1":
    skip("a sanitizer's own memory would be measured")

with tempfile.TemporaryDirectory(prefix="procfleet-etl-") as room:
    space = os.statvfs(room)
    if space.f_bavail * space.f_frsize < BYTES * 5 // 4:
        skip("no room for a trace of %d bytes in %s" % (BYTES, room))
    trace, answer = os.path.join(room, "large.etl"), os.path.join(room, "answer.json")
    made = subprocess.run([os.path.join(BIN, "tests", "etl_gen"), trace, str(BYTES), *COMPRESS], check=True, capture_output=True, text=True)
    words = made.stdout.split()
    truth = {words[i]: int(words[i + 1]) for i in range(0, len(words), 2)}
    size = os.path.getsize(trace)
    begun = time.monotonic()
    with open(answer, "wb") as out:
        terminal, slave = pty.openpty()
        child = subprocess.Popen([os.path.join(BIN, "procfleet-agent"), "etl", "summary", "--format", "json", trace], stdout=out,
                                 stderr=slave)
        os.close(slave)
        progress = threading.Thread(target=listen, args=(terminal,))
        progress.start()
        _, status, usage = os.wait4(child.pid, 0)
        progress.join()
    took = time.monotonic() - begun
    check("it ends well", status, 0)
    ensure("progress is shown on a terminal, and wiped", took < 0.5 or (" % " in said[0] and "".join(said).endswith("\033[K")), said[:3])
    ensure("with an estimate of what is left", took < 4 or " left" in "".join(said), said[-3:])
    with open(answer, encoding="utf-8") as f:
        summary = json.load(f)
    check("every record is counted", summary["events_total"], truth["records"])
    check("every instance is told apart", len(summary["processes"]), truth["processes"])
    check("all time between switches is somebody's", sum(summary["cpu_ticks_by_pid_from_cswitch"].values()), truth["ticks"])
    run = sum(int(i.get("run", 0)) for i in summary["procfleet"]["instances"])
    check("and was charged to instances, to the tick", run, truth["ticks"] * 100)
    check("no table was full", any(summary["procfleet"]["over_limits"].values()), False)
    peak = usage.ru_maxrss * 1024
    print("%d bytes, %d records in %.1f s (%.1f M/s, %.1f s of CPU), %.1f MB resident at most" % (
        size, truth["records"], took, truth["records"] / took / 1e6, usage.ru_utime + usage.ru_stime, peak / 1e6))
    ensure("resident memory stays below %d MB" % (LIMIT // 10**6), peak < LIMIT, peak)
    for asked in ASKED + (every_command() if BYTES >= 1 << 32 else []):
        with open(os.devnull, "wb") as nowhere:
            measured = subprocess.run([sys.executable, "-S", "-c", SMALL, os.path.join(BIN, "procfleet-etl"), *asked, trace], stdout=subprocess.PIPE,
                                  stderr=nowhere, text=True, check=True).stdout.split()
        ensure("%s: %s KiB, at most 64 MiB; %s s" % (" ".join(asked), measured[1], measured[2]), measured[0] == "0" and int(measured[1]) <= 65536, measured)
sys.exit(0)
