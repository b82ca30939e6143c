"""process_filter.* of a running agent: what is filtered never reaches the collector, and is counted; the rest is all there."""

import json
import os
import shutil
import subprocess
import sys

from fleet import Fleet, check, ensure


def names(rows):
    return {r["name"] for r in rows}


def sleeper(name):
    """A process of that name."""
    return subprocess.Popen([name, "-c", "while True: pass"], executable=os.path.join(fleet.dir, name))


with Fleet() as fleet:
    for name in ("wanted-one", "wanted-two", "hidden"):
        shutil.copy(os.path.realpath(sys.executable), fleet.path(name))  # a process has its file's name
    processes = {name: sleeper(name) for name in ("wanted-one", "wanted-two", "hidden")}
    fleet.processes += processes.values()
    fleet.start_collector()
    agent = fleet.start_agent("filtered", sampling__rate_hz=10, batch__max_age="200ms",
                              process_filter__target_process_names="WANTED-*",
                              process_filter__exclude_names="nobody, HIDDEN ",
                              process_filter__exclude_pids=str(processes["wanted-two"].pid))
    nobody = fleet.start_agent("nobody", process_filter__target_process_names="no-such-name")

    def rows():
        return fleet.ask("top", "--host", "filtered", "-n", "1000", expect=None)

    fleet.wait_for("the wanted process to be reported", rows)
    late = sleeper("wanted-one")  # a start and an end while it runs
    fleet.processes.append(late)
    fleet.wait_for("the later one too", lambda: late.pid in {r["pid"] for r in rows()})
    subprocess.run([os.path.join(fleet.dir, "hidden"), "-c", "pass"], check=True)
    late.kill()
    late.wait()
    fleet.wait_for("its end", lambda: [e for e in fleet.ask("events", "--host", "filtered", expect=None)
                                       if e["kind"] == "process_stop" and e["pid"] == late.pid])
    check("only they have rows", {r["pid"] for r in rows()}, {processes["wanted-one"].pid, late.pid})
    told = fleet.ask("ps", "--host", "filtered", "-n", "1000", expect=None)
    check("and attributes", {r["pid"] for r in told} - {processes["wanted-one"].pid, late.pid}, set())
    events = fleet.ask("events", "--host", "filtered", "-n", "1000", expect=None)
    check("and events", {e["pid"] for e in events if e["kind"].startswith("process")}, {late.pid})
    check("the agent ends well", fleet.stop(agent), 0)
    fleet.wait_for("an agent to warn that its filter leaves nobody",
                   lambda: "agent filter reported=0 filtered=" in fleet.log("agent-nobody.log"))
    told = json.loads(fleet.run("procfleet-agent", "doctor", *fleet.agent_args("nobody"), "--format", "json", expect=None)[1])
    check("doctor finds it", [f["state"] for f in told if f["check"] == "agent.filter"], ["warning"])
    fleet.stop(nobody)
    for wrong in ("[a*, b]", "a,,b", "/bin/a"):
        code, _, err = fleet.run("procfleet-agent", "run", *fleet.agent_args("nobody", process_filter__exclude_names=wrong),
                                 expect=None)
        check("'%s' is refused" % wrong, (code != 0, "process_filter.exclude_names" in err), (True, True))
    secret = subprocess.Popen([sys.executable, "-c", "while True: pass", "zebra=STRIPES"])
    fleet.processes.append(secret)
    shown = fleet.run("procfleet-agent", "show-wire", "--for", "1s", "--set", "privacy.redact_names=password, zebra",
                      "--set", "process_filter.target_processes=%d" % secret.pid, "--format", "jsonl")[1]
    check("a word behind a blank hides its values", ("zebra=***" in shown, "STRIPES" in shown), (True, False))
    ensure("nothing else of the others is in the store",
           not any(b"hidden" in open(os.path.join(folder, f), "rb").read()
                   for folder, _, files in os.walk(fleet.path("data")) for f in files))
    hosts = fleet.hosts()["filtered"]
    print("ok: host as seen:", hosts)
