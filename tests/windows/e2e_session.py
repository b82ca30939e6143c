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


def turned_on(agent):
    rows = json.loads(session(agent, "providers", "--format", "json")[0])
    check("what sessions have turned on", [(r["provider"], r["session"], r["level"], int(r["keywords_any"]), r.get("whose", "")) for r in rows],
          [("Microsoft-Windows-DotNETRuntime", "Process Monitor", 5, 0x11, ""), (DNS, "Process Monitor", 4, 0, "")])
    ensure("with the losses of the session", all(r["session_events_lost"] == 0 and r["processes"] == 1 for r in rows), rows)
    for words, n in (((DNS,), 1), (("*dotnet*",), 1), (("--of", "Proc*"), 2), (("--of", "procfleet*"), 0), (("no-such",), 0)):
        check("providers " + " ".join(words), len(json.loads(session(agent, "providers", *words, "--format", "json")[0])), n)


def filtered(agent):
    """Told to the system; that they are judged again is e2e_events'."""
    agent.fleet.wait_for("the session of providers", lambda: "enable" in agent.journal())
    session(agent, "add", CLR + ":4:0x1#1+2", "pid=12+13", "exe=w3wp.exe+x.exe")
    ensure("the system is asked to filter", "enable ids=1+2 pids=12+13 exe=w3wp.exe;x.exe code=0" in agent.journal(), agent.journal())
    wrong = session(agent, "add", CLR, "pid=x", expect=1)[1]
    ensure("a wrong filter is said", "pid= takes" in wrong, wrong)
    session(agent, "remove", CLR)


DNS = "d1d1d1d1-0000-1111-2222-333333333333"  # that nobody has a name for


def changed(host):
    on = ["Process Monitor %s 5 0x11" % CLR, "Process Monitor %s 4 0" % DNS]
    agent = Agent(host, "asked", {"holder": "Process Monitor", "on": on}, "--level", "L1", "--for", "10min", etw__clr="off", budget__cpu="50")
    agent.runs()
    fleet = host.fleet
    fleet.wait_for("the agent to trace", lambda: agent.state() and not agent.state()["polled"])
    listed(agent)
    turned_on(agent)
    filtered(agent)
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
