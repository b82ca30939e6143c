"""Notices and kill -9 of collector and notifier at random moments, against a receiver that fails: each id arrives, and one that arrives
again follows a kill. PROCFLEET_KILLS: how many (20)."""

import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import Fleet, check, ensure  # noqa: E402
from webhooks import Notices, Notifier, Webhooks  # noqa: E402

KILLS = int(os.environ.get("PROCFLEET_KILLS", "20"))
random.seed(int(os.environ.get("PROCFLEET_SEED", "0")) or None)


def wanted(ids):
    """What notice_gen makes for nobody, or silenced while it fires, is not sent."""
    return [i for i in ids if int(i, 16) % 100 != 50 and not (int(i, 16) % 100 == 60 and int(i, 16) // 12 % 2 == 0)]


with Fleet() as fleet:
    fleet.start_collector()
    hooks = Webhooks()
    notifier = Notifier(fleet, "  hook: {url: 'http://127.0.0.1:%d/in', timeout: 5s}\n" % hooks.port)
    notifier.start()
    notifier.subscribed(1)
    notices, kills = Notices(fleet), []
    for i in range(KILLS):
        hooks.modes = {"/in": random.choice((200, 200, 200, 503, "reset"))}
        notices.make(random.randint(1, 9))  # kills the collector
        time.sleep(random.uniform(0, 0.25))  # the random moment
        kills.append(time.monotonic())
        notifier.kill()
        kills.append(time.monotonic())
        notifier.start()
    hooks.modes = {}
    ids = wanted(notices.ids)
    fleet.wait_for("every notice", lambda: set(hooks.keys("/in")) >= set(ids))
    check("the notifier ends well", Fleet.stop(notifier.process), 0)
    seen = {}
    for when, headers, body in hooks.of("/in"):
        key = headers["Idempotency-Key"]
        check_id = body["id"]
        if check_id != key:
            check("the key is the notice's id", key, check_id)
        seen.setdefault(key, []).append(when)
    check("distinct ids are those of the notices", sorted(seen), sorted(ids))
    again = {k: t for k, t in seen.items() if len(t) > 1}
    for key, times in again.items():
        for before, after in zip(times, times[1:]):
            if not any(before <= k + 0.05 and k <= after for k in kills):
                check("an id that arrives again follows a kill: %s" % key, (before, after), kills)
    order = []
    for _, headers, _ in hooks.of("/in"):
        if headers["Idempotency-Key"] not in order:
            order.append(headers["Idempotency-Key"])
    check("in their order", order, ids)
    ensure("there were some", len(ids) >= KILLS, len(ids))
    print("%d kills of both: %d notices, %d of them arrived again" % (KILLS, len(ids), len(again)))
sys.exit(0)
