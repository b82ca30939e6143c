"""An agent written from PROTOCOL.md alone: clocks that jump, numbers sent twice, a machine that was copied."""

import os
import shutil
import sys
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import Fleet, check, ensure  # noqa: E402
from foreign_agent import S, Agent, enrolled  # noqa: E402

OK, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, UNAVAILABLE = 0, 6, 7, 8, 9, 14


def within(host, seconds):
    """The shown offset is this many seconds, as far as its error says."""
    error = host.get("clock_error_ns")
    ensure("the offset has an error below 1 s", error is not None and error < S, host)
    ensure("and is %d s within it" % seconds, abs(host["clock_offset_ns"] - seconds * S) <= error + S // 50, host)


def jumping_clock(fleet):
    agent = Agent(fleet, "jumpy", enrolled(fleet, "jumpy"))
    check("Hello", agent.hello(), (OK, []))
    check("Heartbeat", agent.heartbeat(), (OK, []))
    first = agent.batch(1)
    check("a batch", agent.push(first)[:2], (OK, False))
    within(fleet.hosts()["jumpy"], 0)
    for seq, hours in ((2, 1), (3, -1), (4, 48), (5, 0)):
        agent.ahead = hours * 3600 * S
        data = agent.batch(seq)
        check("a batch of a clock that is %+d h off" % hours, agent.push(data)[:2], (OK, False))
        within(fleet.hosts()["jumpy"], -hours * 3600)
        check("sent again", agent.push(data)[:2], (OK, True))
    agent.ahead = -3600 * S
    check("a batch an hour behind", agent.push(agent.batch(6))[:2], (OK, False))
    fleet.stop(fleet.collector)
    fleet.start_collector()
    host = fleet.hosts()["jumpy"]
    ensure("a restarted collector has heard of nobody", "heard_time" not in host, host)
    within(host, 3600)
    check("no number is missing", (host["batches"], host["gaps"]), (6, 0))
    agent.connect()
    check("a batch of before the restart", agent.push(first)[:2], (OK, True))
    other = agent.batch(1)
    code, _, message = agent.push(other)
    check("its number with other content", code, ALREADY_EXISTS)
    ensure("with a remedy", "enroll" in message, message)
    check("is not stored", fleet.hosts()["jumpy"]["batches"], 6)


def another_host(fleet):
    """A certificate speaks for its own host, in Hello and in every batch."""
    liar = Agent(fleet, "liar", enrolled(fleet, "liar"))
    check("Hello as itself", liar.hello(), (OK, []))
    own = liar.host
    liar.host = uuid.UUID(fleet.hosts()["jumpy"]["id"]).bytes
    check("Hello as another host", liar.hello()[0], PERMISSION_DENIED)
    code, _, message = liar.push(liar.batch(1))
    check("a batch of another host", code, PERMISSION_DENIED)
    ensure("with the name of the certificate", "this certificate is of liar" in message, message)
    liar.host = own
    check("a batch of its own", liar.push(liar.batch(1))[:2], (OK, False))
    ensure("it is logged", "session spoofed name=liar" in fleet.log("collector.log"))
    check("the other host has none of it", fleet.hosts()["jumpy"]["batches"], 6)


def copied_machine(fleet):
    """Begins with our agent as the first machine, and gives its copy."""
    fleet.start_agent("twin", batch__max_age="500ms")
    fleet.wait_for("the agent", lambda: fleet.hosts().get("twin", {}).get("state") == "connected")
    host = uuid.UUID(fleet.hosts()["twin"]["id"]).bytes
    copy = Agent(fleet, "twin", host)
    check("a second boot seems to be a restart", copy.hello(), (OK, []))
    check("nobody is called a clone", fleet.hosts()["twin"]["clones"], 0)
    check("its batches wait until the one before is silent", copy.push(copy.batch(1))[0], RESOURCE_EXHAUSTED)
    return copy


def copied_machine_found(fleet, copy):
    fleet.wait_for("the first to call again", lambda: fleet.hosts()["twin"]["clones"] == 1)
    check("the later one is refused", copy.heartbeat(), (FAILED_PRECONDITION, ["clone"]))
    code, _, message = copy.push(copy.batch(1))
    check("its batches too", code, FAILED_PRECONDITION)
    ensure("with a remedy", "procfleet-agent enroll --force" in message, message)
    _, _, notes = fleet.cli("hosts", "--format", "json", expect=None)
    ensure("every answer says so", "two machines use this identity" in notes, notes)
    check("it is logged once", fleet.log("collector.log").count("session clone "), 1)
    before = fleet.hosts()["twin"]["batches"]
    fleet.wait_for("the first to go on", lambda: fleet.hosts()["twin"]["batches"] > before + 2)


def agent_on_a_copy(fleet):
    """Begins the other way round: our agent is the one that came later. Gives the first and the agent."""
    first = Agent(fleet, "master", enrolled(fleet, "master"))
    check("the first machine", first.hello(), (OK, []))
    check("sends", first.push(first.batch(1))[:2], (OK, False))
    agent = fleet.start_agent("master", batch__max_age="500ms")
    fleet.wait_for("the agent to be greeted", lambda: "uplink connected" in fleet.log("agent-master.log"))
    return first, agent


def agent_on_a_copy_told(fleet, first, agent):
    def told():
        check("the first goes on", first.heartbeat(), (OK, []))
        time.sleep(1)  # it is asked this often, not waited for
        return "procfleet-agent enroll --force" in fleet.log("agent-master.log")
    fleet.wait_for("the agent to say what to do", told)
    check("the first is taken", first.push(first.batch(2))[:2], (OK, False))
    check("the agent never was", fleet.hosts()["master"]["batches"], 2)
    ensure("nothing is set aside for it", "quarantined" not in fleet.log("agent-master.log"))
    fleet.stop(agent)


def failed_log(fleet):
    """A log that cannot be written is told to agents and to whoever asks."""
    shutil.rmtree(fleet.path("data", "wal"))
    agent = Agent(fleet, "unlucky", enrolled(fleet, "unlucky"))
    check("Hello", agent.hello(), (OK, []))
    check("a batch that cannot be stored", agent.push(agent.batch(1))[0], UNAVAILABLE)
    _, _, notes = fleet.cli("hosts", "--format", "json", expect=None)
    ensure("answers say so", "nothing new is stored" in notes and "restart the collector" in notes, notes)
    fleet.stop(fleet.collector)
    fleet.start_collector()
    agent.connect()
    check("the restarted collector takes it", agent.push(agent.batch(1))[:2], (OK, False))
    _, _, notes = fleet.cli("hosts", "--format", "json", expect=None)
    ensure("and says nothing more", "nothing new is stored" not in notes, notes)


with Fleet() as fleet:
    fleet.start_collector()
    failed_log(fleet)
    jumping_clock(fleet)
    another_host(fleet)
    copy = copied_machine(fleet)
    first_and_agent = agent_on_a_copy(fleet)  # both take a while
    copied_machine_found(fleet, copy)
    agent_on_a_copy_told(fleet, *first_and_agent)
