"""Administrators: what the collector tells them, and what they may change; others may not."""

import re

from fleet import Fleet, check, ensure

FAST = {"batch__max_age": "1s"}


def status(fleet):
    rows = fleet.ask("admin", "status", who="root")
    figures = {(r["figure"], r.get("labels", "")): r["value"] for r in rows}
    check("hosts", figures[("procfleet_store_hosts", "")], 1)
    ensure("batches are counted", figures[("procfleet_store_batches_total", "")] >= 1)
    check("one agent is connected", figures[("procfleet_listener_connections", 'listener="ingest"')], 1)
    ensure("CPU time is no whole number", 0 < figures[("procfleet_cpu_seconds_total", "")] < 3600)
    ensure("each says what it means", all(r["help"].endswith(".") for r in rows))
    _, table, _ = fleet.cli("admin", "status", who="root")
    ensure("a table has them too", "procfleet_store_hosts" in table and "Hosts with data" in table)
    _, csv, _ = fleet.cli("admin", "status", "--format", "csv", who="root")
    check("and so has CSV", len(csv.strip().splitlines()), len(rows) + 1)
    methods = re.findall(r"admin status .*name=root", fleet.log("collector.log"))
    ensure("who asked stands in the log", methods)


def disconnect(fleet):
    check("its connections end", fleet.ask("admin", "disconnect", "agent-one", who="root"),
          [{"name": "agent-one", "connections": 1}])
    ensure("the log says who did it",
           re.search(r"admin disconnect .*name=root host=agent-one connections=1", fleet.log("collector.log")))
    fleet.wait_for("the agent to come again", lambda: fleet.hosts()["agent-one"]["state"] == "connected")
    _, _, err = fleet.cli("admin", "disconnect", "nobody", who="root", expect=1)
    ensure("a name without a connection is told: " + err.strip(), "NOT_FOUND" in err and "nobody" in err)


def log_level(fleet):
    check("the level before", fleet.ask("admin", "log-level", "error", who="root"), [{"level": "error", "before": "info"}])
    check("it is set", fleet.ask("admin", "log-level", "debug", who="root"), [{"level": "debug", "before": "error"}])
    check("both stand in the log", re.findall(r"admin log_level .*name=root level=(\w+) before=(\w+)", fleet.log("collector.log")),
          [("error", "info"), ("debug", "error")])
    for args in (["log-level", "loud"], ["log-level"], ["log-level", "info", "info"], ["disconnect"], ["disconnect", "x" * 64],
                 ["status", "x"], ["stats"], []):
        _, _, err = fleet.cli("admin", *args, who="root", expect=2)
        ensure("refused: admin %s" % " ".join(args)[:30], err.strip())
    _, _, err = fleet.cli("admin", "stats", who="root", expect=2)
    ensure("the right one is suggested", "status" in err)


def gone(fleet, agent):
    """A host that is gone for good makes answers partial until it is forgotten."""
    _, _, err = fleet.cli("hosts", "forget", "agent-one", who="root", expect=4)
    ensure("one that is connected is refused: " + err.strip(), "FAILED_PRECONDITION" in err and "is connected" in err)
    _, _, err = fleet.cli("hosts", "forget", "nobody", who="root", expect=1)
    ensure("and one that there is not: " + err.strip(), "NOT_FOUND" in err and "nobody" in err)
    for args in ([], ["agent-one", "agent-two"], ["x" * 64]):
        fleet.cli("hosts", "forget", *args, who="root", expect=2)
    fleet.stop(agent)
    fleet.start_agent("agent-two", **FAST)
    fleet.wait_for("agent-one to be heard no more and agent-two to speak",
                   lambda: fleet.hosts()["agent-one"]["state"] != "connected" and "agent-two" in fleet.hosts())
    for who in ("operator", "subscriber"):
        _, _, err = fleet.cli("hosts", "forget", "agent-one", who=who, expect=4)
        ensure("%s may not" % who, "PERMISSION_DENIED" in err)
    check("it is forgotten", fleet.ask("hosts", "forget", "agent-one", who="root"), [{"name": "agent-one", "forgotten": 1}])
    ensure("the log says by whom", re.search(r"admin forget .*name=root host=agent-one hosts=1", fleet.log("collector.log")))
    hidden(fleet)
    check("the collector ends well", fleet.stop(fleet.collector), 0)
    fleet.start_collector()
    hidden(fleet)
    fleet.start_agent("agent-one", **FAST)
    fleet.wait_for("its call to show it again", lambda: fleet.hosts().get("agent-one", {}).get("state") == "connected")
    ensure("the log says so", "session remembered name=agent-one" in fleet.log("collector.log"))


def hidden(fleet):
    fleet.wait_for("the other one", lambda: fleet.hosts().get("agent-two", {}).get("state") == "connected")
    check("lists have it no more", sorted(fleet.hosts()), ["agent-two"])
    rows = {h["host"]: h for h in fleet.ask("hosts", "--all", expect=None)}
    check("but when all are asked for", (rows["agent-one"]["state"], rows["agent-one"]["forgotten"]), ("forgotten", True))
    check("nor counts", fleet.ask("overview", expect=None)[0]["hosts"], 1)
    figures = {r["figure"]: r["value"] for r in fleet.ask("admin", "status", who="root")}
    check("nor figures, which tell of it apart", (figures["procfleet_store_hosts"], figures["procfleet_store_forgotten_hosts"]), (1, 1))
    check("nor coverage", [c["host"] for c in fleet.ask("coverage", "--since", "1h", expect=None)], ["agent-two"])
    ensure("who names it has its data", fleet.ask("top", "--host", "agent-one", expect=None))


def others(fleet):
    for who in ("operator", "subscriber"):
        for args in (["status"], ["disconnect", "agent-one"], ["log-level", "info"]):
            _, _, err = fleet.cli("admin", *args, who=who, expect=4)
            ensure("%s may not: %s" % (who, args[0]), "PERMISSION_DENIED" in err)
    check("nothing changed", fleet.ask("admin", "log-level", "info", who="root")[0]["before"], "debug")


def main():
    with Fleet() as fleet:
        fleet.issue("admin", "root")
        fleet.start_collector()
        _, out, _ = fleet.cli("hosts")
        ensure("an empty fleet says how to fill it: " + out.strip(), "no host has called yet" in out and "pki token create" in out)
        check("in JSON it is empty", fleet.ask("hosts"), [])
        agent = fleet.start_agent("agent-one", **FAST)
        fleet.wait_for("data", lambda: fleet.hosts())
        status(fleet)
        disconnect(fleet)
        log_level(fleet)
        others(fleet)
        gone(fleet, agent)
        check("the collector ends well", fleet.stop(fleet.collector), 0)


main()
