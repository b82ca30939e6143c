"""procfleet timeline: a process that ran, as a row and in the picture; what is lost is hatched."""

import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import Fleet, check, ensure  # noqa: E402


def picture(fleet, *args):
    """The table in plain ASCII."""
    env = dict(os.environ, LC_ALL="C")
    for name, value in fleet.tls("operator").items():
        env["PROCFLEET_" + name.upper()] = value
    env["PROCFLEET_COLLECTOR"] = "localhost:" + fleet.ports["query"]
    return fleet.run("procfleet", "timeline", "--columns", "100", *args, env=env, expect=None)[1]


def rows(fleet, ran):
    """Shell and child, once both are over and the collector knows; None: under load the agent may not be told of all."""
    end = time.monotonic() + 25
    while time.monotonic() < end:
        found = [r for r in fleet.ask("timeline", "--name", "tl_*", "--last", "1m", expect=None)
                 if ran.pid in (r["pid"], r.get("parent")) and not r["lives"]]
        if sorted(r["name"] for r in found) == ["tl_shell", "tl_sleep"]:
            return sorted(found, key=lambda r: r["name"])
        time.sleep(0.2)
    return None


def lives(fleet):
    for name, program in (("tl_shell", "sh"), ("tl_sleep", "sleep")):
        shutil.copy(shutil.which(program), fleet.path(name))
    pair = None
    for _ in range(3):
        begun = time.time()
        ran = subprocess.Popen([fleet.path("tl_shell"), "-c", "%s 2; exit 3" % fleet.path("tl_sleep")])
        check("the shell's exit code", ran.wait(), 3)
        pair = pair or rows(fleet, ran)
        if pair:
            break
    ensure("the collector knows both", pair)
    shell, child = pair
    polled = fleet.hosts()["live"].get("polled")
    check("the pid", shell["pid"], ran.pid)
    ensure("when it began", abs(shell["start_time"] / 1e9 - begun) < 1, shell)
    if polled:
        print("skipped: exit codes, without the right to be told of processes (CAP_NET_ADMIN)")
    else:
        check("how it ended", (shell["exit_code"], child["exit_code"]), (3, 0))
        ensure("how long it lived", 1.9e9 < shell["life_ns"] < 5e9, shell)
        check("its end", shell["end_time"] - shell["start_time"], shell["life_ns"])
    check("whose child it is", (child["parent"], int(child["parent_start"])), (shell["pid"], shell["start"]))
    ensure("and whose the shell is", shell["parent"] == os.getpid(), shell)
    others = [(r["pid"], r["start"]) for r in fleet.ask("ps", "--all", "--name", "tl_shell", expect=None)]
    ensure("ps has the same", (shell["pid"], shell["start"]) in others, others)
    return polled


def pictures(fleet, polled):
    for group in ("image", "tree", "user", "host"):
        drawn = picture(fleet, "--group-by", group, "--last", "1m")
        ensure("a picture by %s has axis and legend" % group, "|" in drawn and "a column is" in drawn, drawn)
        ensure("and fits its width", max(map(len, drawn.split("\n")[:-2])) <= 160, drawn)
    drawn = picture(fleet, "--name", "tl_*", "--group-by", "tree", "--last", "1m")
    ensure("the child stands below its parent", "tl_shell" in drawn and "\n tl_sleep" in drawn, drawn)
    ensure("the failure has its sign", polled or "X" in drawn, drawn)


def losses(fleet, agent):
    """An agent that is killed leaves a hole."""
    agent.kill()
    agent.wait()
    time.sleep(4)
    fleet.start_agent("live", batch__max_age="500ms")
    fleet.wait_for("a hatch", lambda: "/" in picture(fleet, "--last", "30s").replace("+", ""))
    said = fleet.cli("timeline", "--last", "1m", expect=5)[1]
    ensure("the last line says what is missing", "lost on live" in said, said)


def refusals(fleet):
    for args in (["--last", "soon"], ["--last", "1m", "--since", "5m"], ["--max", "50001"], ["--lanes", "0"], ["--columns", "10"],
                 ["--group-by", "colour"]):
        ensure("a sentence is said of %s" % args, fleet.cli("timeline", *args, expect=2)[2].strip())
    check("few are asked for", len(fleet.ask("timeline", "--max", "2", "--last", "1m", expect=None)), 2)


with Fleet() as the_fleet:
    the_fleet.start_collector()
    the_agent = the_fleet.start_agent("live", batch__max_age="500ms")
    the_fleet.wait_for("the first data", lambda: the_fleet.hosts().get("live"))
    pictures(the_fleet, lives(the_fleet))
    refusals(the_fleet)
    losses(the_fleet, the_agent)
