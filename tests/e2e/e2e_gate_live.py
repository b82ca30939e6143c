"""A gate over real runs: the same command twice by turns is ok, a slower one fails, an unknown one gets no verdict; the same from
exported files without a collector, and as a report. Marks come from `procfleet run exec`."""

import json
import os

from fleet import BIN, Fleet, check, ensure

BURN = os.path.join(BIN, "tests", "burn")
TURNS = 4


def environment(fleet, who):
    tls = fleet.tls(who)
    return dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"],
                PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"], XDG_STATE_HOME=fleet.path("state"))


def gate(fleet, b, *limits, expect, more=()):
    args = [w for limit in limits for w in ("--fail-on", limit)]
    _, out, _ = fleet.cli("gate", b, "--against", "a", *args, *more, who="ci", expect=expect)
    print(out.splitlines()[0])
    return out


def main():
    with Fleet() as fleet:
        fleet.start_collector(lab__class="arch,kernel")
        fleet.issue("query,mark", "ci")
        fleet.start_agent("lab-1", batch__max_age="1s")
        fleet.wait_for("the host", lambda: "lab-1" in fleet.hosts())
        for _ in range(TURNS):
            for name, seconds in (("a", "0.50"), ("a2", "0.50"), ("b", "0.60")):
                fleet.run("procfleet", "run", "exec", name, "--", BURN, "cpu", seconds, env=environment(fleet, "ci"))
        out = gate(fleet, "b", "cpu_time > 5%", expect=6, more=("--wait", "100s"))
        ensure("the slower one fails: " + out, out.startswith("regression  cpu_time +"))
        out = gate(fleet, "a2", "cpu_time > 5%", expect=0, more=("--wait", "100s"))
        ensure("the same one is ok: " + out, out.startswith("ok "))
        gate(fleet, "b", "cpu_time of burn > 5%", expect=6)
        out = gate(fleet, "b", "cpu_time > 5%", "starts > 10", expect=5)
        ensure("two limits take five runs: " + out, "5 on each side would do" in out)
        gate(fleet, "c", "cpu_time > 5%", expect=5)
        answer = json.loads(fleet.cli("diff", "a", "b", "-m", "cpu_time", "--format", "json", who="ci")[1])
        words = "%s/%s" % (os.uname().machine, os.uname().release)
        check("the collector's classes", [answer[s]["class"] for s in "ab"], [words, words])
        other = json.loads(fleet.cli("diff", "a", "b", "--class", "arch", "--format", "json", who="ci")[1])
        check("others for one question", [other[s]["class"] for s in "ab"], [os.uname().machine] * 2)
        row = answer["rows"][0]
        check("its runs", (len(row["runs_a"]), len(row["runs_b"]), row["says"]), (TURNS, TURNS, "more"))
        ensure("their CPU time is the kernel's: %r" % row, all(0.5e9 <= v < 0.56e9 for v in row["runs_a"]) and
               all(0.6e9 <= v < 0.67e9 for v in row["runs_b"]))
        lib = fleet.path("lib")
        os.makedirs(lib)
        for name in ("a", "b"):
            for n in range(1, TURNS + 1):
                fleet.cli("run", "export", "%s@%d" % (name, n), "-o", os.path.join(lib, "%s-%d.pfr" % (name, n)), who="ci")
        out = fleet.run("procfleet", "gate", "b", "--against", "a", "--runs", lib, "--fail-on", "cpu_time > 5%", expect=6)[1]
        ensure("the files say the same: " + out, "cpu_time +" in out)
        page = fleet.path("r.html")
        fleet.cli("report", "b", "--against", "a", "-o", page, who="ci")
        ensure("a report", "<caption>Changes of B against A" in open(page, encoding="utf-8").read())


main()
