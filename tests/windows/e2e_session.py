"""procfleet-agent session on Windows: every session listed, and the running agent's changed through its pipe, as an administrator asks.

A recording is played through a double of event tracing, whose journal says what the agent has really asked the system for.
"""

import json
import re
import subprocess
import sys

from winehost import AGENT, Agent, Fleet, WineHost, check, ensure, needs
from prefix import WINE

NETWORK, CSWITCH, LIFE = 0x10000, 0x10, 0xf
CLR = "{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}"


def session(agent, *words, expect=0):
    """(output, errors), in the world of the agent's script."""
    with open(agent.fleet.path("said"), "wb+") as out, open(agent.fleet.path("wrong"), "wb+") as err:
        code = subprocess.run([WINE, AGENT, "session", *words], env=agent.env(".doctor.script"), stdin=subprocess.DEVNULL, stdout=out,
                              stderr=err, timeout=60, check=False).returncode
        out.seek(0)
        err.seek(0)
        said, wrong = out.read().decode(errors="replace").replace("\r", ""), err.read().decode(errors="replace")
    check("session %s gives %d" % (" ".join(words), expect), code, expect if code == expect else (expect, said, wrong))
    return said, wrong


def flags(agent):
    """On at the end of the journal, of whichever session was told last."""
    return int(re.findall(r"flags=0x([0-9a-f]+)", agent.journal())[-1], 16)


def listed(agent):
    rows = json.loads(session(agent, "list", "--format", "json")[0])
    ensure("sessions are listed", any(r["name"] == "Process Monitor" for r in rows), rows)
    found = {r["name"]: r for r in rows}
    ensure("somebody's system logger is listed", "system logger" in found["Process Monitor"]["mode"], rows)
    ensure("and is not ours", not found["Process Monitor"].get("whose"), rows)


def changed(host):
    agent = Agent(host, "asked", {"holder": "Process Monitor"}, "--level", "L1", "--for", "10min", etw__clr="off", budget__cpu="50")
    agent.runs()
    fleet = host.fleet
    fleet.wait_for("the agent to trace", lambda: agent.state() and not agent.state()["polled"])
    listed(agent)
    out, _ = session(agent, "flags")
    ensure("the state is told", out.startswith("level     L1\nsource    live") and "flags     process,thread,image" in out, out)
    ensure("network is permitted from the start", "network" in out, out)
    session(agent, "flags", "+cswitch,-network")
    out, _ = session(agent, "level", "L3", "--for", "1min")
    check("a level is taken", out, "level L3 for 60s\n")
    fleet.wait_for("switches to be recorded", lambda: flags(agent) & CSWITCH)
    ensure("without the network", not flags(agent) & NETWORK, agent.journal())
    session(agent, "flags", "+network")
    fleet.wait_for("the network too", lambda: flags(agent) & NETWORK)
    session(agent, "add", CLR + ":4:0x1#1+2")
    enabled = len(re.findall(r"^enable .* code=0", agent.journal(), re.M))
    session(agent, "remove", CLR)
    fleet.wait_for("a provider on and off", lambda: enabled and re.search(r"^disable .* code=0", agent.journal(), re.M))
    wrong = session(agent, "remove", CLR, expect=1)[1]
    ensure("twice is said", "no such provider" in wrong, wrong)
    wrong = session(agent, "add", "No-Such-Provider", expect=1)[1]
    ensure("an unknown name is said", "write its GUID" in wrong, wrong)
    wrong = session(agent, "flags", "+0x1000", expect=1)[1]
    ensure("what is never collected is refused", "every page fault" in wrong, wrong)
    session(agent, "stacks", "on")
    session(agent, "stacks", "off")
    for words in ("level L3 for 60s", "provider %s:4:0x1#1+2: added" % CLR, "provider %s: removed" % CLR, "stacks: on"):
        fleet.wait_for("an event: " + words, lambda words=words: any(
            "asked for on this host: " + words in e["text"] for e in agent.events("source")))
    session(agent, "level", "L0", "--for", "1min")
    fleet.wait_for("the level to fall", lambda: session(agent, "flags")[0].startswith("level     L0"))
    second = Agent(host, "second", {}, etw__session_name="other")
    second.runs()
    fleet.wait_for("a second agent to say that the pipe is taken", lambda: "no_control" in second.log())
    ensure("the first one is still asked", session(agent, "flags")[0].startswith("level     L0"))
    second.stop()
    agent.stop()
    wrong = session(agent, "flags", expect=1)[1]
    ensure("without an agent it says so", "is it running" in wrong, wrong)


needs()
with Fleet() as fleet:
    fleet.start_collector()
    host = WineHost(fleet)
    try:
        changed(host)
    finally:
        host.end()
sys.exit(0)
