"""What the journal dropped before procfleet-notify asked for it: what fires now is sent instead, under the ids of the notices that told of
it; and silences, which hold back what begins under them and not what ends."""

import os
import subprocess
import time

from fleet import BIN, PATIENCE, Fleet, check, ensure
from webhooks import Notifier, Webhooks

RULES = """
defaults: {coverage: 1%, late: 5s}
rules:
  - {name: up, when: 'count(pid, 10s) > 0'}
  - {name: big, when: 'count(pid, 10s) > 1', use: [hook]}
  - {name: other, when: 'count(pid, 10s) > 2', use: [nobody]}
  - {name: hushed, when: 'count(pid, 10s) > 3'}
  - {name: never, when: 'count(pid, 10s) > 1000000'}
"""


def firing(fleet):
    return {r["rule"]: r for r in fleet.ask("rules", "status", "--firing", expect=None)}


with Fleet() as fleet:
    with open(fleet.path("rules.yaml"), "w") as f:
        f.write("rules: []\n")
    fleet.issue("admin", "boss")
    conf = {"rules__file": fleet.path("rules.yaml"), "feed__max_bytes": "4MiB"}
    fleet.start_collector(**conf)
    agent = fleet.start_agent("lab-1")
    fleet.wait_for("the host to be known", lambda: "lab-1" in fleet.hosts())
    hooks = Webhooks()
    notifier = Notifier(fleet, "  hook: {url: 'http://127.0.0.1:%d/in', rules: [up, big, other, hushed, never]}\n" % hooks.port)
    notifier.start()
    notifier.subscribed(1)
    fleet.cli("run", "begin", "patch-day", "--host", "lab-1", "--label", "silence=hush*", "--ttl", "1h", who="boss")
    time.sleep(11)  # a step that is behind the beginning of the silence
    with open(fleet.path("rules.yaml"), "w") as f:
        f.write(RULES)
    rules = fleet.wait_for("four rules to fire", lambda: len(firing(fleet)) == 4 and firing(fleet))
    wanted = sorted(("up", "big"))
    fleet.wait_for("their notices", lambda: sorted(b["rule"] for _, _, b in hooks.of("/in")) == wanted)
    ids = sorted(hooks.keys("/in"))
    told = {r["fields"]["rule"]: r["fields"] for r in fleet.ask("events", "--kind", "rule", "--since", "1h", expect=None)}
    check("one is silenced", {rule: t.get("silenced", "") for rule, t in told.items()},
          {"up": "", "big": "", "other": "", "hushed": "patch-day"})
    ensure("and rules status says by what", "patch-day" in str(rules["hushed"]), rules)

    notifier.kill()
    fleet.collector.kill()
    fleet.collector.wait()
    subprocess.run([os.path.join(BIN, "tests", "notice_gen"), fleet.path("data"), "1000000", "20000"], stdout=subprocess.DEVNULL, check=True,
                   timeout=PATIENCE)
    fleet.start_collector(**conf)
    fleet.wait_for("the rules to be judged", lambda: len(firing(fleet)) == 4)
    feed = fleet.path("data", "feed")
    ensure("the journal is over its bound", sum(os.path.getsize(os.path.join(feed, f)) for f in os.listdir(feed)) > 6 << 20)
    os.spawnlp(os.P_WAIT, "true", "true")  # an event, with which it is trimmed
    fleet.wait_for("the journal to be trimmed", lambda: sum(os.path.getsize(os.path.join(feed, f)) for f in os.listdir(feed)) < 5 << 20)
    notifier.start()
    fleet.wait_for("what fires to come again", lambda: len(hooks.keys("/in")) >= 4)
    check("under the same ids", sorted(hooks.keys("/in")[2:4]), ids)
    check("with what a notice has", {b["state"] for _, _, b in hooks.of("/in")}, {"firing"})
    ensure("the log says so", "what fires now is sent" in fleet.log(notifier.log), fleet.log(notifier.log))
    check("nothing that was not wanted came", {b["rule"] for _, _, b in hooks.of("/in")}, set(wanted))

    with open(fleet.path("rules.yaml"), "w") as f:
        f.write(RULES.replace("> 3'", "> 1000000'"))
    fleet.wait_for("the end of a silenced alert, which is sent",
                   lambda: [b for _, _, b in hooks.of("/in") if (b["rule"], b["state"]) == ("hushed", "ok")])
    check("the notifier ends well", Fleet.stop(notifier.process), 0)
