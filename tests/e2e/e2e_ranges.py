"""procfleet diff of two ranges of a collector that are no runs: extracted on the way, figures without a verdict (seconds are too few),
and what top says of the same ranges."""

import json
import subprocess
import time

from fleet import BIN, Fleet, check, ensure

FAST = {"sampling__rate_hz": "10", "batch__samples": "5", "batch__max_age": "1s"}


def moment(t):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))


def newest(fleet):
    host = fleet.hosts().get("lab-1", {})
    return int(host.get("last_time", 0)) / 1e9


def main():
    with Fleet() as fleet:
        fleet.start_collector()
        fleet.start("procfleet-agent", "run", "--level", "L1", "--for", "1h", *fleet.agent_args("lab-1", **FAST), log="agent.log")
        fleet.wait_for("the host", lambda: newest(fleet) > 0)
        begin = int(time.time()) + 1
        subprocess.run([BIN + "/tests/burn"], stdout=subprocess.DEVNULL)  # two seconds of CPU time
        middle = max(begin + 4, int(time.time()) + 2)
        end = middle + 4
        fleet.wait_for("data behind the ranges", lambda: newest(fleet) > end + 1)
        a = "host=lab-1 since=%s until=%s" % (moment(begin - 1), moment(middle))
        b = "host=lab-* since=%s until=%s" % (moment(middle), moment(end))
        args = ["diff", "--a", a, "--b", b, "--group-by", "image", "-m", "cpu_time"]
        _, out, _ = fleet.cli(*args, "--format", "json", expect=5)
        answer = json.loads(out)
        rows = {r.get("group"): r for r in answer["rows"]}
        check("one run a side: %r" % answer["notes"], (len(answer["a"]["runs"]), len(answer["b"]["runs"])), (1, 1))
        check("no verdict", {r["says"] for r in rows.values()}, {"refused"})
        ensure("the range in which it burned has its CPU time: %r" % rows["burn"], 1.5e9 < rows["burn"]["a"] < 3e9)
        ensure("and the other one none: %r" % rows["burn"], rows["burn"]["b"] < 0.3e9)
        top = fleet.ask("top", "--host", "lab-1", "--by", "cpu_time", "--group-by", "image", "--since", moment(begin - 1),
                        "--until", moment(middle), expect=None)
        by_image = {r["name"]: r["cpu_time"] for r in top}
        ensure("as top says: %r, %r" % (by_image.get("burn"), rows["burn"]["a"]),
               abs(by_image["burn"] - rows["burn"]["a"]) <= 0.02 * rows["burn"]["a"])
        _, out, _ = fleet.cli(*args, expect=5)
        ensure("the reason is told: " + out, "no verdict: " in out or "too few for a verdict" in out)
        fleet.cli("diff", "--a", "host=lab-1", "--b", b, expect=2)
        fleet.cli("diff", "--a", "nonsense", "--b", b, expect=2)
        fleet.cli("diff", "--a", a, expect=2)
        fleet.cli("diff", "--a", "host=lab-1 since=%s until=%s" % (moment(end), moment(begin)), "--b", b, expect=2)
        _, out, _ = fleet.cli("gate", "none", "--against", "nothing", "--fail-on", "cpu_time > 5%", "--wait", "1s", expect=5)
        ensure("runs that are not there are told: " + out, "no run of A can be judged" in out)
        fleet.issue("query", "other", "pki", None, "--scope", "other-*")
        _, out, _ = fleet.cli("diff", "--a", a, "--b", b, "-m", "cpu_time", "--format", "json", who="other", expect=5)
        check("what the scope excludes is not there", json.loads(out)["a"]["hosts"], 0)


main()
