"""procfleet-notify: notices become webhooks in each format, and the input of a program; what a target refuses, what it takes later."""

import glob
import json
import os
import stat
import sys

from fleet import Fleet, check, ensure
from webhooks import Notices, Notifier, Webhooks

PROCFLEET = {"id", "key", "n", "rule", "severity", "of", "state", "before", "time", "since", "value", "unit", "skipped", "use", "say"}
ALERT = {"status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint"}
WEBHOOK = {"version", "groupKey", "truncatedAlerts", "status", "receiver", "groupLabels", "commonLabels", "commonAnnotations",
           "externalURL", "alerts"}


def settings(fleet):
    for targets, word in (("  hook: {url: 'http://192.0.2.1/'}\n", "use https://"), ("  hook: {type: webhook}\n", "it is not set"),
                          ("  hook: {url: 'http://127.0.0.1/', timeout: 31s}\n", "30"), ("  page: {type: exec, program: /bin/true}\n", "allow_exec"),
                          ("  'a b': {url: 'http://127.0.0.1/'}\n", "letters"), ("  hook: {url: 'http://127.0.0.1/', nonsense: 1}\n", "nonsense"),
                          ("  hook: {url: 'ftp://127.0.0.1/'}\n", "http")):
        n = Notifier(fleet, targets, "wrong")
        code, _, err = fleet.run("procfleet-notify", "run", "--config", n.conf, expect=None)
        ensure("wrong: %s" % targets.strip(), code in (1, 2) and word in err, (code, err))
    _, _, err = fleet.run("procfleet-notify", "run", "--set", "state_dir=" + fleet.path("none"), expect=2)
    ensure("no targets", "there must be" in err, err)


def programs(fleet):
    """Programs that others could change are not run. Returns the one that may be, or None when we are not root."""
    mine = fleet.path("page")
    with open(mine, "w") as f:
        f.write("#!/bin/sh\nset -eu\n[ -e %s ] || exit 3\ncat >> %s\necho >> %s\nenv > %s\nmv %s %s\n" %
                (fleet.path("go"), fleet.path("got"), fleet.path("got"), fleet.path("env.new"), fleet.path("env.new"), fleet.path("env")))
    os.chmod(mine, 0o775)
    n = Notifier(fleet, "  page: {type: exec, program: %s}\n" % mine, "exec", allow_exec="true")
    _, _, err = fleet.run("procfleet-notify", "run", "--config", n.conf, expect=2)
    ensure("a program that its group can write is refused", "owned by root" in err, err)
    os.chmod(mine, 0o755)
    if os.geteuid() != 0:
        print("not root: no program can be tried")
        return None
    os.chmod(fleet.dir, stat.S_IMODE(os.stat(fleet.dir).st_mode) | stat.S_IWOTH)
    _, _, err = fleet.run("procfleet-notify", "run", "--config", n.conf, expect=2)
    ensure("so is one in a directory of everybody's", "owned by root" in err, err)
    os.chmod(fleet.dir, 0o700)
    return mine


def formats(hooks, ids):
    bodies = {b["id"]: b for _, _, b in hooks.of("/plain")}
    firing = bodies[ids[0]]
    ensure("a notice has what it says", PROCFLEET <= set(firing) and (firing["rule"], firing["state"], firing["before"], firing["host"],
           firing["value"], firing["unit"], firing["say"]) == ("busy", "firing", "ok", "db-1", 0.31, "share", 'a "sentence" with ä'), firing)
    check("in the order they came", [b["n"] for _, _, b in hooks.of("/plain")], sorted(b["n"] for b in bodies.values()))
    ensure("a notice of no single host says none", any("host" not in b for b in bodies.values()))
    alerts = [b for _, _, b in hooks.of("/alerts")]
    check("of the rules that it asked for", {b["groupLabels"]["alertname"] for b in alerts}, {"busy"})
    check("Alertmanager's fields", (set(alerts[0]), set(alerts[0]["alerts"][0]), alerts[0]["version"]), (WEBHOOK, ALERT, "4"))
    check("firing and resolved", {b["status"] for b in alerts}, {"firing", "resolved"})
    by_key = {}
    for b in alerts:
        by_key.setdefault(b["alerts"][0]["fingerprint"], []).append(b["alerts"][0])
    ensure("an alert is resolved under its own labels", any(
        list(dict.fromkeys(a["status"] for a in list_)) == ["firing", "resolved"] and list_[0]["labels"] == list_[-1]["labels"] for list_ in by_key.values()), by_key)
    api = [b for _, _, b in hooks.of("/api/v2/alerts")]
    ensure("for its API a list of alerts", all(isinstance(b, list) and {"labels", "annotations", "startsAt"} <= set(b[0]) and
           "status" not in b[0] for b in api), api)


with Fleet() as fleet:
    fleet.start_collector()
    settings(fleet)
    page = programs(fleet)
    hooks = Webhooks()
    base = "http://127.0.0.1:%d" % hooks.port
    with open(fleet.path("headers"), "w") as f:
        f.write("Authorization: Bearer s3cret\n")
    os.chmod(fleet.path("headers"), 0o600)
    targets = ("  hook: {url: '%s/plain', headers_file: '%s'}\n  alerts: {url: '%s/alerts', format: alertmanager, rules: [b*]}\n"
               "  api: {url: '%s/api/v2/alerts', format: alertmanager-api}\n  never: {url: '%s/never'}\n"
               % (base, fleet.path("headers"), base, base, base))
    if page:
        targets += "  page: {type: exec, program: '%s'}\n" % page
    notifier = Notifier(fleet, targets, allow_exec="true" if page else "false", retry_for="1h")
    notifier.start()
    notifier.subscribed(5 if page else 4)
    notices = Notices(fleet)
    hooks.modes = {"/never": 400, "/plain": 503, "/alerts": "lost reply"}
    ids = notices.make(14)
    fleet.wait_for("a target to be asked again", lambda: [p for p, _, _ in hooks.asked].count("/plain") >= 2)
    hooks.modes.update({"/plain": 429, "/alerts": "reset"})
    fleet.wait_for("and again", lambda: ("/plain", ids[0], 429) in hooks.asked)
    hooks.modes.update({"/plain": 200, "/alerts": 200})
    unnamed = [i for i in ids if int(i, 16) // 2 % 2 == 0]
    fleet.wait_for("all of the hook's", lambda: set(hooks.keys("/plain")) == set(ids))  # their use is empty, or names it
    fleet.wait_for("all of the others'", lambda: set(hooks.keys("/api/v2/alerts")) == set(unnamed))
    busy = [i for i in unnamed if int(i, 16) % 2]
    fleet.wait_for("those of the rules that were asked for", lambda: set(hooks.keys("/alerts")) == set(busy))
    check("each once, in their order", hooks.keys("/api/v2/alerts"), unnamed)
    ensure("headers came from the file", hooks.of("/plain")[0][1].get("Authorization") == "Bearer s3cret")
    fleet.wait_for("what is refused for good", lambda: len([1 for p, _, _ in hooks.asked if p == "/never"]) == len(unnamed))
    check("is tried once", [k for p, k, _ in hooks.asked if p == "/never"], unnamed)
    ensure("and said", fleet.log(notifier.log).count(" refused ") >= 1 and "status=400" in fleet.log(notifier.log), fleet.log(notifier.log))
    formats(hooks, ids)
    if page:
        with open(fleet.path("go"), "w"):
            pass
        got = fleet.path("got")
        fleet.wait_for("the program's", lambda: os.path.exists(got) and os.path.exists(fleet.path("env")) and len(open(got).readlines()) >= len(unnamed))
        rows = [json.loads(line) for line in open(got) if line.strip()]
        ensure("a program gets the notice on its standard input", set(r["id"] for r in rows) <= set(unnamed) and rows, rows)
        check("and nothing else: its environment", sorted(line.partition("=")[0] for line in open(fleet.path("env"))
                                                          if not line.startswith(("PWD", "_", "SHLVL", "OLDPWD"))), ["PATH"])
    check("it ends well", Fleet.stop(notifier.process), 0)
    log = fleet.log(notifier.log)
    ensure("and counts", all("target=%s " % t in log.split(" stopping")[-1] for t in ("hook", "alerts", "api", "never")), log)
    ensure("secrets are not in its log", "s3cret" not in log)

    # a target that stays away: given up when its time has passed, and the next ones are tried
    hooks.modes = {"/plain": 500}
    with open(notifier.conf) as f:
        text = f.read()
    with open(notifier.conf, "w") as f:
        f.write(text.replace("retry_for: '1h'", "retry_for: '1s'"))
    notifier.start()
    first = notices.make(1)[0]
    fleet.wait_for("it to be given up", lambda: " given up" in fleet.log(notifier.log) and first in fleet.log(notifier.log).split(" given up")[-1])
    hooks.modes = {}
    second = notices.make(1)[0]
    fleet.wait_for("the next one", lambda: second in hooks.keys("/plain"))
    ensure("what was given up does not come", first not in hooks.keys("/plain"))
    check("it ends well", Fleet.stop(notifier.process), 0)
    check("there is a file for each target", len(glob.glob(fleet.path("notify", "*.state"))), 5 if page else 4)
sys.exit(0)
