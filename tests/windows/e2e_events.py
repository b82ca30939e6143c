"""Events of providers on a live Windows agent: kill -9 of it at any step, each event arrives once; a provider of 100,000 events a second costs
the others nothing, and all that it wrote is accounted for.

The double of event tracing makes records of two TraceLogging providers, as many a second as its script says, each with a number of its own.
"""

import collections
import re
import sys
import time

from winehost import Agent, Fleet, WineHost, check, ensure, needs

PROVIDERS = "Microsoft-Windows-Kernel-Process,{11111111-1111-1111-1111-111111111111},{22222222-2222-2222-2222-222222222222}"
SETTINGS = {"etw__providers": PROVIDERS, "events__providers": "procfleet-*", "etw__clr": "off", "budget__cpu": "50"}
ANY = {"events__rate": "0", "events__host_rate": "0", "events__host_bytes": "0"}
LIFE = 1000000  # numbers of one life of the agent
RATE = 200


def numbers(agent, provider):
    rows = agent.ask("events", "--provider", provider, "-n", "100000", "--since", "1h")
    return sorted(int(r["fields"]["seq"]) for r in rows)


def forwarded(agent):
    """The ledger's stage as the collector has it, and what the agent's rings and the system lost before it."""
    rows = agent.ask("coverage", "--stages")
    return ({r["reason"]: int(r["count"]) for r in rows if r.get("stage") == "forward"},
            sum(int(r["count"]) for r in rows if (r.get("stage"), r.get("reason")) == ("source", "lost_events")))


def begin(agent, life):
    agent.script["made_first"] = life * LIFE
    agent.write()
    agent.start()
    agent.runs()


def spooled(agent):
    return agent.status().get("queue", {}).get("held", 0)


def kills(host):
    """While it sends, while it can only keep, while it sends what it has kept."""
    fleet = host.fleet
    agent = Agent(host, "killed", {"made": RATE, "made_quiet": 1}, **SETTINGS, **ANY)
    agent.runs()

    def of_life(life):
        return [n for n in numbers(agent, "procfleet-Quiet") if n // LIFE == life]

    def kill():
        agent.process.kill()
        agent.process.wait()

    fleet.wait_for("events of the first life", lambda: len(of_life(0)) > RATE)
    kill()
    fleet.collector.kill()
    fleet.collector.wait()
    begin(agent, 1)
    fleet.wait_for("events to be kept", lambda: spooled(agent) > 4)
    kill()
    begin(agent, 2)
    fleet.wait_for("events to be kept again", lambda: spooled(agent) > 8)
    fleet.start_collector()
    fleet.wait_for("what was kept to come", lambda: of_life(1))
    kill()
    begin(agent, 3)
    fleet.wait_for("events of all lives", lambda: all(len(of_life(n)) > RATE for n in (1, 2, 3)))
    agent.stop()
    every = numbers(agent, "procfleet-Quiet")
    check("each event came once", [n for n, k in collections.Counter(every).items() if k > 1], [])
    for life in range(4):
        of = [n for n in every if n // LIFE == life]
        check("life %d has no hole (%d events)" % (life, len(of)), of, list(range(of[0], of[-1] + 1)))
    stages, lost = forwarded(agent)
    check("nothing was lost but with the lives", (stages["in"] - stages["out"], lost), (0, 0))


REGISTERED = "{33333333-3333-3333-3333-333333333333}"


def registered(host):
    """Records that describe nothing, of a provider that the system knows and is slow to tell of: those of before wait."""
    for name, choice in (("by-name", "procfleet-Reg*"), ("by-guid", REGISTERED + "#7")):
        agent = Agent(host, name, {"made": RATE, "made_registered": 1, "made_count": 400},
                      **dict(SETTINGS, etw__providers="Microsoft-Windows-Kernel-Process," + REGISTERED, events__providers=choice), **ANY)
        agent.runs()
        host.fleet.wait_for("events of the registered provider", lambda: len(numbers(agent, "procfleet-Registered")) >= 300)
        agent.stop()
        rows = agent.ask("events", "--provider", "procfleet-Registered", "-n", "1000", "--since", "1h")
        check("%s: values of maps have their names" % name, {r["fields"]["kind"] for r in rows}, {"plain"})
        every = numbers(agent, "procfleet-Registered")
        check("%s: each came once, from the first to the last" % name, every, list(range(every[0], 400)))
        stages, lost = forwarded(agent)
        told = int(re.findall(r"told=(\d+)", agent.journal())[-1])
        check("%s: what was told is in the ledger" % name, stages["in"] + lost, told)
        check("%s: and all of it went out" % name, (stages["out"], stages.get("no_schema", 0)), (len(every), 0))


LOUD, QUIET, SECONDS = 100000, 2000, 10  # each so manieth is of the quiet one


def flood(host):
    count = LOUD * SECONDS
    agent = Agent(host, "flooded", {"made": LOUD, "made_quiet": QUIET, "made_count": count}, etw__ring_bytes="16MiB", **SETTINGS)
    agent.runs()
    begun = time.monotonic()

    host.fleet.wait_for("the flood to be over", lambda: time.monotonic() > begun + SECONDS + 3)
    agent.stop()
    stages, lost = forwarded(agent)
    told = int(re.findall(r"told=(\d+)", agent.journal())[-1])
    ensure("nearly all were made while somebody listened", told > count // 2, told)
    check("the ledger has all that came, to the last one", stages["in"] + lost, told)
    parts = ("out", "rate", "size", "filtered", "no_schema", "undecodable", "refused", "held")
    check("and where each of them went", sum(stages.get(p, 0) for p in parts), stages["in"])
    quiet, loud = numbers(agent, "procfleet-Quiet"), numbers(agent, "procfleet-Loud")
    check("the quiet provider's events are all there", quiet, list(range(quiet[0], count, QUIET)))
    ensure("so far as they were made", len(quiet) >= told // QUIET, (len(quiet), told))
    check("those of the loud one, as many as may pass", len(quiet) + len(loud), stages["out"])
    ensure("which are few", 100 * (SECONDS - 3) <= len(loud) <= 1000 + 100 * (SECONDS + 2), len(loud))
    rows = agent.ask("ps", "--all")
    ensure("samples went on", rows and all(r.get("cpu_time") is not None for r in rows if r["name"] == "procfleet-agent.exe"), rows[:3])
    print("flooded: %d records, ring %d, of the agent's CPU %.1f s in %d s" % (
        told, lost, max(r.get("cpu_time", 0) for r in rows if r["name"] == "procfleet-agent.exe") / 1e9, SECONDS))


needs()
with Fleet() as fleet:
    fleet.start_collector()
    host = WineHost(fleet)
    try:
        registered(host)
        kills(host)
        flood(host)
    finally:
        host.end()
sys.exit(0)
