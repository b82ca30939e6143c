"""Rules that fire and end, and kill -9 of collector and notifier at random moments, against a receiver that fails: the id of each
transition arrives, one that arrives again follows a kill, and all of them are what the back-test gives. PROCFLEET_KILLS: how many (20)."""

import os
import random
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import Fleet, check, ensure  # noqa: E402
from webhooks import Notifier, Webhooks  # noqa: E402

KILLS = int(os.environ.get("PROCFLEET_KILLS", "20"))
NAMES = ["chaos-%d" % i for i in range(12)]
RULES = """
defaults: {coverage: 1%, late: 20s}
rules:
  - {name: started, of: image, where: 'name ~ "chaos-*"', when: 'starts(pid, 10s) >= 1'}
  - {name: there, of: image, where: 'name ~ "chaos-*"', when: 'count(pid, 10s) >= 1', hosts: 1}
"""
random.seed(int(os.environ.get("PROCFLEET_SEED", "0")) or None)


def notices(fleet):
    rows = fleet.ask("events", "--kind", "rule", "--since", "3h", "-n", "100000", expect=None)
    return [r["fields"] for r in rows]


with Fleet() as fleet:
    for name in NAMES:
        shutil.copy(shutil.which("sleep"), fleet.path(name))
    with open(fleet.path("rules.yaml"), "w") as f:
        f.write(RULES)
    conf = {"rules__file": fleet.path("rules.yaml")}
    fleet.start_collector(**conf)
    agent = fleet.start_agent("lab-1")
    hooks = Webhooks()
    notifier = Notifier(fleet, "  hook: {url: 'http://127.0.0.1:%d/in', timeout: 5s}\n" % hooks.port)
    notifier.start()
    notifier.subscribed(1)
    fleet.wait_for("the host to be known", lambda: "lab-1" in fleet.hosts())
    kills, sleepers = [], []
    for i in range(KILLS):
        hooks.modes = {"/in": random.choice((200, 200, 200, 503, "reset"))}
        sleepers += [subprocess.Popen([fleet.path(name), "%.1f" % random.uniform(0.5, 15)]) for name in random.sample(NAMES, random.randint(0, 3))]
        time.sleep(random.uniform(0.2, 3.5))  # the random moment
        if random.random() < 0.7:
            kills.append(time.monotonic())
            notifier.kill()
            kills.append(time.monotonic())
            notifier.start()
        if random.random() < 0.7:
            kills.append(time.monotonic())  # a poll that the collector had answered may be asked again
            fleet.collector.kill()
            fleet.collector.wait()
            fleet.start_collector(**conf)
            kills.append(time.monotonic())
        sleepers = [p for p in sleepers if p.poll() is None]
    hooks.modes = {}
    for p in sleepers:
        p.wait()
    fleet.wait_for("all to end", lambda: fleet.ask("rules", "status", expect=None) is not None
                   and not fleet.ask("rules", "status", "--firing", expect=None), 120)
    check("the agent ends well", Fleet.stop(agent), 0)
    last = fleet.wait_for("transitions", lambda: notices(fleet))
    fleet.wait_for("each of them", lambda: set(hooks.keys("/in")) >= {n["id"] for n in notices(fleet)}, 150)
    check("the notifier ends well", Fleet.stop(notifier.process), 0)
    told = notices(fleet)
    ids = [n["id"] for n in sorted(told, key=lambda n: int(n["n"]))]
    check("numbers have no holes", sorted(int(n["n"]) for n in told), list(range(1, len(told) + 1)))
    check("each transition is there once", len(set(ids)), len(ids))
    seen, order = {}, []
    for when, headers, body in hooks.of("/in"):
        key = headers["Idempotency-Key"]
        if body["id"] != key:
            check("the key is the notice's id", key, body["id"])
        if key not in seen:
            order.append(key)
        seen.setdefault(key, []).append(when)
    check("what arrived is what the rules told, in their order", order, ids)
    again = {k: t for k, t in seen.items() if len(t) > 1}
    for key, times in again.items():
        for before, after in zip(times, times[1:]):
            if not any(before <= k + 0.05 and k <= after for k in kills):
                check("an id that arrives again follows a kill: %s" % key, (before, after), kills)
    tested = {r["id"] for r in fleet.ask("rules", "test", "--since", "3h", "-n", "100000", "--timeout", "10m")}
    ensure("they are those of the back-test", set(ids) == tested,
           "only live: %r\nonly the test: %r" % ([n for n in told if n["id"] not in tested], sorted(tested - set(ids))))
    ensure("there were some", len(ids) >= KILLS // 2, len(ids))
    print("%d rounds, %d kills: %d notices, %d of them arrived again" % (KILLS, len(kills) // 2, len(ids), len(again)))
sys.exit(0)
