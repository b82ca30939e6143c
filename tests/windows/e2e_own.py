"""procfleet's own provider on Windows: what the agent changes, loses and marks is in a recording that listens, and the other commands read it;
while nobody listens nothing is written."""

import json
import os
import subprocess
import sys

from winehost import AGENT, BIN, Agent, Fleet, WineHost, check, ensure, needs, windows
from prefix import WINE
import etl_file  # winehost says where it is
import own_file
from own_file import OWN


def mark(agent, *words, expect=0):
    done = subprocess.run([WINE, AGENT, "mark", *words], env=agent.env(".doctor.script"), capture_output=True, timeout=60, check=False)
    check("mark %s gives %d" % (" ".join(words), expect), done.returncode, expect if done.returncode == expect else (expect, done.stderr))


def recorded(path, to):
    """A recording of what the double was given."""
    check("level and keyword", next(own_file.lines(path))[:2], ("4", "1"))
    return etl_file.write(to, own_file.records(path))


def etl(command, path, *more):
    out = subprocess.run([os.path.join(BIN, "procfleet-etl"), command, path, "--format", "jsonl", *more], check=True,
                         capture_output=True, timeout=60).stdout
    return [json.loads(line) for line in out.splitlines()]


needs()
with Fleet() as fleet:
    fleet.start_collector()
    host = WineHost(fleet)
    try:
        heard = Agent(host, "heard", {"own": windows(fleet.path("own"))}, "--level", "L1", "--for", "10min", etw__clr="off", budget__cpu="50")
        heard.runs()
        fleet.wait_for("it to trace", lambda: heard.state() and not heard.state()["polled"])
        subprocess.run([WINE, AGENT, "session", "level", "L0", "--for", "1min"], env=heard.env(".doctor.script"), check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        mark(heard, "before the upgrade", "--run", "nightly-1")
        mark(heard, "\u00e4fter \u20ac")
        fleet.wait_for("the level to be written", lambda: b"Level".hex() in fleet.log("own"))
        heard.stop()
        deaf = Agent(host, "deaf", {})
        mark(deaf, "nobody hears it", expect=1)
        deaf.process.kill()
        path = recorded(fleet.path("own"), fleet.path("own.etl"))
        rows = [r for r in etl("events", path, "--provider", "procfleet") if "fields" in r]
        check("each is read back", {r["guid"] for r in rows}, {OWN})
        kinds = {}
        for r in rows:
            kinds.setdefault(r["event"], []).append(r["fields"])
        check("the level's change", kinds["Level"][-1], {"from": 1, "to": 0, "cause": "request"})
        check("marks with their run", kinds["Mark"], [{"text": "before the upgrade", "run": "nightly-1"}, {"text": "\u00e4fter \u20ac", "run": ""}])
        ensure("what was asked for on this host", any("asked for on this host: level L0" in f["text"] for f in kinds["Source"]), kinds)
        check("and 'marks' shows them", [r["text"] for r in etl("marks", path)], ["before the upgrade", "\u00e4fter \u20ac"])
    finally:
        host.end()
sys.exit(0)
