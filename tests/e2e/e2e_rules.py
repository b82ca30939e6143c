"""Rules: live notices are those of the back-test, one by one, through kill -9 of the collector; each transition once."""

import os
import shutil
import subprocess
import time

from fleet import ROOT, Fleet, check, ensure, read_json

RULES = """
defaults: {coverage: 80%, late: 10s}
rules:
  - name: sleepers
    of: image
    where: name == "rulesleeper"
    when: starts(pid, 10s) >= 3
    say: '{value} of {name} on {host}'
  - {name: silent, when: 'avg(coverage, 20s) == 0', severity: critical}
  - {name: any, of: host, when: 'count(pid, 10s) > 0', hosts: 1}
"""


def sleepers(fleet):
    """Processes of a name that nothing else here has."""
    program = fleet.path("rulesleeper")
    if not os.path.exists(program):
        shutil.copy(shutil.which("sleep"), program)
    for p in [subprocess.Popen([program, "0.3"]) for _ in range(5)]:
        p.wait()


def notices(fleet, *args):
    return fleet.ask("events", "--kind", "rule", "--since", "1h", "-n", "1000", *args, expect=None)


def values(row):
    return row["fields"]


def ids(rows):
    return sorted(values(r)["id"] for r in rows)


def kill(fleet, conf):
    fleet.collector.kill()
    fleet.collector.wait()
    fleet.start_collector(**conf)


def faulty(fleet, path):
    """A file that cannot be used: line and column, exit code 2, and the rules stay."""
    with open(path, "a") as f:
        f.write("  - {name: bad, when: 'last(private_bytes) > 5%'}\n")
    _, _, err = fleet.cli("rules", "check", path, expect=2)
    ensure("a fault has its place", "rules.yaml:11:" in err, err)
    fleet.wait_for("the collector to see it", lambda: "file_faulty" in fleet.log("collector.log"))
    ensure("the rules stay", any(r["rule"] == "silent" for r in fleet.ask("rules", "status", expect=None)))
    with open(path, "w") as f:
        f.write(RULES)


with Fleet() as fleet:
    path = fleet.path("rules.yaml")
    with open(path, "w") as f:
        f.write(RULES)
    conf = {"rules__file": path}
    fleet.start_collector(**conf)
    agent = fleet.start_agent("lab-1")
    fleet.wait_for("the host to be known", lambda: "lab-1" in fleet.hosts())
    rows = {r["rule"]: r for r in fleet.ask("rules", "check", path)}
    check("what is watched", (rows["silent"]["hosts"], rows["silent"]["subjects"]), (1, 1))
    ensure("of how many processes", rows["silent"]["processes"] > 3, rows)
    fleet.issue("query,mark", "marker")
    fleet.cli("run", "begin", "watched", "--host", "lab-1", who="marker")
    time.sleep(12)
    sleepers(fleet)
    fleet.wait_for("sleepers to fire", lambda: any(r["state"] == "firing" and r["rule"] == "sleepers"
                                                   for r in fleet.ask("rules", "status", "--firing")))
    kill(fleet, conf)
    faulty(fleet, path)
    sleepers(fleet)
    kill(fleet, conf)
    fleet.wait_for("sleepers to end", lambda: any(values(r)["state"] == "ok" and values(r)["rule"] == "sleepers"
                                                  for r in notices(fleet)))
    fleet.cli("run", "end", "watched", who="marker")
    fleet.wait_for("the run's file", lambda: "ready" in fleet.cli("run", "list", "watched", "--format", "csv")[1])
    agent.kill()
    agent.wait()
    fleet.wait_for("silence to fire", lambda: any(values(r)["state"] == "firing" and values(r)["rule"] == "silent"
                                                  for r in notices(fleet)), 90)
    kill(fleet, conf)
    fleet.wait_for("the rules to be there again", lambda: fleet.ask("rules", "status", "--firing", expect=None))
    time.sleep(3)

    live = notices(fleet)
    check("each transition is there once", len(set(ids(live))), len(live))
    numbers = sorted(int(values(r)["n"]) for r in live)
    check("numbers have no holes", numbers, list(range(1, len(live) + 1)))
    tested = fleet.ask("rules", "test", "--since", "1h")
    check("live notices are those of the back-test", ids(live), sorted(r["id"] for r in tested))
    _, out, _ = fleet.cli("tail", "--durable", "audit", "--from-oldest", "--kind", "rule", "--for", "5s", "--format", "json",
                          who="subscriber")
    check("and those of the journal", sorted(values(read_json(line))["id"] for line in out.splitlines()), ids(live))
    ensure("the fleet's is of no single host", any(r["host"] == "*" for r in live), live)
    ends = int(fleet.ask("run", "list", "watched", expect=None)[0]["ended_time"])
    told = [values(r)["state"] for r in live if values(r)["rule"] == "sleepers" and int(r["time"]) <= ends]
    page = fleet.path("r.html")
    fleet.cli("report", "watched", "-o", page)
    with open(page, encoding="utf-8") as f:
        table = f.read().partition("<caption>Notices")[2].partition("</table>")[0]
    check("the report of a run has its notices", table.count("lab-1 rulesleeper"), len(told))
    _, out, _ = fleet.cli("rules", "check", os.path.join(ROOT, "docs", "examples", "lab-rules.yaml"), "--format", "csv")
    check("the ten ready rules are sound", len(out.splitlines()), 11)
    fleet.cli("rules", "test", os.path.join(ROOT, "docs", "examples", "lab-rules.yaml"), "--since", "1h")
