"""Every line that collector and agent write, in both forms and at every level, can be read by a program: a fleet that works, is
refused, loses its collector and comes back."""

import json
import re

from fleet import Fleet, ensure

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
WORD = r"[a-z][a-z0-9_]*"
VALUE = r'(?:"(?:[^"\\\x00-\x1f]|\\["\\]|\\u[0-9a-f]{4})*"|[^\s"=\\]*)'
VALUES = re.compile(r"(?:%s=%s(?: (?!$)|$))*" % (r"[a-z][a-z0-9_.]*", VALUE))
LINE = re.compile(r"(%s) (error|warn |info |debug) (%s) (%s)(?: (.+))?" % (TIME, WORD, WORD))
LEVELS = ("error", "warn", "info", "debug")


def read_text(line):
    m = LINE.fullmatch(line)
    ensure_quietly("a line of text", m and VALUES.fullmatch(m.group(5) or ""), line)
    return m.group(3), m.group(4)


def read_json(line):
    try:
        row = json.loads(line)
    except ValueError:
        row = {}
    ensure_quietly("a line of JSON", list(row) == ["time", "level", "module", "event", "fields"] and row["level"] in LEVELS and
                   re.fullmatch(TIME, row["time"]) and all(isinstance(v, str) for v in row["fields"].values()), line)
    return row["module"], row["event"]


def ensure_quietly(what, condition, detail):
    if not condition:
        ensure(what, condition, detail)


def read_all(fleet, form, logs):
    seen = set()
    lines = 0
    for log in logs:
        with open(fleet.path(log), "rb") as f:
            for line in f.read().decode().splitlines():
                seen.add((read_json if form == "json" else read_text)(line))
                lines += 1
    print("ok: %d lines of %d kinds are good %s" % (lines, len(seen), form))
    return seen


def live(fleet, form):
    log = {"log.format": form, "log.level": "debug", "log.file": fleet.path("collector.%s" % form)}
    fleet.start_collector(**log)
    agent_log = {"log.format": form, "log.level": "debug"}
    agents = [fleet.start_agent(name, log__file=fleet.path("%s.%s" % (name, form)), **agent_log)
              for name in ("good", "gone", "stranger")]
    fleet.wait_for("two hosts", lambda: {"good", "gone"} <= set(fleet.hosts()))
    fleet.run("procfleet-collector", "pki", "revoke", "gone", "--dir", fleet.path("pki"), "--reason", 'said "so" = yes')
    for name, word in (("gone", "refused"), ("stranger", "failed")):
        fleet.wait_for("%s to be told" % name, lambda: word in fleet.log("%s.%s" % (name, form)))
    fleet.cli("top", who="good", expect=4)  # an agent may ask nothing
    fleet.stop(fleet.collector)
    fleet.wait_for("good to lose it", lambda: "unreachable" in fleet.log("good.%s" % form))
    fleet.start_collector(**log)
    before = fleet.hosts()["good"]["batches"] if "good" in fleet.hosts() else 0
    fleet.wait_for("good to come back", lambda: fleet.hosts().get("good", {}).get("batches", 0) > before)
    for p in agents + [fleet.collector]:
        fleet.stop(p)
    seen = read_all(fleet, form, ["collector." + form] + [n + "." + form for n in ("good", "gone", "stranger")])
    ensure("they tell of the beginning, a refusal and the end",
           {("collector", "listening"), ("collector", "ready"), ("collector", "stopping"), ("agent", "started"),
            ("agent", "stopped")} <= seen, seen)


for form in ("text", "json"):
    with Fleet() as fleet:
        fleet.run("procfleet-collector", "pki", "init", "--dir", fleet.path("foreign"), "--name", "another authority")
        fleet.issue("agent", "stranger", "foreign")
        live(fleet, form)
