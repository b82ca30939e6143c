"""procfleet-agent record on Windows: what it asks the system for, in which order, and that nothing stays behind.

The double of event tracing writes a recording of the corpus, or a made-up one, in the kernel session's place; that a real kernel writes the
file, nobody here can show. What is written is read by the other commands.
"""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

from winehost import AGENT, BIN, Agent, Fleet, WineHost, check, ensure, needs, windows
from prefix import WINE
import etl_file  # winehost says where it is
import own_file

DNS = "1c95126e-7eea-49a9-a3fe-a378b03ddb4d"
LINUX_ETL = os.path.join(BIN, "procfleet-etl")
ETL = os.path.join(os.path.dirname(AGENT), "procfleet-etl.exe")
WHOLE, LAST, RING, KERNEL = 0x1, 0x2, 0x400, 0x02000000


class Recorder(Agent):
    """No agent runs: only its program with a script."""

    def start(self):
        pass

    def record(self, *words, expect=0, stop=None):
        with open(self.fleet.path("said"), "wb+") as out, open(self.fleet.path("wrong"), "wb+") as err:
            program = ETL if stop else AGENT  # a console tells both of Ctrl-C
            p = subprocess.Popen([WINE, program, "record", *words], env=self.env(".script"), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            if stop:
                self.fleet.wait_for("it to record", lambda: "recording for" in self.fleet.log("wrong"))
                p.send_signal(stop)
            code = p.wait(90)
            out.seek(0)
            err.seek(0)
            said, wrong = out.read().decode(errors="replace").replace("\r", ""), err.read().decode(errors="replace")
        check("record %s gives %d" % (" ".join(words), expect), code, expect if code == expect else (expect, said, wrong))
        return said, wrong

    def done(self):
        """What it has done since the last call, a line each."""
        text = self.journal()
        new, self.seen = text[getattr(self, "seen", 0):], len(text)
        return new.splitlines()


def sessions(lines, what):
    return [(m[1], int(m[2], 16), m[3], int(m[4])) for m in (
        re.match(what + r" (\S+) code=0 mode=0x(\w+) file=(.*) max=(\d+)", line) for line in lines) if m]


def order(lines):
    """The words of the journal, those that come again once."""
    words = [line.split()[0] for line in lines if not line.startswith(("begun", "process"))]
    return [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]]


def files(recorder, fleet):
    name = "Z:" + fleet.path("slow")
    said, _ = recorder.record("-o", name, "--profile", "cpu,dotnet", "--for", "1s", "--stacks")
    lines = recorder.done()
    started = sessions(lines, "start")
    check("two sessions are started", [s[0] for s in started], ["procfleet-record-user", "procfleet-record"])
    check("into files of their own", [s[2] for s in started], [name + ".user.etl", name + ".kernel.etl"])
    ensure("each to its end", all(s[1] & WHOLE and s[3] == 4096 for s in started), started)
    check("one of the kernel's", [bool(s[1] & KERNEL) for s in started], [False, True])
    check("the kernel's flags come last, .NET is asked at the end", order(lines),
          ["start", "enable", "start", "stacks", "set_info", "enable", "stop"])
    ensure("flags of the profiles", "flags=0x1000877" in lines[-1] or "flags=0x100087f" in "\n".join(lines), lines)
    check("both end", len([line for line in lines if re.match(r"stop procfleet-record\S* code=0", line)]), 2)
    ensure("the next step is said", "procfleet-etl summary --merge" in said, said)
    kernel = fleet.path("slow.kernel.etl")
    done = subprocess.run([WINE, AGENT, "etl", "summary", "--format", "json", "Z:" + kernel], env=recorder.env(".script"), capture_output=True,
                          timeout=60, check=False)
    ensure("what was recorded is read", done.returncode == 0 and json.loads(done.stdout)["by_event"], done)
    wrong = recorder.record("-o", name, "--for", "1s", expect=1)[1]
    ensure("a file that is there stays", "is there already" in wrong, wrong)
    check("and nothing is started", sessions(recorder.done(), "start"), [])


def last(recorder, fleet):
    recorder.record("-o", "Z:" + fleet.path("last"), "--max", "1GiB", "--for", "1h", stop=signal.SIGINT)
    lines = recorder.done()
    started = sessions(lines, "start")
    ensure("the newest of so much", all(s[1] & LAST and s[3] == 1024 for s in started), started)
    ensure("Ctrl-C ends it whole", [line for line in lines if line.startswith("stop procfleet-record ")], lines)


def ring(recorder, fleet):
    name = "Z:" + fleet.path("ring")
    recorder.record("-o", name, "--ring", "256MiB", "--for", "1s", "--profile", "disk")
    lines = recorder.done()
    started, written = sessions(lines, "start"), sessions(lines, "write")
    check("in memory, without a file", [(bool(s[1] & RING), s[2]) for s in started], [(True, "")] * 2)
    check("written at the end", [s[2] for s in written], [name + ".kernel.etl", name + ".user.etl"])
    ensure("so much, each", all("buffers=" + x in "\n".join(lines) for x in ("256x1024", "1024x256")), lines)
    ensure("and is there", os.path.getsize(fleet.path("ring.kernel.etl")) > 0)


def identities(host, fleet, made):
    """What the recorder writes by our own provider, read back: what is loaded, and what an event of the resolver looks like."""
    recorder = Recorder(host, "named", {"recorded": windows(made), "own": windows(fleet.path("named.own"))})
    _, told = recorder.record("-o", "Z:" + fleet.path("named"), "--for", "1s", "--profile", "network")
    told = re.search(r"identity of (\d+) loaded modules and the looks of (\d+) events", told)
    ensure("it says how much", told and int(told[2]) == 2, told)
    records = own_file.records(fleet.path("named.own"))
    records.append(etl_file.event(10 * len(records), DNS, 7, struct.pack("<QI", 42, 3), version=1))
    path = etl_file.write(fleet.path("named.etl"), records)
    rows = [json.loads(line) for line in subprocess.run([LINUX_ETL, "events", path, "--format", "jsonl"], check=True, capture_output=True,
                                                        timeout=60).stdout.splitlines()]
    images = [r for r in rows if r.get("event") == "Image"]
    check("each image that was counted is there", len(images), int(told[1]))
    ensure("with its file and the identity of its symbols", any(r["fields"]["FileName"].lower().endswith("tdh.dll") for r in images) and
           all(r["fields"]["GuidSig"].strip("{}0-") and r["fields"]["ImageBase"] for r in images), images[:2])
    check("an event that describes nothing is read", [r["fields"] for r in rows if r.get("guid") == DNS], [{"seq": 42, "kind": "plain"}])


def faults(host, fleet, made):
    helps, _ = Recorder(host, "helps", {}).record("--help")
    for name, script, words, code in (
            ("refused", {"fault.start": "0,4,5"}, "access denied", 1), ("noslot", {"fault.start": "1,100,1450"}, "no session slot is free", 1),
            ("flags", {"flags_refused": 0x10}, "not recorded: session procfleet-record: the kernel refuses the flags 0x10", 0),
            ("provider", {"fault.enable": "1,1,5"}, "not recorded: session procfleet-record-user: provider", 0),
            ("lossy", {"buffers_lost": 3}, "6 buffers were lost", 5)):
        recorder = Recorder(host, name, dict(script, recorded=windows(made)))
        _, wrong = recorder.record("-o", "Z:" + fleet.path(name), "--for", "1s", expect=code)
        ensure("--help knows exit code %d" % code, "%d " % code in helps.split("Exit codes:")[1], helps)
        ensure("%s is said" % name, words in wrong, wrong)
        lines = recorder.done()
        check("%s: what was started is stopped" % name, len([x for x in lines if re.match(r"stop procfleet-record\S* code=0", x)]),
              len(sessions(lines, "start")))


def killed(host, fleet, made):
    """The double forgets with the program that is killed; a session that stands is what the next one finds."""
    recorder = Recorder(host, "left", {"left": "procfleet-record", "recorded": windows(made)})
    wrong = recorder.record("-o", "Z:" + fleet.path("left"), "--for", "1s", expect=1)[1]
    ensure("one that is under way is not touched", "record --end" in wrong and not sessions(recorder.done(), "stop"), wrong)
    recorder.record("--end")
    ensure("but ended when asked", any(x.startswith("stop procfleet-record code=0") for x in recorder.done()))
    other = Recorder(host, "none", {})
    wrong = other.record("--end", expect=1)[1]
    ensure("nothing to end is said", "no recording is under way" in wrong, wrong)


needs()
with Fleet() as fleet:
    fleet.start_collector()
    host = WineHost(fleet)
    try:
        begun = time.monotonic()
        made = fleet.path("made.etl")
        fleet.run("tests/etl_gen", made, "250000")
        recorder = Recorder(host, "recorder", {"recorded": windows(made)})
        files(recorder, fleet)
        last(recorder, fleet)
        ring(recorder, fleet)
        identities(host, fleet, made)
        faults(host, fleet, made)
        killed(host, fleet, made)
    finally:
        host.end()
sys.exit(0)
