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
    ensure("a table has them too", "procfleet_store_hosts" in table and "Hosts with data." in table)
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
        fleet.start_agent("agent-one", **FAST)
        fleet.wait_for("data", lambda: fleet.hosts())
        status(fleet)
        disconnect(fleet)
        log_level(fleet)
        others(fleet)
        check("the collector ends well", fleet.stop(fleet.collector), 0)


main()
