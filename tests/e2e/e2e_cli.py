"""The operator's command line: what it says and how it exits when things are not as they should be."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

from fleet import BIN, Fleet, check, ensure


def exits(fleet, code, *args):
    """The command ends with this exit code; gives what it said on standard error."""
    _, _, err = fleet.cli(*args, expect=code)
    print("ok: exit code %d: %s" % (code, " ".join(args)))
    return err


def usage(fleet):
    for args in (["nonsense"], ["hosts", "--bogus"], ["hosts", "extra"], ["hosts", "--format", "xml"],
                 ["top", "--by", "nonsense"], ["top", "--by", "name"], ["top", "--since", "tomorrow"],
                 ["top", "--since", "1m", "--until", "5m"], ["top", "-n", "0"], ["top", "-n", "-1"], ["history"],
                 ["events", "--kind", "nonsense"], ["history", "--name", "*", "-n", "100001"],
                 ["top", "--as", "median"], ["top", "--every", "5s"], ["top", "--group-by", "colour"], ["top", "--include-exited"],
                 ["tree", "--at", "tomorrow"], ["hosts", "--collector", "127.0.0.1:99999"], ["tail", "--events", "no address"]):
        ensure("a sentence is said", exits(fleet, 2, *args).strip())


def guesses(fleet):
    """Names of other programs lead to the metric; lists may have commas and be repeated."""
    for said, metric in (("rss", "working_set_size"), ("memory", "working_set_size"), ("cpu", "cpu_percent"), ("io", "read_bytes")):
        for args in (["top", "--by", said], ["history", "--pid", "1", "-m", "cpu_time," + said]):
            said_of_it = exits(fleet, 2, *args)
            ensure("%s is meant" % metric, "did you mean '%s'?" % metric in said_of_it, said_of_it)
    fleet.wait_for("samples of the agent", lambda: len(fleet.ask("history", "--name", "procfleet-agent*", expect=None)) > 1)
    for args in (["-m", "cpu_time,thread_count"], ["-m", "cpu_time", "-m", "thread_count"]):
        rows = fleet.ask("history", "--name", "procfleet-agent*", *args, expect=None)  # some may be of one that just ended
        ensure("both metrics", any({"cpu_time", "thread_count"} <= row.keys() for row in rows), rows[-1])
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # the same moment for both
    kinds = [["--kind", "process_start,process_stop"], ["-k", "process_start", "-k", "process_stop"]]

    def same():  # some of that moment may still be on its way
        lists = [fleet.ask("events", *args, "--since", "1h", "--until", until, "-n", "5", expect=None) for args in kinds]
        return lists[0] and lists[0] == lists[1]

    fleet.wait_for("kinds in a list and one by one to be the same", same)
    said = fleet.cli("subscriptions", expect=None)
    ensure("whose subscriptions are not there", "none of yours" in said[1] + said[2], said)
    fleet.issue("admin", "chief")
    said = fleet.cli("subscriptions", who="chief", expect=None)
    ensure("nor anybody's", "there is none" in said[1] + said[2] and "yours" not in said[1] + said[2], said)


def completes_hosts(fleet):
    """--host offers what the collector has, and is silent without one."""
    tls = fleet.tls("operator")
    env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"], PROCFLEET_CERT=tls["cert"],
               PROCFLEET_KEY=tls["key"], PATH=BIN + ":" + os.environ["PATH"])
    bash = "source <(procfleet completion bash); COMP_WORDS=(procfleet top --host l); COMP_CWORD=3; _procfleet; echo \"${COMPREPLY[@]}\""
    zsh = "autoload -U compinit; compinit -D; source <(procfleet completion zsh); compadd() { shift; echo $@ }; _procfleet__hosts"
    for shell, script in (("bash", bash), ("zsh", zsh)):
        if not shutil.which(shell):
            continue
        for address, offered in (("127.0.0.1:" + fleet.ports["query"], "live"), ("127.0.0.1:1", "")):
            done = subprocess.run([shell, "-c", script], env=dict(env, PROCFLEET_COLLECTOR=address), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
            check("%s offers the hosts of %s" % (shell, address), (done.stdout.decode().strip(), done.stderr), (offered, b""))
    # What stands on the line wins: bash cuts words at "=" and ":", zsh does not.
    address = "127.0.0.1:" + fleet.ports["query"]
    cut = ["--collector", "127.0.0.1", ":", fleet.ports["query"], "--ca", "=", tls["ca"], "--cert=" + tls["cert"], "--key", tls["key"], "-n", "3"]
    lines = {"bash": "source <(procfleet completion bash); COMP_WORDS=(procfleet top %s --host l); COMP_CWORD=%d; _procfleet; echo \"${COMPREPLY[@]}\""
                     % (" ".join(cut), len(cut) + 3),
             "zsh": "autoload -U compinit; compinit -D; source <(procfleet completion zsh); compadd() { shift; echo $@ }; "
                    "words=(top --collector=%s --ca %s --cert=%s --key %s -n 3 --host l); CURRENT=$#words; _procfleet__hosts"
                    % (address, tls["ca"], tls["cert"], tls["key"])}
    for shell, script in lines.items():
        if shutil.which(shell):
            bare = {k: v for k, v in env.items() if not k.startswith("PROCFLEET_")}
            done = subprocess.run([shell, "-c", script], env=bare, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
            check("%s asks the collector of the line" % shell, (done.stdout.decode().strip(), done.stderr), ("live", b""))


def series(fleet):
    """Series add up to what Top says of the same window, in every format; options that do not go together are refused."""
    host = fleet.wait_for("some seconds of data", lambda: [h for h in fleet.hosts().values()
                                                           if h["last_time"] - h["first_time"] > 8 * 10**9])[0]
    form = "%Y-%m-%dT%H:%M:%SZ"
    until = host["last_time"] // 10**9  # what came till then does not change any more
    window = ["--since", time.strftime(form, time.gmtime(until - 6)), "--until", time.strftime(form, time.gmtime(until))]
    buckets = ["history", "--group-by", "fleet", "--step", "1s", "-m", "cpu_time,thread_count", *window]
    rows = fleet.ask(*buckets, expect=None)
    total = fleet.ask("top", "--group-by", "fleet", "--by", "cpu_time", *window, expect=None)
    check("a row for each second", len(rows), 6)
    check("CPU of the buckets", sum(r.get("cpu_time", 0) for r in rows), total[0]["cpu_time"])
    ensure("and threads", all(("thread_count" in r) == (r["hosts_in"] == 1) for r in rows), rows)
    images = fleet.ask("history", "--group-by", "image", "-n", "2", "--step", "1s", "-m", "cpu_time", *window, expect=None)
    check("of two images and the others", sum(r.get("cpu_time", 0) for r in images), total[0]["cpu_time"])
    ensure("of which two have names", len({r["name"] for r in images if not r["others"]}) == 2, images)
    shown = fleet.cli(*buckets, expect=None)[1].splitlines()
    check("a line for each metric", [line.split()[:2] for line in shown[1:3]], [["fleet", "cpu_time"], ["fleet", "thread_count"]])
    check("and a character for each bucket", [len(line.split()[-1]) for line in shown[1:3]], [6, 6])
    for args in (["--buckets", "5"], ["--group-by", "image", "--plot", "spark"], ["--group-by", "tree"],
                 ["--group-by", "image", "--buckets", "5000"], ["--group-by", "image", "--folded"]):
        exits(fleet, 2, "history", *args)
    ensure("too much is refused with the way out", "fewer" in exits(fleet, 2, "history", "--group-by", "process", "-n", "4096",
                                                                    "--buckets", "4096", "--since", "1h", "-m", "cpu_time"))


def views(fleet):
    """Groups, orders, the tree and the overview agree with the plain list of processes."""
    def look():  # other agents of this machine may come and go
        agents = fleet.ask("ps", "--name", "procfleet-agent*", expect=None)
        rows = fleet.ask("tree", expect=None)
        depth = {r["pid"]: r["depth"] for r in rows}
        return next(((agent, rows, depth) for agent in agents if agent["pid"] in depth), None)

    agent, rows, depth = fleet.wait_for("the tree to have an agent", look)
    ensure("below its parent", agent["parent_pid"] not in depth or
           depth[agent["pid"]] == depth[agent["parent_pid"]] + 1)
    check("a tree of one", {r["pid"]: r["depth"] for r in fleet.ask("tree", "--pid", hex(agent["pid"]), expect=None)
                            if r["pid"] == agent["pid"]}, {agent["pid"]: 0})
    check("long ago nothing lived", fleet.ask("tree", "--at", "2020-01-01T00:00:00Z", expect=5), [])
    host = fleet.wait_for("some seconds of data", lambda: [h for h in fleet.hosts().values()
                                                           if h["last_time"] - h["first_time"] > 3 * 10**9])[0]
    until = host["last_time"] // 10**9
    window = ["--until", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until)), "--by", "thread_count", "-n", "4096"]

    def by(what):
        return fleet.ask("top", "--group-by", what, *window, expect=None)

    def unchanged():  # a process's end may be reported after the window's last sample: then the sums are asked for again
        total = by("host")
        grouped = {what: by(what) for what in ("image", "user")}
        return (total, grouped) if by("host") == total else None
    total, grouped = fleet.wait_for("sums that no late end changes", unchanged)
    check("one host", [r["host"] for r in total], ["live"])
    for what, rows in grouped.items():
        ensure("%ss are those of one host" % what, all(r["hosts"] == 1 for r in rows))
        check("threads of all %ss" % what, sum(r["thread_count"] for r in rows), total[0]["thread_count"])
    trees = fleet.ask("top", "--group-by", "tree", "--include-exited", "-n", "4096", expect=None)
    ensure("trees hold others", agent["pid"] in [r["pid"] for r in trees])
    for way in ("sum", "rate", "max", "avg"):
        ensure("top by %s" % way, fleet.ask("top", "--by", "cpu_time", "--as", way, expect=None))
    fleet.cli("top", "--by", "thread_count", "--as", "rate", expect=2)
    seen = fleet.ask("overview", expect=None)[0]
    check("hosts and those connected", (seen["hosts"], seen["connected"]), (1, 1))
    ensure("processes and bytes", seen["processes"] > 1 and seen["log_bytes"] > 0)
    fleet.issue("query", "one-host", "pki", None, "--scope", "live*")
    seen = fleet.ask("overview", expect=None, who="one-host")[0]
    check("the store is not told to a scope, nor called empty", (seen["hosts"], "log_bytes" in seen, "refusing" in seen), (1, False, False))
    ensure("nor in words", "in memory" not in fleet.cli("overview", expect=None, who="one-host")[1])
    for form in ("table", "csv"):
        for args in (["tree"], ["overview"], ["top", "--group-by", "image"], ["top", "--as", "max", "--by", "handle_count"]):
            ensure("%s as %s" % (args, form), len(fleet.cli(*args, "--format", form, expect=None)[1].splitlines()) > 1)


def plain_json(fleet):
    """What a program reads: one type a key, no number that a double cannot hold, shares as a percent."""
    def ask(*args):
        return json.loads(fleet.cli(*args, "--format", "json", expect=None)[1])

    def every(value):
        return [w for v in (value.values() if isinstance(value, dict) else value) for w in every(v)] if isinstance(value, (dict, list)) else [value]

    top, host, over, past = ask("top", "-n", "3"), ask("hosts"), ask("overview"), ask("history", "--name", "procfleet-agent*")
    ensure("an answer is an array of rows", all(isinstance(a, list) and a for a in (top, host, over, past)))
    for key, rows in (("cpu_time", top), ("start", top), ("create_time", top), ("last_time", host), ("certificate_end_time", host),
                      ("time", past), ("raw_age_ns", over)):
        ensure("%s is a string of digits" % key, all(isinstance(r[key], str) and r[key].isdigit() for r in rows if key in r) and
               any(key in r for r in rows), rows)
    for key, rows in (("pid", top), ("thread_count", top), ("working_set_size", top), ("batches", host), ("disk_free_bytes", over)):
        ensure("%s is a number" % key, all(isinstance(r[key], int) for r in rows if key in r) and any(key in r for r in rows), rows)
    shares = [r["cpu_percent"] for r in top + past if "cpu_percent" in r]
    ensure("shares have decimals", shares and all(isinstance(s, float) and s == round(s, 1) for s in shares), shares)
    ensure("and are a percent of a CPU", max(shares) <= 100 * (os.cpu_count() + 1), shares)
    numbers = [v for v in every([top, host, over, past]) if isinstance(v, (int, float))]
    ensure("no number exceeds 2^53", numbers and max(map(abs, numbers)) <= 2**53, max(numbers))


def on_terminal(fleet, *args, columns=0, who="operator"):
    """What a terminal gets to see of the command, and its exit code."""
    tls = fleet.tls(who)
    pid, terminal = pty.fork()
    if pid == 0:
        while columns and os.get_terminal_size(1).columns != columns:
            time.sleep(0.01)
        os.environ.update(PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"], PROCFLEET_CERT=tls["cert"],
                          PROCFLEET_KEY=tls["key"], TERM="xterm", NO_COLOR="1")
        os.execv(os.path.join(BIN, "procfleet"), ["procfleet", *args])
    if columns:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    text = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    os.close(terminal)
    return re.sub("\r+\n", "\n", text.decode(errors="replace")), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def tables_fit(fleet):
    """No line is wider than the terminal; nothing is cut elsewhere."""
    for args in (["hosts"], ["top"], ["ps"], ["tree"], ["events"], ["coverage"], ["overview"], ["history", "--name", "procfleet-agent*", "-n", "5",
                                                                                                   "--plot", "none"]):
        for columns in (40, 80, 132):
            seen, _ = on_terminal(fleet, *args, columns=columns)
            table = [line for line in seen.splitlines() if "  " in line and not line.startswith(("data", "hosts ", "processes ", "received ", "in memory",
                                                                                                  "on disk", "sealed", "next to"))]
            ensure("%s fits %d columns" % (args[0], columns), table and max(map(len, table)) <= columns, seen)
    seen, _ = on_terminal(fleet, "admin", "status", columns=80, who="chief")
    ensure("a figure's name is whole", "procfleet_start_time_seconds " in seen and not re.search("procfleet_\\w*\u2026", seen), seen)
    seen, _ = on_terminal(fleet, "ps", columns=60)
    ensure("what is left out is named", re.search("no room for .*STARTED.*; --wide shows all", seen) and "\u2026" in seen, seen)
    wide, _ = on_terminal(fleet, "ps", "-w", columns=60)
    for text in (wide, fleet.cli("ps", expect=None)[1]):
        ensure("and shown with --wide, and where there is no terminal", "STARTED" in text and "\u2026" not in text and "no room" not in text, text)


def hostile_names(fleet):
    """A process names itself so that a terminal would do what it says; programs get the name as it is."""
    evil = "\x1b[2J\u202exe\u200b\x07"
    child = subprocess.Popen([evil + "z\u0301\u0302\u0303\u0304\u0305\u0306", "300"], executable="/bin/sleep", stdin=subprocess.DEVNULL)
    try:
        asked = ["ps", "--pid", str(child.pid)]
        fleet.wait_for("the process", lambda: fleet.ask(*asked, expect=None))
    finally:
        child.kill()
        child.wait()
    asked += ["--all", "--since", "5m"]
    for form in ("table", "json", "csv"):
        seen, code = on_terminal(fleet, *asked, "--format", form)
        ensure("%s on a terminal: nothing steers it" % form, code in (0, 5) and str(child.pid) in seen and
               not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]|[\u0300-\u036f]{5}", seen), (code, seen))
    text = fleet.cli(*asked, "--format", "csv", expect=None)[1]
    ensure("CSV for a program is exact", evil in text, text)


def refusals(fleet):
    agent, nobody = fleet.issue("agent", "spy"), "127.0.0.1:1"
    said = exits(fleet, 1, "hosts", "--ca", fleet.path("nowhere.pem"))
    ensure("a file that is not there leads to its option", "nowhere.pem: not found; --ca" in said, said)
    said = exits(fleet, 3, "hosts", "--collector", nobody)
    check("the address is named once", said.count(nobody), 1)
    ensure("and what to look at", "see that the collector runs there" in said, said)
    said = exits(fleet, 4, "hosts", "--collector", "127.0.0.1:" + fleet.ports["ingest"])
    ensure("another listener's port is thought of", "another listener's port" in said, said)
    said = exits(fleet, 4, "hosts", "--collector", "127.0.0.1:" + fleet.ports["enroll"])
    ensure("the enroll listener's, too", "another of its listeners" in said, said)
    exits(fleet, 4, "hosts", "--cert", agent["cert"], "--key", agent["key"])
    exits(fleet, 4, "tail", "--for", "5s", "--events", "127.0.0.1:" + fleet.ports["events"])
    exits(fleet, 4, "tail", "--for", "5s", "--cert", agent["cert"], "--key", agent["key"])
    exits(fleet, 0, "tail", "--for", "1s")
    exits(fleet, 5, "top", "--host", "nosuch")


def profiles(fleet):
    """A file instead of options; what is wrong with it is said with file, line and profile."""
    tls, path = fleet.tls("operator"), fleet.path("config.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write("default_profile: lab\nprofiles:\n  lab:\n    collector: 127.0.0.1:%s\n    ca: %s\n    cert: %s\n    key: %s\n"
                "    format: json\n  dead: {collector: '127.0.0.1:1', ca: x, cert: y, key: z}\n"
                % (fleet.ports["query"], tls["ca"], tls["cert"], tls["key"]))

    def run(code, *args, **variables):
        return fleet.run("procfleet", *args, env=dict(PROCFLEET_CONFIG=path, **variables), expect=code)[1:3]

    check("hosts of the default profile", [h["host"] for h in json.loads(run(0, "hosts")[0])], ["live"])
    ensure("an option is stronger", run(0, "hosts", "--format", "csv")[0].startswith("host,"))
    rows = {r["setting"]: r for r in json.loads(run(0, "config", "show", "--timeout", "7s", PROCFLEET_HOST="l*")[0])}
    check("where settings are from", [rows[k]["from"].rsplit("/", 1)[-1] for k in ("collector", "timeout", "host", "events")],
          ["config.yaml:4: profile lab", "--timeout", "PROCFLEET_HOST", "default"])
    ensure("the likeliest profile", "did you mean 'dead'" in run(2, "hosts", "--profile", "dad")[1])
    ensure("a missing file is named", "nosuch.yaml" in run(2, "hosts", "--config", "nosuch.yaml")[1])
    key = fleet.path("open.key")
    shutil.copy(tls["key"], key)
    os.chmod(key, 0o644)
    ensure("a key that others can read is refused", "chmod 600" in exits(fleet, 1, "hosts", "--key", key))


def output(fleet):
    tls = fleet.tls("operator")
    env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"],
               PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
    for form in ("table", "json", "csv"):
        with open("/dev/full", "w") as full:
            done = subprocess.run([os.path.join(BIN, "procfleet"), "hosts", "--format", form], env=env, stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
        check("a full disk under the answer is an error (%s)" % form, done.returncode, 1)


def lost_stream(fleet):
    """tail says that the collector went away and came back, and that its output is not the whole."""
    tls = fleet.tls("subscriber")
    env = dict(os.environ, PROCFLEET_EVENTS="127.0.0.1:" + fleet.ports["events"], PROCFLEET_CA=tls["ca"],
               PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"])
    with open(fleet.path("samples.csv"), "wb") as rows:
        tail = subprocess.Popen([os.path.join(BIN, "procfleet"), "tail", "--samples", "--format", "csv"], env=env,
                                stdout=rows, stderr=subprocess.PIPE)
    fleet.wait_for("the first samples", lambda: os.path.getsize(fleet.path("samples.csv")))
    fleet.collector.kill()
    fleet.collector.wait()
    ensure("the loss is told", b"lost" in tail.stderr.readline())
    fleet.start_collector()
    ensure("the return is told", b"again" in tail.stderr.readline())
    size = os.path.getsize(fleet.path("samples.csv"))
    fleet.wait_for("samples of the new stream", lambda: os.path.getsize(fleet.path("samples.csv")) > size)
    tail.send_signal(signal.SIGINT)
    check("Ctrl-C ends it as partial", tail.wait(timeout=30), 5)


def settings(fleet):
    """Both programs tell a wrong setting from a failure, and by the same code."""
    for program in ("procfleet-agent", "procfleet-collector"):
        for args in (["-c", fleet.path("missing.yaml")], ["--set", "no.such.key=1"], ["--set", "log.level=loud"],
                     ["--set", "nonsense"], ["--bogus"]):
            ensure("a sentence is said", fleet.run(program, "run", *args, expect=2)[2].strip())
        fleet.run(program, "run", "--set", ("state_dir=" if program == "procfleet-agent" else "data_dir=") + "/dev/null/x",
                  *(["--set", "collector.addresses=127.0.0.1:1"] if program == "procfleet-agent" else []), expect=1)


def doctor(fleet):
    """The doctor's exit code tells whose the trouble is, and its JSON parses."""
    args = fleet.agent_args("patient")
    found = json.loads(fleet.run("procfleet-agent", "doctor", *args, "--format", "json")[1])
    check("nothing failed", [f for f in found if f["state"] == "failed"], [])
    ensure("the collector answered", [f for f in found if f["check"] == "collector" and f["state"] == "ok"])
    ensure("the text names the fix", " fix: " in fleet.run("procfleet-agent", "doctor", *args, "--set", "tls.key=/nowhere",
                                                           expect=1)[1])
    fleet.run("procfleet-agent", "doctor", *args, "--set", "collector.addresses=127.0.0.1:1", expect=3)
    fleet.run("procfleet-agent", "doctor", *args, "--set", "collector.server_name=other.example", expect=4)
    fleet.run("procfleet-agent", "doctor", *args, "--set", "no.such=1", expect=2)
    unit = fleet.run("procfleet-agent", "service", "unit", "--config", "agent.yaml")[1]
    ensure("a service, which begins elsewhere, finds its settings", '--config "%s"' % os.path.abspath("agent.yaml") in unit, unit)
    fleet.run("procfleet-agent", "doctor", "--format", "xml", expect=2)


def stops(fleet):
    """An agent whose collector is away, or stuck, still stops; a second signal hurries it."""
    late = fleet.start_agent("late", batch__max_age="500ms")
    fleet.wait_for("an acknowledged batch", lambda: fleet.hosts().get("late"))
    fleet.collector.send_signal(signal.SIGSTOP)
    time.sleep(1)  # a batch gets under way
    begun = time.monotonic()
    check("a stopped agent's exit code, the collector stuck", fleet.stop(late), 0)
    ensure("within the grace", time.monotonic() - begun < 8, "%.1f s" % (time.monotonic() - begun))
    ensure("the loss is told", re.search(r"warn .*agent stopped .*undelivered=[1-9]", fleet.log("agent-late.log")))
    fleet.collector.kill()
    fleet.collector.wait()
    before = fleet.log("agent-late.log").count("uplink unreachable")
    late = fleet.start_agent("late", batch__max_age="500ms")
    fleet.wait_for("the agent to notice", lambda: fleet.log("agent-late.log").count("uplink unreachable") > before)
    late.send_signal(signal.SIGTERM)
    fleet.wait_for("the agent to say that it waits", lambda: "agent draining" in fleet.log("agent-late.log"))
    begun = time.monotonic()
    check("a hurried agent's exit code", fleet.stop(late), 0)
    ensure("at once", time.monotonic() - begun < 3, "%.1f s" % (time.monotonic() - begun))


with Fleet() as fleet:
    fleet.start_collector()
    fleet.start_agent("live", batch__max_age="500ms")
    fleet.wait_for("the first data", lambda: fleet.hosts().get("live"))
    usage(fleet)
    views(fleet)
    series(fleet)
    plain_json(fleet)
    guesses(fleet)
    completes_hosts(fleet)
    tables_fit(fleet)
    hostile_names(fleet)
    profiles(fleet)
    refusals(fleet)
    output(fleet)
    lost_stream(fleet)
    settings(fleet)
    doctor(fleet)
    stops(fleet)
sys.exit(0)
