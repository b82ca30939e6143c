"""What was lost is told: of a damaged recording, of an agent that was killed, of a batch that never came."""

import json
import lzma
import os
import struct
import time

from fleet import Fleet, check, corpus, ensure
from spool_file import records, segments

FAST = {"sampling__rate_hz": "10", "batch__samples": "5", "batch__max_age": "1s"}


def start(fleet, name):
    return fleet.start("procfleet-agent", "run", "--level", "L1", "--for", "1h", *fleet.agent_args(name, **FAST),
                       log="agent-%s.log" % name)


def stages(fleet, host, *more, expect=None):
    rows = fleet.ask("coverage", "--host", host, "--stages", *more, expect=expect)
    return {(r["stage"], r["reason"]): r for r in rows}


def counts(rows, stage):
    return {reason: r["count"] for (s, reason), r in rows.items() if s == stage}


def balance(rows, names):
    for stage in names:
        by_role = {}
        for (s, _), r in rows.items():
            if s == stage:
                by_role[r["role"]] = by_role.get(r["role"], 0) + r["count"]
        check("%s: what came in is accounted for" % stage, by_role["in"],
              by_role.get("out", 0) + by_role.get("held", 0) + by_role.get("dropped", 0))


def damaged_recording(fleet):
    """Three buffers with bytes overwritten: what the collector knows of the loss is what the trace tool finds in the file."""
    data = bytearray(lzma.open(corpus("public/net.4.5.2.x64.etl.xz")).read())
    path, at, buffers = fleet.path("damaged.etl"), 0, []
    while at + 64 <= len(data):
        buffers.append(at)
        at += max(struct.unpack_from("<I", data, at)[0], 512)
    for i in (len(buffers) // 4, len(buffers) // 2, len(buffers) * 3 // 4):
        data[buffers[i] + 72:buffers[i] + 104] = b"\xff" * 32
    open(path, "wb").write(data)
    _, out, _ = fleet.run("procfleet-agent", "etl", "summary", path, "--format", "json", expect=None)
    loss = json.loads(out)["procfleet"]["loss"]
    ensure("the trace tool finds damage", loss["damaged"] > 0, loss)
    fleet.replay("damaged", path)
    rows = stages(fleet, "damaged", expect=5)
    source = counts(rows, "source")
    for name, key in (("damaged", "damaged"), ("lost_events", "events"), ("lost_buffers", "buffers")):
        check("the collector knows as many: %s" % name, source.get(name, 0), loss[key])
    balance(rows, ("source", "decode", "aggregate", "instances", "sampler", "session", "store"))
    host = fleet.ask("coverage", "--host", "damaged", expect=5)[0]
    check("events delivered are those handed on", host["events"], source["out"])
    check("the figure", (host["at_most"], host["events_ppm"], host["coverage_ppm"], host["lost_events"]),
          (True, int(host["events"] / (host["events"] + loss["damaged"]) * 1e6), host["events_ppm"], loss["damaged"]))
    check("most was lost by", host["most_lost_by"], "source damaged")
    _, out, err = fleet.cli("top", "--host", "damaged", expect=5)
    last = out.strip().splitlines()[-2]  # the range follows
    ensure("a table ends with it", last.startswith("coverage ≤ 99.99 %, ") and " lost on damaged " in last, last)
    _, out, err = fleet.cli("top", "--host", "damaged", "--format", "csv", expect=5)
    ensure("of CSV it stands beside", err.strip().splitlines()[-1] == last and "coverage" not in out, err)


def killed_agent(fleet):
    """Killed, and started again three seconds later: the ledger explains the time between."""
    agent = start(fleet, "killed")
    fleet.wait_for("data", lambda: fleet.hosts().get("killed", {}).get("batches", 0) > 2)
    agent.kill()
    agent.wait()
    fleet.wait_for("its last batch to be stored", lambda: fleet.hosts()["killed"]["state"] == "silent")
    before = fleet.hosts()["killed"]["last_time"]
    time.sleep(3)
    agent = start(fleet, "killed")
    fleet.wait_for("the ledger to tell", lambda: ("agent", "killed") in stages(fleet, "killed"))
    row = stages(fleet, "killed")[("agent", "killed")]
    host = fleet.ask("coverage", "--host", "killed", expect=5)[0]
    gap = (host["lost_last_time"] - host["lost_first_time"]) / 1e9
    ensure("it is a loss of up to %.1f s at 10 ticks a second" % gap, 3 <= gap < 60 and 29 <= row["count"] <= gap * 10 + 2,
           row)
    ensure("from the last batch on", host["lost_first_time"] <= before < host["lost_last_time"], (host, before))
    check("nothing of its numbers is missing", (host["missing_batches"], host["at_most"]), (0, True))
    check("and that is told", host["most_lost_by"], "agent killed")
    check("an orderly stop", fleet.stop(agent), 0)
    agent = start(fleet, "killed")
    total = fleet.hosts()["killed"]["batches"]
    fleet.wait_for("data of the next run", lambda: fleet.hosts()["killed"]["batches"] > total + 2)
    check("leaves nothing to explain", stages(fleet, "killed")[("agent", "killed")]["count"], row["count"])
    check("stops", fleet.stop(agent), 0)


def hole(fleet):
    """A batch goes bad on the disk of an agent whose collector is away: a hole in its numbers, told by both ends."""
    fleet.stop(fleet.collector)
    agent = start(fleet, "hole")
    spool = fleet.path("agents", "hole", "spool")
    fleet.wait_for("five batches on disk", lambda: sum(len(records(f)) for f in segments(spool)) >= 5)
    agent.kill()
    agent.wait()
    victim = segments(spool)[0]
    _, _, at, n = records(victim)[2]
    data = bytearray(open(victim, "rb").read())
    data[at + 48 + (n - 48) // 2] ^= 0x10
    data[30] ^= 0x10  # and in a copy of the header, which costs nothing
    open(victim, "wb").write(data)
    fleet.start_collector()
    agent = start(fleet, "hole")
    fleet.wait_for("the agent to tell of it", lambda: ("spool", "unreadable") in stages(fleet, "hole"))
    fleet.wait_for("the collector to miss that batch alone", lambda: missing(stages(fleet, "hole")) == 1)
    check("and the agent knows of one", stages(fleet, "hole")[("spool", "unreadable")]["count"], 1)
    check("and of the header", stages(fleet, "hole")[("spool", "header_damaged")]["count"], 1)
    ensure("its log says so", "damaged unreadable=1 headers=1" in fleet.log("agent-hole.log"), fleet.log("agent-hole.log"))
    host = fleet.ask("coverage", "--host", "hole", expect=5)[0]
    check("one is missing", (host["missing_batches"], host["at_most"]), (1, True))
    ensure("ticks are lost with it", host["lost_ticks"] > 0, host)
    check("stops", fleet.stop(agent), 0)


def missing(rows):
    return rows.get(("stream", "missing"), {}).get("count", 0)


corpus("public/net.4.5.2.x64.etl.xz")
with Fleet() as fleet:
    fleet.start_collector()
    damaged_recording(fleet)
    killed_agent(fleet)
    hole(fleet)
    code, _, err = fleet.cli("coverage", "--last", "1h", "--since", "1h", expect=2)
    ensure("two windows at once are refused", "--last" in err, err)
    code, out, _ = fleet.cli("coverage", "--host", "nobody", expect=5)
