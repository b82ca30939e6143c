"""procfleet-agent.exe at work: under Wine it ships over mutual TLS to a Linux collector, whose answers must agree with /proc.

Stopped, started again, killed, its collector restarted, and with a certificate of somebody else's authority.
"""

import json
import os
import signal
import subprocess
import sys

WINDOWS_BIN = os.environ["PROCFLEET_BIN"]
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, Fleet, check, ensure, read_json, skip  # noqa: E402  (it reads the environment)

WINE = os.environ["WINE64"]
HOST = "winlab"
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def wine(fleet, program, *args, log=None, **more):
    """Starts an .exe; paths among the arguments become those of Windows."""
    args = [a.replace("=/", "=Z:/") for a in args]
    if log:
        with open(fleet.path(log), "ab") as f:
            more.update(stdin=subprocess.DEVNULL, stdout=f, stderr=f)
            p = subprocess.Popen([WINE, os.path.join(WINDOWS_BIN, program), *args], **more)
    else:
        p = subprocess.Popen([WINE, os.path.join(WINDOWS_BIN, program), *args], **more)
    fleet.processes.append(p)
    return p


def start_agent(fleet, name=HOST, log="agent.log", **settings):
    return wine(fleet, "procfleet-agent.exe", "run", *fleet.agent_args(name, batch__max_age="500ms", **settings), log=log)


def stop_agent(agent):
    """Ctrl-C, as in a console."""
    agent.send_signal(signal.SIGINT)
    check("the agent ends well after Ctrl-C", agent.wait(30), 0)


def start_burner(fleet):
    p = wine(fleet, os.path.join("tests", "burner.exe"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    check("the burner has burnt", p.stdout.readline().strip(), b"ready")
    with open("/proc/%d/cmdline" % p.pid, "rb") as f:
        ensure("its process of Linux is known", b"burner.exe" in f.read())
    return p


def truth(pid):
    """(CPU ns, resident bytes) as Linux has them."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    with open("/proc/%d/statm" % pid) as f:
        return (int(fields[11]) + int(fields[12])) * TICK_NS, int(f.read().split()[1]) * PAGE


def batches(fleet):
    return fleet.hosts().get(HOST, {}).get("batches", 0)


def more_batches(fleet, what):
    before = batches(fleet)
    fleet.wait_for(what, lambda: batches(fleet) >= before + 2)
    print("ok: %s" % what)


def figures_agree(fleet, burner):
    """The burner rests: what Linux says of it stands still."""
    seen = []

    def agree():
        cpu, resident = truth(burner.pid)
        for row in fleet.ask("top", "--host", HOST, "--by", "cpu_time", "--name", "burner.exe", expect=None):
            seen[:] = [row, cpu, resident]
            if abs(row["cpu_time"] - cpu) <= 2 * TICK_NS and abs(row["working_set_size"] - resident) <= 1 << 20:
                return row, cpu, resident
        return None

    try:
        row, cpu, resident = fleet.wait_for("CPU time and working set to agree with /proc", agree, 20)
    except SystemExit:
        print("the last answer, CPU ns and resident bytes of Linux:", *seen)
        raise
    print("ok: CPU time %d ns, Linux says %d; working set %d, Linux says %d"
          % (row["cpu_time"], cpu, row["working_set_size"], resident))
    ensure("it has burnt what it should", row["cpu_time"] >= 1_400_000_000, row)
    ensure("and touched what it should", row["working_set_size"] >= 64 << 20, row)
    ensure("columns that Wine does not fill are absent", "page_faults" not in row and "private_bytes" not in row, row)
    top = fleet.ask("top", "--host", HOST, "--by", "cpu_time", expect=None)
    ensure("the agent itself is there too", any(r["name"] == "procfleet-agent.exe" for r in top), top)
    ensure("no process is without a name", all(r.get("name") for r in top), top)


def told_by_handle(fleet):
    """What no table holds comes a little later: nobody recorded the burner's start."""

    def known():
        rows = fleet.ask("ps", "--host", HOST, "--name", "burner.exe", expect=None)
        return [r for r in rows if r.get("command_line") and r.get("user")]

    row = fleet.wait_for("the burner's command line and user", known, 30)[0]
    ensure("its command line is that of its start", row["command_line"].rstrip().rstrip('"').endswith("burner.exe"), row)
    ensure("its user is an account", "\\" in row["user"], row)
    ensure("its image is a path", row["image"].endswith("\\burner.exe"), row)

    def own():
        rows = fleet.ask("top", "--host", HOST, "--by", "peak_handle_count", "--name", "burner.exe", expect=None)
        return [r for r in rows if r.get("peak_handle_count")]

    ensure("the most handles it had are known", fleet.wait_for("its handles", own))


def tells_of_itself(fleet):
    """That event tracing is refused: in its status, as an event, in doctor; what it does: in its own row."""
    with open(fleet.path("agents", HOST, "status.json")) as f:
        told = json.load(f)
    check("its status says that it runs and polls", (told["running"], told["source"]["polled"]), (True, True))
    check("and is connected", told["uplink"]["state"], "connected")
    ensure("and why it polls", "procfleet" in told["source"]["detail"] or told["notes"], told)
    events = fleet.ask("events", "--host", HOST, "--kind", "source", expect=None)
    check("source events are those of its status", [e["text"] for e in events],
          [n["text"] for n in told["notes"] if n["kind"] == "source"])
    rows = fleet.ask("history", "--host", HOST, "--pid", str(told["pid"]), "-m", "agent.level", "-m", "agent.bytes_sent", expect=None)
    ensure("its own row has its level and what it sent", any("agent.level" in r and r.get("agent.bytes_sent") for r in rows), rows)
    doctor = wine(fleet, "procfleet-agent.exe", "doctor", "--format", "json", *fleet.agent_args(HOST),
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = {r["check"]: r for r in json.loads(doctor.communicate(timeout=60)[0])}
    check("doctor sees it run", found["agent.running"]["state"], "ok")
    check("and poll", found["agent.source"]["state"], "warning")
    check("and leaves the source to it", found["source"]["state"], "skipped")


def shown_here(fleet):
    """show-wire and watch beside the running agent, whose sources they leave alone."""

    def rows(*args):
        p = wine(fleet, "procfleet-agent.exe", *args, "--for", "1500ms", "--format", "jsonl",
                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return [read_json(line) for line in p.communicate(timeout=60)[0].splitlines()]

    wire = rows("show-wire", "--set", "process_filter.target_process_names=BURNER*")
    check("show-wire reads tables", {r["source"] for r in wire if r["type"] == "batch"}, {"snapshot"})
    told = [r for r in wire if r["type"] == "process"]
    check("of who is wanted only", {r["name"] for r in told}, {"burner.exe"})
    samples = [r for r in wire if r["type"] == "sample"]
    check("and no other", {r["pid"] for r in samples}, {told[0]["pid"]})
    ensure("with its CPU time", samples[-1]["cpu_time"] >= 1_400_000_000, samples)
    ensure("the others are counted", wire[-1]["filtered"] > 0, wire[-1])
    seen = rows("watch", "--name", "burner.exe", "--threads")
    threads = [r for r in seen if "tid" in r]
    ensure("watch shows the threads' time as the process's",
           threads and abs(max(r["cpu_time"] for r in threads) - samples[-1]["cpu_time"]) <= 10**8, seen)


def wrong_certificate(fleet):
    fleet.run("procfleet-collector", "pki", "init", "--dir", fleet.path("theirs"), "--name", "another authority")
    theirs = fleet.issue("agent", "stranger", "theirs")
    tls = {"tls__cert": theirs["cert"], "tls__key": theirs["key"]}
    agent = start_agent(fleet, "stranger", log="mixed.log", tls__ca=fleet.path("pki", "ca.pem"), **tls)
    check("a certificate that our authority has not signed ends the agent as refused", agent.wait(60), 4)
    ensure("and the agent says why", "unknown authority" in fleet.log("mixed.log"), fleet.log("mixed.log"))

    agent = start_agent(fleet, "stranger", log="stranger.log", tls__ca=fleet.path("theirs", "ca.pem"), **tls)
    fleet.wait_for("the stranger's log to tell", lambda: " uplink " in fleet.log("stranger.log"))
    more_batches(fleet, "the others go on meanwhile")
    log = fleet.log("stranger.log")
    ensure("a stranger neither trusts the collector nor is let in",
           "authority" in log and "uplink connected" not in log and "stranger" not in fleet.hosts(), log)
    stop_agent(agent)


if not os.path.exists(os.path.join(BIN, "procfleet-collector")):
    skip("no collector of Linux in %s: build the preset release first" % BIN)
with Fleet() as fleet:
    fleet.start_collector()
    agent = start_agent(fleet)
    fleet.wait_for("the first data", lambda: batches(fleet))
    burner = start_burner(fleet)  # after the first table: all it uses is a difference of two tables
    figures_agree(fleet, burner)
    told_by_handle(fleet)
    tells_of_itself(fleet)
    shown_here(fleet)
    boot = fleet.hosts()[HOST]["boot"]

    stop_agent(agent)
    ensure("nothing was left behind", "undelivered=0" in fleet.log("agent.log"), fleet.log("agent.log"))
    agent = start_agent(fleet)
    more_batches(fleet, "a new start goes on")
    check("it is the same boot", fleet.hosts()[HOST]["boot"], boot)

    agent.kill()
    agent.wait()
    agent = start_agent(fleet)
    more_batches(fleet, "a killed one goes on, too")

    fleet.collector.kill()
    fleet.collector.wait()
    fleet.start_collector()
    more_batches(fleet, "data comes again after the collector's restart")
    check("without a gap", fleet.hosts()[HOST]["gaps"], 0)

    burner.stdin.close()
    check("the burner ends", burner.wait(30), 0)

    def ended():
        events = fleet.ask("events", "--host", HOST, "--name", "burner.exe", expect=None)
        return [e for e in events if e["kind"] == "process_stop"]

    ensure("its end is seen, by comparison", fleet.wait_for("the burner's end", ended)[0].get("exit_inferred"))
    wrong_certificate(fleet)
    stop_agent(agent)
sys.exit(0)
