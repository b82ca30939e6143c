"""real_facts.py [FACTS.json] [--dump DIR]: judges what doctor --facts --format json found. Without a file it runs the doctor."""

import json
import os
import sys

from real import Machine, argument

# What a real Windows must answer; the figures are in the details.
ASKED = ("fact.rundown fact.masks fact.versions fact.delay fact.order fact.children fact.totals fact.guid fact.update fact.flags "
         "fact.burst fact.start_loss fact.account fact.table fact.own fact.identity fact.sequence fact.skew fact.pair fact.timer "
         "fact.rename fact.clock fact.second fact.foreign fact.slots fact.refused fact.kind").split()
HOST_ONLY = "fact.account fact.kind fact.table fact.timer fact.rename fact.clock fact.cost".split()


def judge(machine, rows, asked):
    states = {}
    for row in rows:
        states.setdefault(row["check"], []).append(row["state"])
        if row["check"].startswith("fact"):
            machine.fact("%s %s: %s" % (row["check"], row["state"], row["detail"]))
    for name in asked:
        machine.check("%s was tried" % name, any(s != "skipped" for s in states.get(name, [])), states.get(name))
    surprises = [r for r in rows if r["check"].startswith("fact") and r["state"] in ("warning", "failed")]
    if machine.real("whether each fact is as documented"):
        machine.check("each fact is as documented", not surprises, json.dumps(surprises, indent=1))


def dump_of(machine, directory):
    with open(os.path.join(directory, "tables.jsonl"), encoding="utf-8") as f:
        tables = [json.loads(line) for line in f]
    machine.check("class 5 is among the tables that were written", any(t["class"] == 5 for t in tables), tables)
    for t in tables:
        machine.check("%s has its %d bytes" % (t["file"], t["bytes"]),
                      os.path.getsize(os.path.join(directory, t["file"])) == t["bytes"])
    user = os.environ.get("USERNAME") or os.environ.get("USER") or ""
    if len(user) >= 3:
        with open(os.path.join(directory, "class-5.bin"), "rb") as f:
            machine.check("this user's name is not in it", user.lower().encode("utf-16-le") not in f.read().lower())


def main():
    machine = Machine()
    source = argument(0)
    if source:
        with open(source, encoding="utf-8-sig") as f:
            rows = json.load(f)
    else:
        dump = machine.path("dump")
        config = machine.settings("facts")
        _, text = machine.agent("doctor", "--facts", "--format", "json", "--dump", machine.windows(dump), "--anonymous", "--config",
                                config, timeout=900)
        rows = json.loads(text[text.index("["):text.rindex("]") + 1])
        dump_of(machine, dump)
    judge(machine, rows, ASKED if machine.real("facts that need a session") else HOST_ONLY)
    machine.end()


if __name__ == "__main__":
    sys.exit(main())
