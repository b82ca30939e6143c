"""Durable subscribers that are killed at random, and the collector beside them: every event is in their files exactly once.
A scope of the certificate is kept to."""

import os
import random
import time

from subscribers import Host, Subscriber, event
from fleet import Fleet, check, ensure
import sp

SEED = int(os.environ.get("PROCFLEET_SEED", str(random.SystemRandom().randrange(1 << 32))))
KILLS = int(os.environ.get("PROCFLEET_KILLS", "25"))
HOSTS = 3


def refused_live(fleet):
    """With a scope there is no live stream; the example says why."""
    for language in ("py", "c"):
        s = Subscriber(fleet, language, "scoped-live-" + language, who="scoped")
        check("%s: live with a scope is refused" % language, s.process.wait(60), 1)
        ensure("and says so", "without a scope" in s.said(), s.said())


def scoped_calls(fleet):
    """The bytes of answers hold nothing of other hosts; asking for them by name is refused."""
    connection = sp.Connection("127.0.0.1:" + fleet.ports["query"], sp.SP_REQ, fleet.tls("scoped"))
    code, message, reply = sp.call(connection, "procfleet.v1.Query/Poll", sp.field_varint(6, 1))
    check("a nameless poll of the oldest", (code, message), (0, ""))
    ensure("has the scope's host", b"gen-1" in reply)
    ensure("and no other", b"gen-2" not in reply and b"gen-3" not in reply)
    code, message, _ = sp.call(connection, "procfleet.v1.Query/GetServerInfo")
    check("GetServerInfo", code, 0)
    for topic in (b"event/gen-2", b"sample/gen-2", b"event/no-such-host"):
        code, message, reply = sp.call(connection, "procfleet.v1.Query/Fetch",
                                       sp.field_fixed64(1, 1) + sp.field_bytes(2, topic) + sp.field_fixed64(3, 1))
        check("Fetch of %s" % topic.decode(), (code, reply), (7, b""))
    connection.close()


def torn(subscriber, rng):
    """Leaves what a kill between the lines and the cursor leaves, a moment that is seldom hit: lines that will come again."""
    if rng.random() < 0.5 and os.path.exists(subscriber.output):
        with open(subscriber.output, "r+b") as f:
            data = f.read()[-rng.randrange(1, 500):]
            f.write(data)


def kills(fleet, rng, subscribers):
    """Each is killed and started again; every tenth time the collector is."""
    for i in range(KILLS):
        time.sleep(rng.uniform(0, 0.4))
        victim = fleet if i % 10 == 9 else rng.choice(subscribers)
        if victim is fleet:
            fleet.collector.kill()
            fleet.collector.wait()
            fleet.start_collector()
        else:
            ensure("%s runs until it is killed" % victim.name, victim.process.poll() is None, victim.said()[-1000:])
            victim.process.kill()
            victim.process.wait()
            torn(victim, rng)
            victim.start()


rng = random.Random(SEED)
print("seed", SEED, "kills", KILLS)
with Fleet() as fleet:
    fleet.start_collector()
    fleet.issue("subscribe", "scoped", "pki", None, "--scope", "gen-1")
    refused_live(fleet)
    subscribers = [Subscriber(fleet, language, "durable-" + language, "--durable", "audit-" + language) for language in ("py", "c")]
    scoped = Subscriber(fleet, "c", "scoped", "--durable", "audit", who="scoped")
    for s in [*subscribers, scoped]:
        fleet.wait_for("%s to subscribe" % s.name, lambda: os.path.exists(s.output + ".cursor"))
    hosts = [Host(fleet, i + 1) for i in range(HOSTS)]
    fleet.wait_for("events of every host", lambda: all(len(s.by_host()) == HOSTS for s in subscribers))
    kills(fleet, rng, subscribers)
    for h in hosts:
        h.stop()
    made = {h.name: h.made() for h in hosts}
    n = sum(len(events) for events in made.values())
    for s in subscribers:
        fleet.wait_for("all of %d events to reach %s" % (n, s.name), lambda: len(s.lines()) >= n)
        check("%s: every event once" % s.name,
              {host: sorted(map(event, lines)) for host, lines in s.by_host().items()}, made)
    fleet.wait_for("the scope's events", lambda: len(scoped.lines()) >= len(made["gen-1"]))
    check("the scoped one: every event of its host once, nothing else",
          {host: sorted(map(event, lines)) for host, lines in scoped.by_host().items()}, {"gen-1": made["gen-1"]})
    scoped_calls(fleet)
    ensure("nothing was dropped", "dropped" not in "".join(s.said() for s in subscribers))
    print("%d events of %d hosts, %d bytes of cursors" % (n, HOSTS, sum(os.path.getsize(s.output + ".cursor") for s in subscribers)))
