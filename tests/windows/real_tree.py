"""real_tree.py [WIDTH DEPTH]: a tree of 40 times 100 short processes, seen by the agent and by the Security log (4688, 4689),
which knows nothing of it. Every start, parent, command line and exit code must agree."""

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

from real import SELFCHECK, Machine, argument

MARK = "procfleet-tree"
SUBCATEGORIES = ("{0CCE922B-69AE-11D9-BED3-505054503030}", "{0CCE922C-69AE-11D9-BED3-505054503030}")  # creation, termination
SPACE = "{http://schemas.microsoft.com/win/2004/08/events/event}"


def grow(machine, width, depth):
    """`width` shells at a time, each of which starts `depth` processes that end with a code of their own: ground truth by name."""
    shells = []
    for i in range(width):
        line = 'for /l %%%%k in (1,1,%d) do @cmd /d /c "echo %s-%d-%%%%k >nul & exit %d"' % (depth, MARK, i, i % 200 + 1)
        script = machine.path("tree-%d.cmd" % i)
        with open(script, "w", encoding="ascii") as f:
            f.write("@echo off\n%s\n" % line)
        shells.append(subprocess.Popen(machine.command(["cmd", "/d", "/c", machine.windows(script)]), env=machine.env,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for shell in shells:
        shell.wait(timeout=600)
    return {"%s-%d-%d" % (MARK, i, k): i % 200 + 1 for i in range(width) for k in range(1, depth + 1)}


def mark_of(command_line):
    for word in (command_line or "").replace('"', " ").split():
        if word.startswith(MARK + "-"):
            return word
    return None


def told_by_agent(rows):
    """mark: (pid, parent, exit code or None). What lived is told by its start, its end by pid and start."""
    lives, ends = {}, {}
    for r in rows:
        if r.get("type") not in ("event", "process"):
            continue
        key = (r["pid"], r["start"])
        if mark_of(r.get("command_line")):
            lives[key] = (mark_of(r["command_line"]), r.get("parent_pid"))
        if "exit_code" in r:
            ends[key] = r["exit_code"]
    return {mark: (key[0], parent, ends.get(key)) for key, (mark, parent) in lives.items()}


def told_by_audit(events):
    """The same from the Security log's events, as XML."""
    lives, ends = {}, {}
    for text in events:
        event = xml.fromstring(text)
        number = int(event.find("./%sSystem/%sEventID" % (SPACE, SPACE)).text)
        data = {d.get("Name"): d.text for d in event.iter(SPACE + "Data")}
        if number == 4688:
            mark = mark_of(data.get("CommandLine"))
            if mark:
                lives[mark] = (int(data["NewProcessId"], 16), int(data["ProcessId"], 16))
        elif number == 4689:
            ends.setdefault(int(data["ProcessId"], 16), []).append(int(data["Status"], 16))
    return {mark: (pid, parent, ends.get(pid, [None])) for mark, (pid, parent) in lives.items()}


def compare(machine, truth, agent, audit):
    """Problems, as sentences; at most a few of each kind."""
    problems = []
    for mark, code in truth.items():
        if mark not in agent:
            problems.append("%s is not told" % mark)
        elif agent[mark][2] != code:
            problems.append("%s ended with %s, told is %s" % (mark, code, agent[mark][2]))
        if audit is None or mark not in agent:
            continue
        if mark not in audit:
            problems.append("%s is not in the Security log" % mark)
        elif audit[mark][:2] != agent[mark][:2]:
            problems.append("%s: pid and parent are %s in the Security log, told are %s" % (mark, audit[mark][:2], agent[mark][:2]))
        elif code not in audit[mark][2]:
            problems.append("%s: exit codes in the Security log are %s" % (mark, audit[mark][2]))
    problems += ["%s is told and never was" % mark for mark in agent if mark not in truth]
    return problems


def selftest(machine):
    """The comparison notices what it is there for."""
    truth = {MARK + "-0-1": 1, MARK + "-0-2": 1}
    agent = {MARK + "-0-1": (10, 5, 1), MARK + "-0-2": (11, 5, 1)}
    audit = {MARK + "-0-1": (10, 5, [1]), MARK + "-0-2": (11, 5, [1])}
    faults = ((truth, {MARK + "-0-1": (10, 5, 1)}, audit), (truth, {**agent, MARK + "-0-2": (11, 5, 2)}, audit),
              (truth, {**agent, MARK + "-0-2": (11, 6, 1)}, audit), (truth, agent, {MARK + "-0-1": (10, 5, [1])}),
              (truth, agent, {**audit, MARK + "-0-2": (11, 5, [0])}), (truth, {**agent, MARK + "-9-9": (1, 1, 1)}, audit))
    machine.check("equal is equal", compare(machine, truth, agent, audit) == [])
    for i, fault in enumerate(faults):
        machine.check("fault %d is noticed" % i, len(compare(machine, *fault)) == 1, compare(machine, *fault))
    event = "<Event xmlns='%s'><System><EventID>%d</EventID></System><EventData>%s</EventData></Event>"
    data = "".join("<Data Name='%s'>%s</Data>" % row for row in
                   (("NewProcessId", "0xa"), ("ProcessId", "0x5"), ("CommandLine", "cmd /c exit 1 " + MARK + "-0-1")))
    end = "<Data Name='ProcessId'>0xa</Data><Data Name='Status'>0x1</Data>"
    read = told_by_audit([event % (SPACE[1:-1], 4688, data), event % (SPACE[1:-1], 4689, end)])
    machine.check("the Security log is read", read == {MARK + "-0-1": (10, 5, [1])}, read)
    rows = [{"type": "event", "pid": 10, "start": "7", "parent_pid": 5, "command_line": "cmd /c exit 1 %s-0-1" % MARK},
            {"type": "event", "pid": 10, "start": "7", "exit_code": 1}]
    machine.check("what the agent tells is read", told_by_agent(rows) == {MARK + "-0-1": (10, 5, 1)}, told_by_agent(rows))


def audit_on(machine):
    for guid in SUBCATEGORIES:
        machine.run("auditpol", "/set", "/subcategory:" + guid, "/success:enable", expect=0)
    machine.run("reg", "add", r"HKLM\Software\Microsoft\Windows\CurrentVersion\Policies\System\Audit", "/v",
                "ProcessCreationIncludeCmdLine_Enabled", "/t", "REG_DWORD", "/d", "1", "/f", expect=0)
    machine.run("wevtutil", "sl", "Security", "/ms:268435456", expect=0)


def audit_read(machine, since):
    text = machine.powershell(
        "Get-WinEvent -FilterHashtable @{LogName='Security'; Id=4688,4689; StartTime=[datetime]'%s'} | "
        "ForEach-Object { $_.ToXml() }" % since)
    return [line for line in text.splitlines() if line.startswith("<Event")]


def main():
    machine = Machine()
    selftest(machine)
    width, depth = int(argument(0, "2" if SELFCHECK else "40")), int(argument(1, "2" if SELFCHECK else "100"))
    real = machine.real("the Security log as the witness; a polled table does not see every short life")
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    if real:
        audit_on(machine)
    wire = machine.path("wire.jsonl")
    watch = machine.start(machine.exe, "show-wire", "--for", "20s" if SELFCHECK else "120s", "--format", "jsonl", "--config",
                          machine.settings("tree", batch__max_age="1s"), to=wire)
    machine.wait("the agent watches", lambda: any(r.get("type") == "batch" for r in machine.lines(wire)))
    began = time.monotonic()
    truth = grow(machine, width, depth)
    machine.fact("%d processes in %.1f s" % (len(truth), time.monotonic() - began))
    watch.wait(timeout=300)
    rows = machine.lines(wire)
    machine.check("what was to be sent is there to its end", any(r.get("type") == "total" for r in rows))
    agent = told_by_agent(rows)
    machine.fact("%d of %d starts told" % (len(agent), len(truth)))
    if real:
        problems = compare(machine, truth, agent, told_by_audit(audit_read(machine, since)))
        machine.check("agent, tree and Security log agree", not problems, "%d: %s" % (len(problems), problems[:20]))
        lost = [r for r in rows if r.get("type") == "ledger" and r.get("reason") in ("events_lost", "buffers_lost")]
        machine.fact("lost, as the agent says: %s" % json.dumps(lost))
    if os.environ.get("PROCFLEET_KEEP"):
        print("what was told is in %s" % wire)
    machine.end()


if __name__ == "__main__":
    sys.exit(main())
