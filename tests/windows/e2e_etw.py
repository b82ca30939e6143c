"""Recordings, delivered to the unmodified procfleet-agent.exe as a live system would, end in the collector with their own figures.

Our sechost.dll stands in the System32 of a Wine prefix: OpenTrace and ProcessTrace deliver a recording at its own pace, and
the table of processes is that of the recorded host. The figures are compared with `etl processes` of the same file.

Compared: every process with number, parent, session, name, command line; starts, ends, exit codes; images loaded and threads
started by process; CPU time. Not compared: times of day (the recording is moved to now), CPU time of the last second of a
process that ended (a live system keeps accounts in its table, which is read once a second), memory and I/O (recordings do not
have them: columns of the table hold a known number instead, which must arrive).
"""

import os
import re
import subprocess
import sys
import time
from collections import Counter

from winehost import Agent, BIN, Fleet, WineHost, check, ensure, needs, read_json, windows

PLAIN = os.environ["PROCFLEET_PLAIN"]
DELAY = 3  # seconds until the recorded time begins: by then every session is read
PERIOD_NS = 10**9  # of tables
WORKING_SET = 0x90  # what the table says of everybody
RECORDINGS = [("net.4.5.2.x64", 1), ("net.4.5.x86-win7", 1), ("diaghub.kernel.1", 1), ("gc-dynamic-events", 4)]


class Recording:
    def __init__(self, name, speed=1, path=None):
        self.name, self.speed = name, speed
        self.path = path or os.path.join(PLAIN, name + ".etl")

    def etl(self, *args):
        done = subprocess.run([os.path.join(BIN, "procfleet-agent"), "etl", *args, "--format", "json", self.path], check=True,
                              stdout=subprocess.PIPE, timeout=120)
        return read_json(done.stdout)

    def read(self):
        self.summary = self.etl("summary")
        self.rows = {(r["pid"], nth): r for r, nth in numbered(self.etl("processes"))}
        idle = self.rows.get((0, 0), {})
        for key, value in (("name", "Idle"), ("parent_pid", 0)):  # from the table, where no record says it
            idle.setdefault(key, value)
        self.seconds = self.summary["last_event_relms"] / 1000 / self.speed

    def script(self, **more):
        return dict(recording=windows(self.path), speed=int(self.speed * 1000), delay=DELAY * 1000, tables=1, **more)


def numbered(rows):
    """Each row with its place among those of its number."""
    seen = Counter()
    for r in sorted(rows, key=lambda r: (r["pid"], r.get("create_time", 0))):
        yield r, seen[r["pid"]]
        seen[r["pid"]] += 1


def same(what, ours, theirs):
    if ours != theirs:
        print("FAILED: %s" % what)
        for key in sorted(set(ours) | set(theirs)):
            if ours.get(key) != theirs.get(key):
                print("  %r: collector %r, recording %r" % (key, ours.get(key), theirs.get(key)))
        sys.exit(1)
    print("ok: %s (%d)" % (what, len(theirs)))


def field(rows, name):
    return {key: r[name] for key, r in rows.items() if r.get(name) not in (None, "")}


def figures(agent, rec):
    """The collector's rows against the recording's."""
    mine = [r for r in agent.ask("ps", "--all", "--idle") if r["name"] != "procfleet-agent.exe"]
    ours = {(r["pid"], nth): r for r, nth in numbered(mine)}
    for name in ("name", "parent_pid", "session_id", "command_line", "exit_code"):
        same("%s: %s of every process" % (agent.name, name), field(ours, name), field(rec.rows, name))
    events = agent.events()
    told = {kind: Counter(e["pid"] for e in events if e["kind"] == kind) for kind in ("process_start", "process_stop")}
    same("%s: starts" % agent.name, told["process_start"], Counter(r["pid"] for r in rec.rows.values() if "create_time" in r))
    same("%s: ends" % agent.name, told["process_stop"], Counter(r["pid"] for r in rec.rows.values() if "exit_time" in r))
    ensure("%s: none of them inferred" % agent.name, not any(e.get("exit_inferred") for e in events))
    loaded = Counter(e["pid"] for e in agent.events("image_load"))
    same("%s: images loaded" % agent.name, loaded, Counter({int(p): n for p, n in rec.summary["image_loads_by_pid"].items()}))
    cpu_time(agent.name, rec, ours)


def cpu_time(name, rec, ours):
    ensure("%s: the table's columns are in the same rows" % name,
           all(r.get("working_set_size") == WORKING_SET for r in ours.values() if r["pid"] and "exit_time" not in r))
    compared = 0
    for key, theirs in rec.rows.items():
        if "cpu_time" not in theirs:
            continue
        less = theirs["cpu_time"] - ours[key].get("cpu_time", 0)
        most = PERIOD_NS * 2 if "exit_time" in theirs else 0
        # Switches tell of the time since the last table, in a recording that is stretched as stretched as all of it.
        more = theirs["cpu_time"] * max(0, 1 / rec.speed - 1) if "exit_time" in theirs else 0
        ensure_quietly("%s: CPU time of %s" % (name, key), -more <= less <= most, (ours[key], theirs))
        compared += 1
    print("ok: %s: CPU time (%d)" % (name, compared))


def ensure_quietly(what, condition, detail):
    if not condition:
        ensure(what, False, detail)


def over(host, recs):
    """Waits until what has just been begun has come to its end, and two seconds in which records are put in order."""
    begun = time.monotonic()
    longest = max(r.seconds for r in recs)
    host.fleet.wait_for("the recordings to be over", lambda: time.monotonic() > begun + DELAY + longest + 4)


# -- high rates --

DISK = ("disk_read_bytes", "disk_write_bytes")
BUSY = {"etw__enable_disk_io": "true", "etw__ring_bytes": "16MiB", "budget__events": "1000000", "budget__cpu": "50", "budget__mem": "1GiB",
        "privacy__command_line": "full"}


def high_rates(host, present):
    """From the start at L4: a third session brings samples, faults and disk requests, whose bytes are charged by process."""
    recs = [r for r in present if r.name.startswith("net.")] or present
    return [(Agent(host, "high-" + r.name, r.script(), "--level", "L4", "--for", "120s", **BUSY), r) for r in recs]


def disk(agent, rec):
    rows = {(r["pid"], nth): r for r, nth in numbered(agent.ask("ps", "--all", "--idle"))}
    for metric in DISK:
        theirs = {key: r[metric] for key, r in rec.rows.items() if r.get(metric)}
        same("%s: %s" % (agent.name, metric), {key: rows[key].get(metric) for key in theirs}, theirs)
    check("%s: no level was left" % agent.name, [e["text"] for e in agent.events("level") if "L4" not in e["text"]], [])


def everything(host, present):
    """Each recording as a host of its own, all at once."""
    low = [(Agent(host, r.name, r.script(), privacy__command_line="full"), r) for r in present]
    high = high_rates(host, present)
    for agent, _ in low + high:
        agent.runs()
    over(host, present)
    for agent, _ in low + high:
        agent.stop()
    for agent, rec in low + high:
        figures(agent, rec)
        check("%s: nothing is lost" % agent.name, (agent.state()["lost_events"], agent.state()["gaps"]), (0, 0))
    for agent, rec in high:
        disk(agent, rec)


# -- faults --

class Fault:
    """What the script does; what must be in the ledger (row: least count), in the events and in the doctor's findings."""

    def __init__(self, name, script, ledger, events, doctor, polled=False, lost=None, runs=1, **settings):
        self.name, self.script, self.ledger, self.told, self.findings = name, script, ledger, events, doctor
        self.polled, self.lost, self.settings = polled, lost, settings
        self.runs = runs  # of which one must show it: where the machine's pace has a say


CUT_OF = "net.4.5.2.x64"  # one process starts at 2.7 s and ends at 8.2 s;
CUT = 2468  # so many records come in its first second, and no more in the next
WHOLE = ("start_refused", "open_refused", "stopped", "blind", "returned", "provider", "flags", "orphan", "attached")
FAULTS = [
    Fault("start_refused", {"fault.start": "0,4,5"}, {"etw.calls_failed": 4, "etw.started": 2},
          ["start of procfleet: access denied; run as LocalSystem", "events tell of starts and ends from now on"],
          ["start of procfleet-doctor: access denied; run as LocalSystem", "agent.source", "live since"]),
    Fault("open_refused", {"fault.open": "0,4,5"}, {"etw.calls_failed": 0, "etw.started": 4},
          ["open of procfleet: access denied; run as LocalSystem", "events tell of starts and ends from now on"],
          ["open of procfleet-doctor: access denied", "agent.source", "live since"]),
    Fault("no_slot", {"fault.start": "0,100000,1450", "holder": ["Process Monitor", "xperf", "NT Kernel Logger"]},
          {"etw.calls_failed": 4},
          ["no session slot is free (error 1450), they are held by: Process Monitor, xperf, NT Kernel Logger; stop one"],
          ["2 of 6 private system loggers (Process Monitor, xperf)", "they are held by: Process Monitor, xperf", "fix: stop a session that is not",
           "snapshot, polled"],
          polled=True),
    Fault("stopped", {"stop_after": CUT}, {"etw.session_lost": 1, "etw.restarts": 1},
          ["session procfleet was lost: another program stopped it", "events tell of starts and ends from now on"],
          ["etw session_lost: 1 in the last hour", "another program stops our sessions", "live since"], lost=1,
          etw__retry_pause="2s"),
    Fault("blind", {"stop_after": CUT, "fault.enable": "0,100000,5"}, {"etw.session_lost": 1, "etw.providers_refused": 1},
          ["session procfleet was lost: another program stopped it", "events tell of starts and ends from now on"],
          ["another program stops our sessions", "live since"], lost=1, etw__retry_pause="2s"),
    Fault("returned", {"return_after": CUT}, {"etw.session_lost": 1, "etw.restarts": 1},
          ["session procfleet was lost", "events tell of starts and ends from now on"],
          ["etw session_lost: 1 in the last hour"], lost=1),
    Fault("untold", {"lose_every": 100}, {"etw.kernel_events": 20, "etw.grown": 1, "source.lost_events": 20},
          ["session procfleet: the system loses events for want of buffers; raise etw.max_buffers"],
          ["raise etw.max_buffers, or set etw.preset to burst"], lost=20),
    Fault("told", {"lose_every": 100, "lose_told": 1}, {"etw.kernel_events": 20, "source.lost_events": 20},
          ["session procfleet: the system loses events for want of buffers"],
          ["raise etw.max_buffers, or set etw.preset to burst"], lost=20),
    Fault("buffers", {"buffers_lost": 3}, {"etw.kernel_buffers": 3, "etw.grown": 1, "source.lost_buffers": 3},
          ["the system loses events for want of buffers"],
          ["raise etw.max_buffers, or set etw.preset to burst"], lost=3),
    Fault("provider", {"fault.enable": "0,100000,5"}, {"etw.providers_refused": 1},
          ["provider Microsoft-Windows-Kernel-Process cannot be enabled (error 5)"],
          ["etw providers_refused: 1 in the last hour"]),
    Fault("flags", {"flags_refused": 4}, {"etw.flags_refused": 1}, ["the kernel refuses the flags 0x4; the others are on"],
          ["etw flags_refused: 1 in the last hour"]),
    Fault("foreign", {"holder": "procfleet"}, {"etw.calls_failed": 1},
          ["another program's session has this name; stop it or configure another"],
          ["ours among them: yes", "snapshot, polled", "another program's session has this name"], polled=True),
    Fault("orphan", {"orphan": "procfleet"}, {"etw.orphan_reclaimed": 1, "etw.started": 2}, [], ["agent.source", "live since"]),
    Fault("attached", {"holder": "somebody"}, {}, [], ["live since"], source="attach",
          etw__session_name="somebody"),
    Fault("burst", {"at_once": 1}, {"etw.full_thread": 1, "source.lost_events": 1},
          ["its ring overflows; raise etw.ring_bytes"],
          ["raise etw.ring_bytes"], lost=1, runs=4, etw__ring_bytes="64KiB"),
]


def await_counters(agent, fault):
    def counted():
        losses = agent.losses()
        return all(losses.get(row, 0) >= least for row, least in fault.ledger.items())

    for left in reversed(range(fault.runs)):
        try:
            agent.fleet.wait_for("the ledger of %s" % agent.name, counted, 20)
            break
        except SystemExit:
            print("  it has %r, not %r" % (agent.losses(), fault.ledger))
            if not left:
                raise
        agent.stop()
        agent.start()
        agent.runs()
    if fault.ledger:
        print("ok: %s: counted %s" % (agent.name, ", ".join(sorted(fault.ledger))))


def fault_shows(agent, fault):
    await_counters(agent, fault)
    for text in fault.told:  # the counters may be a batch ahead
        agent.fleet.wait_for("%s to be told: %s" % (fault.name, text),
                             lambda text=text: any(text in e["text"] for e in agent.events("source")), 20)
        print("ok: %s: told: %s" % (fault.name, text))
    if fault.lost:  # the agent tells of it in its next batch
        agent.fleet.wait_for("the loss of %s" % fault.name, lambda: agent.state().get("lost_events", 0) >= fault.lost, 20)
    agent.fleet.wait_for("%s to be seen as it is" % fault.name, lambda: agent.state()["polled"] == fault.polled, 20)
    print("ok: %s: the collector knows how it is seen" % fault.name)
    state = agent.state()
    ensure("%s: the collector knows how much is lost" % fault.name,
           state["lost_events"] >= fault.lost if fault.lost else state["lost_events"] == 0, (state, agent.losses()))
    found = agent.doctor()
    for text in fault.findings:
        ensure("%s: the doctor says: %s" % (fault.name, text), text in found, found)


def faults(host, rec):
    agents = [(Agent(host, f.name, rec.script(**f.script), etw__retry_pause=f.settings.pop("etw__retry_pause", "1s"),
                     **f.settings), f) for f in FAULTS if rec.name == CUT_OF or CUT not in f.script.values()]
    for agent, _ in agents:
        agent.runs()
    begun = time.monotonic()
    for agent, fault in agents:
        fault_shows(agent, fault)
    host.fleet.wait_for("the recording to be over", lambda: time.monotonic() > begun + DELAY + 13)
    for agent, fault in agents:
        agent.stop()
        ends = [e for e in agent.events() if e["kind"] == "process_stop" and e["name"] == "Test.x64.exe"]
        if fault.name in ("foreign", "attached"):
            theirs = fault.script["holder"]
            ensure("%s: the session is not touched" % fault.name,
                   not re.search(r"^(start %s code=0|stop %s |update %s )" % (theirs, theirs, theirs), agent.journal(), re.M),
                   agent.journal())
        if rec.name == CUT_OF:
            exactly(agent, fault)
        if rec.name == CUT_OF and fault.name in WHOLE:
            told_once(agent, fault)
    strict(host, rec)


def exactly(agent, fault):
    """To the last one, once it has ended."""
    losses = agent.losses()
    if "lose_every" in fault.script:
        told = int(re.findall(r"told=(\d+)", agent.journal())[-1]) - 2  # of the manifest provider
        came = next(n for n in range(told, 2 * told) if n - n // fault.script["lose_every"] == told)
        check("%s: every lost event is counted" % fault.name, losses["etw.kernel_events"], came // fault.script["lose_every"])
    if "buffers_lost" in fault.script:  # each of the two sessions says so
        check("%s: every lost buffer is counted" % fault.name, losses["etw.kernel_buffers"], 2 * fault.script["buffers_lost"])


def told_once(agent, fault):
    """Whatever happened meanwhile: one start and one end, of which a record or a table told."""
    of = [e for e in agent.events() if e["name"] == "Test.x64.exe"]
    check("%s: a process is told once, with its exit code" % fault.name,
          [(e["kind"], e.get("exit_code")) for e in of], [("process_start", None), ("process_stop", 0)])
    check("%s: its start is known by" % fault.name, of[0]["origin"], "inferred" if fault.name == "blind" else "start")


def strict(host, rec):
    agent = Agent(host, "strict", rec.script(**{"fault.start": "0,100000,1450", "holder": "xperf"}), source="live")
    check("source live without a slot ends the agent", agent.process.wait(30), 1)
    ensure("and it says who holds them", "they are held by: xperf" in agent.log(), agent.log())


# -- a burst --

STARTS, RESIDENTS, MS = (int(os.environ.get("PROCFLEET_FORKS_" + key, value))
                         for key, value in (("STARTS", 4000), ("RESIDENTS", 1000), ("MS", 4000)))
LOSE = 50  # each so manieth record


def totals(job):
    """What the end of that process says of it, see etl_forks.c."""
    return {"cpu_cycles": 1000000 + 17 * job, "read_operations": 1000 + job % 1000, "write_operations": 1000 + job % 700,
            "read_bytes": (1000 + job % 5000) * 1024, "write_bytes": (1000 + job % 3000) * 1024, "hard_faults": 1000 + job % 40}


def forks(host):
    """A thousand processes, thousands of starts in seconds, as a make does: nothing is lost, and what is lost is counted."""
    rec = Recording("forks", 1, host.fleet.path("forks.etl"))
    host.fleet.run("tests/etl_forks", rec.path, str(RESIDENTS), str(STARTS), str(MS))
    rec.read()
    whole = Agent(host, "forks", rec.script(), **BUSY)
    lossy = Agent(host, "forks-lossy", rec.script(lose_every=LOSE), **BUSY)
    for agent in (whole, lossy):
        agent.runs()
    over(host, [rec])
    for agent in (whole, lossy):
        agent.stop()
    figures(whole, rec)
    rows = [r for r in whole.ask("ps", "--all", "--idle") if r["name"] == "step.exe"]
    jobs = {int(r["command_line"].split()[2]): r for r in rows}
    check("forks: every one of them is there", sorted(jobs), list(range(STARTS)))
    for metric in totals(0):
        same("forks: %s at the end" % metric, {job: r.get(metric) for job, r in jobs.items()},
             {job: totals(job)[metric] for job in range(STARTS)})
    same("forks: exit codes", {job: r.get("exit_code") for job, r in jobs.items()}, {job: job % 256 for job in range(STARTS)})
    ensure("forks: nothing is turned on before somebody reads", "unread=0" in whole.journal().splitlines()[-1], whole.journal())
    check("forks: nothing is lost", (whole.state()["lost_events"], whole.state()["gaps"]), (0, 0))
    losses(lossy, rec)


KERNEL = ("3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c", "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c", "2cb15d1d-5fc1-11d2-abe1-00a0c911f518")
SWITCH = 36  # nobody asks for these


def losses(agent, rec):
    """Of both sessions each so manieth record is lost."""
    kernel = sum(r["count"] for r in rec.summary["by_event"] if r["provider"] in KERNEL and r["opcode"] != SWITCH)
    starts_and_ends = 2 * STARTS
    lost = kernel // LOSE + starts_and_ends // LOSE
    check("%s: every lost event is counted" % agent.name, agent.losses()["etw.kernel_events"], lost)
    check("%s: and the collector knows" % agent.name, agent.state()["lost_events"], lost)
    told = Counter(e["kind"] for e in agent.events())
    ensure("%s: no more starts and ends are missing than records" % agent.name,
           STARTS - lost <= min(told["process_start"], told["process_stop"]) and max(told.values()) <= STARTS, told)


needs()
present = [r for r in (Recording(*r) for r in RECORDINGS) if os.path.exists(r.path)]
scenes = sys.argv[1:] or os.environ.get("PROCFLEET_SCENES", "figures faults").split()
with Fleet() as fleet:
    fleet.start_collector()
    host = WineHost(fleet)
    try:
        if scenes == ["forks"]:
            present = []
        elif not present:  # better than nothing: 128 ms of a made-up host, stretched
            made = Recording("generated", 0.025, fleet.path("generated.etl"))
            fleet.run("tests/etl_gen", made.path, "2500000")
            present.append(made)
        for rec in present:
            rec.read()
        if "figures" in scenes:
            everything(host, present)
        if "faults" in scenes:
            faults(host, present[0])
        if "forks" in scenes:
            forks(host)
    finally:
        host.end()
sys.exit(0)
