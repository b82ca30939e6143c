"""Batches the collector will never take: kept with the reason, shown, sent again, removed.

An agent works without a collector and makes batches larger than the one that then comes takes. They are set aside; `spool list`
and `spool show` say what and why, also beside the running agent. A collector that takes them gets them once."""

import glob
import json
import os
import random
import resource
import string
import struct
import subprocess
import sys

import e2e_tables
from fleet import Fleet, check, ensure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos"))

from wal import logged  # noqa: E402

BIG = {"sampling__rate_hz": "10", "batch__samples": "1000", "batch__max_age": "15s", "batch__max_bytes": "768KiB", "budget__cpu": "50",
       "privacy__command_line": "full"}
SMALL_LIMIT = 65536


def largest(spool):
    """Bytes of the largest batch in the segments."""
    found = 0
    for path in glob.glob(os.path.join(spool, "spool-*.seg")):
        data, at = open(path, "rb").read(), 56
        while at + 48 <= len(data):
            n = struct.unpack_from("<I", data, at + 4)[0]
            found, at = max(found, n), at + 48 + n
    return found


def talkative(fleet, n=100):
    """Processes whose command lines make a batch large, however quiet the machine is."""
    for _ in range(n):
        words = ["".join(random.choices(string.ascii_lowercase, k=1500))]
        fleet.processes.append(subprocess.Popen(["sh", "-c", "read x", *words], stdin=subprocess.PIPE))


def main():
    with Fleet() as fleet:
        talkative(fleet)
        spool = fleet.path("agents", "host", "spool")
        fleet.start_collector()  # picks its ports, and goes
        fleet.stop(fleet.collector)
        args = fleet.agent_args("host", **BIG)

        def spool_command(*words, expect=0):
            return fleet.run("procfleet-agent", "spool", *words, *args, expect=expect)

        def listed():
            return json.loads(spool_command("list", "--format", "json")[1])

        check("nothing is kept at first", listed(), [])
        _, out, err = spool_command("retry", "all")
        ensure("so nothing is promised", not out and "nothing is kept" in err, (out, err))
        err = fleet.run("procfleet-agent", "run", *args, "--set", "collector.addresses=a:b:c", expect=2)[2]
        ensure("a setting that is no address is named", "collector.addresses: 'a:b:c' is no address" in err, err)
        agent = fleet.start("procfleet-agent", "run", "--level", "L1", "--for", "1h", *args, log="agent.log")
        fleet.wait_for("a large batch on disk", lambda: largest(spool) > SMALL_LIMIT)
        fleet.start_collector(limits__batch_bytes=str(SMALL_LIMIT))
        rows = fleet.wait_for("a batch to be set aside", listed)
        first = rows[0]
        check("the reason", first["reason"], "larger than the collector takes")
        ensure("what is in it", first["rows"] > 0 and first["bytes"] > SMALL_LIMIT and int(first["since_time"]) <= int(first["until_time"]), first)
        text = spool_command("show", str(first["number"]))[1]
        ensure("all of it can be read", text.startswith("batch ") and "sample " in text)
        ensure("the table names it", "larger than the collector takes" in spool_command("list")[1])
        e2e_tables.fits("NUMBER", ["NUMBER", "KEPT", "CAUSE", "REASON"], "procfleet-agent", "spool", "list", *args)
        check("and fits a terminal", e2e_tables.failures, [])
        ensure("the log says so", "uplink quarantined" in fleet.log("agent.log"))
        state = os.path.join(fleet.path("agents", "host"), "status.json")
        fleet.wait_for("status.json to tell", lambda: json.load(open(state))["queue"]["aside"] > 0)
        ensure("a number that is none says where they are", "spool list" in spool_command("show", "999999", expect=1)[2])
        spool_command("retry", "that", expect=2)

        check("the agent stops in order", fleet.stop(agent), 0)
        rows = listed()
        gone, wanted = rows[-1], rows[:-1] or rows
        if len(rows) > 1:
            spool_command("drop", str(gone["number"]))
        fleet.stop(fleet.collector)
        fleet.start_collector()
        spool_command("retry", "all")
        ensure("they are marked", all(r.get("retry") for r in listed()))
        agent = fleet.start("procfleet-agent", "run", "--level", "L1", "--for", "1h", *args, log="agent.log")
        fleet.wait_for("all to arrive", lambda: not listed())

        # A limit on the size of files is a full disk, not the end.
        room = len(fleet.log("agent.log")) + 16384  # the log may grow, a batch does not fit
        resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        fleet.wait_for("the disk to be full", lambda: "spool failed" in fleet.log("agent.log"))
        resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        check("the agent stops in order", fleet.stop(agent), 0)
        got = logged(fleet.path("data"))
        keys = [(int(r["stream"], 16), r["seq"]) for r in wanted]
        ensure("each is stored once, under its number", all(got.count(k) == 1 for k in keys), (keys, got))
        fleet.collector.kill()


main()
