"""What an agent tells of itself: steps of its level as events, as a series and in its status agree; doctor reads the status."""

import json
import os
import signal
import sys

from fleet import Fleet, check, ensure, found

HOST = "selfish"


def status(fleet):
    try:
        with open(fleet.path("agents", HOST, "status.json")) as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def doctor(fleet, args):
    code, out, err = fleet.run("procfleet-agent", "doctor", *args, "--format", "json", expect=None)
    ensure("doctor has looked", code != 2, err)
    rows = json.loads(out)
    ensure("doctor names a fix for all that is wrong",
           all(r.get("fix") for r in rows if r["state"] in ("warning", "failed")), rows)
    return {r["check"]: r for r in rows}


def levels_of(events):
    """The level after each step, oldest first."""
    return [(int(found(r"from L(\d) ", e["text"])), int(found(r" to L(\d): ", e["text"]))) for e in events]


def steps_agree(fleet, pid):
    """One request, shed again because the agent may cost next to nothing."""
    fleet.wait_for("two steps", lambda: status(fleet).get("level", {}).get("now") == 0 and len(status(fleet)["notes"]) >= 3)
    events = fleet.wait_for("all three as events", lambda: (lambda e: len(e) >= 3 and e)(
        fleet.ask("events", "--host", HOST, "--kind", "level", expect=None)))
    steps = levels_of(events)
    check("it goes up at once and down step by step", steps, [(0, 2), (2, 1), (1, 0)])
    ensure("and says why", "asked for" in events[0]["text"] and "above budget." in events[1]["text"], events)
    ensure("such an event is of no process", all("pid" not in e and "name" not in e for e in events), events)

    told = status(fleet)
    check("its status has the same sentences", [n["text"] for n in told["notes"] if n["kind"] == "level"],
          [e["text"] for e in events])
    check("at the same times", [int(n["time"]) for n in told["notes"] if n["kind"] == "level"], [e["time"] for e in events])

    def counted():
        rows = {row["reason"]: row for row in status(fleet)["losses"] if row["stage"] == "level"}
        return rows if sum(row["total"] for row in rows.values()) >= 3 else None

    ledger = fleet.wait_for("the ledger to have counted them", counted)  # it is read once a second
    check("its ledger counts the request", ledger["request"]["total"], 1)
    check("and each step down", sum(row["total"] for reason, row in ledger.items() if reason.startswith("down_")), 2)
    ensure("none of which is a loss", not any(row["missing"] for row in ledger.values()), ledger)

    def series():
        rows = fleet.ask("history", "--host", HOST, "--pid", str(pid), "-n", "5000", "-m", "agent.level", "-m", "agent.events",
                         "-m", "agent.bytes_sent", expect=None)
        return rows if rows and rows[-1]["time"] > events[-1]["time"] else None

    rows = fleet.wait_for("the series to have come so far", series)
    for row in rows:
        before = [to for e, (_, to) in zip(events, steps) if e["time"] < row["time"]]
        if not any(e["time"] == row["time"] for e in events):
            ensure("level %d at %d" % (row["agent.level"], row["time"]), row["agent.level"] == (before[-1] if before else 0))
    ensure("what was sent is in its own row", max(r.get("agent.bytes_sent", 0) for r in rows) > 0, rows[-1])
    top = fleet.ask("top", "--host", HOST, "--by", "agent.level", expect=None)
    check("nobody else has such columns", [r["pid"] for r in top if "agent.level" in r], [pid])


def follow(fleet):
    """Everything that the stream shows by default."""
    tls = fleet.tls("subscriber")
    return fleet.start("procfleet", "tail", "--format", "json", "--events", "127.0.0.1:" + fleet.ports["events"], "--ca", tls["ca"],
                       "--cert", tls["cert"], "--key", tls["key"], log="tail.log")


def streamed(fleet):
    lines = [json.loads(line) for line in fleet.log("tail.log").splitlines() if line.endswith("}")]
    return [e["text"] for e in lines if e["kind"] == "level"]


def default_events(fleet):
    rows = fleet.ask("events", "--host", HOST, "-n", "5000", expect=None)
    ensure("events show them without being asked", any(r["kind"] == "level" for r in rows))
    rows = fleet.ask("events", "--host", HOST, "--pid", "1", expect=None)
    ensure("but not when a process is asked for", not any(r["kind"] == "level" for r in rows))
    _, text, _ = fleet.cli("events", "--host", HOST, "--kind", "level", expect=None)
    ensure("tables have the sentence", "DETAIL" in text and "above budget." in text, text)
    check("and no process 0 appears", fleet.ask("ps", "--host", HOST, "--pid", "0", "--idle", expect=None), [])


def well(fleet, args, expect):
    """What `status` says, in JSON, and its exit code."""
    rows = json.loads(fleet.run("procfleet-agent", "status", *args, "--format", "json", expect=expect)[1])
    check("one row", len(rows), 1)
    return rows[0]


with Fleet() as fleet:
    fleet.start_collector()
    args = fleet.agent_args(HOST, batch__max_age="500ms", sampling__rate_hz="10", budget__cpu="0.1", budget__mem="8MiB")
    before = doctor(fleet, args)
    check("before its first run there is nothing to tell", before["agent.running"]["state"], "skipped")
    check("status: no agent", well(fleet, args, 1)["state"], "never")
    stream = follow(fleet)
    agent = fleet.start("procfleet-agent", "run", *args, "--level", "L2", "--for", "10min", log="agent.log")
    fleet.wait_for("the status of a connected agent", lambda: status(fleet).get("uplink", {}).get("state") == "connected")
    told = status(fleet)
    check("the status names the process", told["pid"], agent.pid)
    check("and the source", told["source"]["name"], "proc")
    row = well(fleet, args, 0)
    check("status: it runs and is connected", (row["state"], row["uplink"], row["pid"]), ("runs", "connected", agent.pid))
    ensure("its certificate's days", row["certificate_days"] > 0, row)
    text = fleet.run("procfleet-agent", "status", *args)[1]
    ensure("for people too", text.startswith("agent     runs since ") and "\ncollector connected since " in text, text)
    fleet.run("procfleet-agent", "status", *args, "--format", "xml", expect=2)
    now = doctor(fleet, args)
    check("doctor sees it run", now["agent.running"]["state"], "ok")
    check("and connected", now["agent.uplink"]["state"], "ok")
    check("and leaves the source to it", now["source"]["state"], "skipped")
    check("its state directory has nothing half written",
          [n for n in os.listdir(fleet.path("agents", HOST)) if n.endswith(".tmp")], [])
    steps_agree(fleet, agent.pid)
    default_events(fleet)
    told = fleet.ask("events", "--host", HOST, "--kind", "level", expect=None)
    fleet.wait_for("the steps in the stream", lambda: streamed(fleet)[-1:] == [told[-1]["text"]])
    had = streamed(fleet)  # it may have been a little late for the first
    ensure("two at least", len(had) >= 2, had)
    check("the stream has had the same", had, [e["text"] for e in told][-len(had):])
    fleet.stop(stream)

    fleet.collector.kill()
    fleet.wait_for("the status to say that the collector is away",
                   lambda: status(fleet)["uplink"]["state"] == "unreachable")
    row = well(fleet, args, 3)
    ensure("status: away, and why", row["uplink"] == "unreachable" and "collector.addresses" in row["why"], row)
    away = doctor(fleet, args)
    check("doctor passes it on", away["agent.uplink"]["state"], "warning")
    fleet.start_collector()
    fleet.wait_for("it to be back", lambda: status(fleet)["uplink"]["state"] == "connected")
    check("a collector that was killed still knows the steps",
          fleet.ask("events", "--host", HOST, "--kind", "level", expect=None)[:len(told)], told)

    check("it ends well", fleet.stop(agent), 0)
    check("and says so", status(fleet)["running"], False)
    check("status: ended", well(fleet, args, 1)["state"], "ended")
    check("doctor too", doctor(fleet, args)["agent.running"]["state"], "skipped")
    agent = fleet.start("procfleet-agent", "run", *args, log="agent.log")
    fleet.wait_for("the next one", lambda: status(fleet)["pid"] == agent.pid)
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    killed = doctor(fleet, args)["agent.running"]
    check("doctor notices that one was killed", killed["state"], "warning")
    ensure("and which", str(agent.pid) in killed["detail"], killed)
sys.exit(0)
