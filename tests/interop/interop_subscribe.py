"""Both example subscribers lose messages on purpose, and the collector is killed beside: what they print is what an undisturbed
subscriber saw, and what the agents made, to the last event."""

import json
import os
import re
import shutil
import subprocess

from subscribers import EXAMPLES, Host, Subscriber, event
from fleet import Fleet, check, ensure

HOSTS, EVENTS = 3, 350  # of each host


def counts(subscriber):
    """messages received, lost on purpose, fetched, gone for good"""
    found = re.search(r"(\d+) messages received, (\d+) lost on purpose, (\d+) fetched, (\d+) gone for good", subscriber.said())
    ensure("%s counts" % subscriber.name, found, subscriber.said()[-1000:])
    return [int(n) for n in found.groups()]


def compare(subscriber, witness, hosts):
    """Each host's lines are the end of the witness's, which began first."""
    seen, all_seen = subscriber.by_host(), witness.by_host()
    for host in hosts:
        lines = seen[host.name]
        ensure("%s: %s has many events" % (subscriber.name, host.name), len(lines) > EVENTS / 2, len(lines))
        check("%s: %s as the witness saw it" % (subscriber.name, host.name), lines, all_seen[host.name][-len(lines):])


def mistakes(fleet, language):
    """What a newcomer tries: a port where nobody listens, a time that is none, "| head -1"."""
    tls = fleet.tls("subscriber")
    env = dict(os.environ, PROCFLEET_CA=tls["ca"], PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"],
               PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_EVENTS="127.0.0.1:" + fleet.ports["events"])

    def run(*args):
        done = subprocess.run([*EXAMPLES[language], *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        return done.returncode, done.stderr

    said = run("--for", "1", "--events", "127.0.0.1:1")[1]
    ensure("%s does not call itself subscribed where nobody listens" % language, "trying again" in said and "subscribed" not in said, said)
    for time in ("-1", "0", "nan", "inf"):
        code, said = run("--for", time)
        ensure("%s refuses --for %s" % (language, time), code == 2 and "number above 0" in said, (code, said))
    reader = subprocess.Popen([*EXAMPLES[language], "--for", "60"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    fleet.processes.append(reader)
    ensure("%s prints a line" % language, reader.stdout.readline())
    reader.stdout.close()
    said = reader.stderr.read()
    ensure("%s ends without a word when its reader has gone" % language,
           reader.wait(timeout=60) in (-13, 141) and b"ipe" not in said, (reader.returncode, said))


EVIL = "\x1b[2J\u202e\U0001f600\x07\x7f"  # 15 bytes of a name are kept


def hostile_names(fleet):
    """A process names itself so that a terminal would do what it says: the lines are ASCII, and what a program reads is the name."""
    examples = [Subscriber(fleet, language, "evil-" + language) for language in EXAMPLES]
    fleet.wait_for("both to subscribe", lambda: all("subscribed" in s.said() for s in examples))
    agent = fleet.start_agent("evil", batch__max_age="300ms", privacy__command_line="full")

    shutil.copy("/bin/true", fleet.path(EVIL))

    def told(s):
        subprocess.run([fleet.path(EVIL)], check=True)  # again, until the agent looks
        return [line for line in s.lines() if json.loads(line)["name"].startswith("\x1b[2J")]

    for s in examples:
        line = fleet.wait_for("%s to tell of it" % s.name, lambda s=s: told(s))[0]
        ensure("%s prints ASCII alone" % s.name, all(0x20 <= c < 0x7f for c in line), line)
        check("which is the name", json.loads(line)["name"], EVIL)
        fleet.stop(s.process)
    fleet.stop(agent)


with Fleet() as fleet:
    fleet.start_collector()
    hostile_names(fleet)
    witness = Subscriber(fleet, "py", "witness")
    fleet.wait_for("the witness to subscribe", lambda: "subscribed" in witness.said())
    hosts = [Host(fleet, i + 1) for i in range(HOSTS)]
    fleet.wait_for("the witness to hear of every host", lambda: len(witness.by_host()) == HOSTS)
    for language in EXAMPLES:
        mistakes(fleet, language)
    # Not the third of each: hosts may come in turns, and whoever hears nothing of a host does not know that it missed something.
    lossy = [Subscriber(fleet, "py", "lossy-py", "--lose", "2"), Subscriber(fleet, "c", "lossy-c", "--lose", "4")]
    cut = [Subscriber(fleet, "py", "cut-py"), Subscriber(fleet, "c", "cut-c")]
    fleet.wait_for("the others, too", lambda: all(len(s.by_host()) == HOSTS for s in lossy + cut))
    begin = [len(h.made()) for h in hosts]
    fleet.wait_for("half of the events", lambda: all(len(h.made()) > b + EVENTS / 2 for h, b in zip(hosts, begin)))
    fleet.collector.kill()  # both connect anew, and fetch what was sent meanwhile
    fleet.collector.wait()
    fleet.start_collector()
    fleet.wait_for("all events", lambda: all(len(h.made()) > b + EVENTS for h, b in zip(hosts, begin)))
    for h in hosts:
        h.stop()
    fleet.wait_for("the witness to see the last events", lambda: all(
        h.made()[-1] in map(event, witness.by_host()[h.name]) for h in hosts))
    for s in [witness, *lossy]:
        check("%s ends in order, nothing is gone for good" % s.name, fleet.stop(s.process), 0)
    for h in hosts:
        check("the witness has every event of %s" % h.name, sorted(map(event, witness.by_host()[h.name])), h.made())
    for s in lossy:
        compare(s, witness, hosts)
        received, lost, fetched, gone = counts(s)
        ensure("%s lost many on purpose, and fetched as many" % s.name, min(lost, fetched) > 30, (received, lost, fetched))
    fleet.stop(fleet.collector)
    shutil.rmtree(fleet.path("data", "feed"))  # another epoch: nobody can say what follows the last message
    fleet.start_collector()
    for s in cut:
        check("%s ends with the code of what is missing, since its last question was refused" % s.name, fleet.stop(s.process), 5)
        ensure("%s says so" % s.name, "%d topics may have had more" % HOSTS in s.said(), s.said()[-1000:])
    print("undisturbed: %d received, %d fetched" % (counts(witness)[0], counts(witness)[2]))
