#!/usr/bin/env python3
"""The live view on a real terminal: tmux presses the keys, and what it shows is read back."""

import os
import shlex
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fleet import BIN, Fleet, check, ensure, skip  # noqa: E402


class Terminal:
    """One window of a tmux of its own, with a plain shell in it."""

    def __init__(self, fleet):
        tls = fleet.tls("operator")
        env = dict(os.environ, PROCFLEET_COLLECTOR="127.0.0.1:" + fleet.ports["query"], PROCFLEET_CA=tls["ca"],
                   PROCFLEET_CERT=tls["cert"], PROCFLEET_KEY=tls["key"], LC_ALL="C.UTF-8", ENV="", PS1="$ ",
                   PATH=os.path.abspath(BIN) + os.pathsep + os.environ["PATH"])
        env.pop("TMUX", None)
        env.pop("NO_COLOR", None)
        self.fleet = fleet
        self.socket = fleet.path("tmux")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh", "-i", env=env)
        self.tmux("set-option", "-g", "escape-time", "0")

    def tmux(self, *args, env=None):
        done = subprocess.run(["tmux", "-u", "-S", self.socket, *args], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        if done.returncode:
            print("FAILED: tmux %s: %s" % (" ".join(args), done.stderr.decode()))
            sys.exit(1)
        return done.stdout.decode()

    def shown(self):
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def command(self, text):
        self.type(text)
        self.keys("Enter")

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait(self, what, condition):
        last = [""]

        def good():
            last[0] = self.shown()
            return condition(last[0])

        try:
            self.fleet.wait_for(what, good)
        except SystemExit:
            print(last[0])
            raise
        print("ok:", what)

    def wait_for(self, *texts, without=()):
        self.wait("the screen shows %s" % ", ".join(repr(t) for t in texts) + "".join(" and not %r" % t for t in without),
                  lambda s: all(t in s for t in texts) and not any(t in s for t in without))

    def shell_result(self, command, name):
        """What a command of the shell writes into a file; waits for it."""
        path = self.fleet.path(name)
        self.command("%s > %s.new; mv %s.new %s" % (command, path, path, path))
        self.fleet.wait_for("the shell to answer", lambda: os.path.exists(path))
        with open(path) as f:
            text = f.read()
        os.remove(path)
        return text

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def orders_and_groups(t):
    t.wait_for("by cpu_percent", "group process", "lab-1", "hosts 1 connected", "CPU%")
    t.keys("m")
    t.wait_for("by working_set_size")
    t.keys(">")
    t.wait_for("by read_bytes")
    t.keys("g")
    t.wait_for("group image", "PROCS HOSTS", without=("PID",))
    for group in ("user", "host", "tree", "process"):
        t.keys("g")
        t.wait_for("group " + group)
    t.keys("?")
    t.wait_for("any key goes back")
    t.keys("x")
    t.wait_for("by read_bytes", "lab-1", without=("any key goes back",))


def filters(t, fleet):
    name = "\x1b[31mbad"
    shutil.copy(shutil.which("sleep"), fleet.path(name))
    hostile = subprocess.Popen([fleet.path(name), "1000"])
    fleet.processes.append(hostile)
    t.keys("/")
    t.wait_for("name (glob or part")
    t.type("]31mbaX")
    t.keys("BSpace")
    t.wait_for("all): ]31mba")
    t.keys("C-u")
    t.type("31mba")
    t.keys("Enter")
    t.wait_for("name *31mba*", "\\x1b[31mbad", str(hostile.pid))
    hostile.kill()
    hostile.wait()
    t.keys("/", "C-u")
    t.type("procfleet-agent")
    t.keys("Enter")
    t.wait("only the agents are left", lambda s: "*procfleet-agent*" in s and "lab-1" in s and
           all("procfleet-a" in line for line in s.splitlines() if " lab-1 " in line))
    t.keys("h")
    t.type("nobody-*")
    t.keys("Enter")
    t.wait_for("host nobody-*", "no process fits")
    t.keys("h", "C-u", "Enter")
    t.wait_for("procfleet-agent", "lab-1", without=("host nobody",))


def pages(t):
    t.tmux("set-buffer", "qqq\rq")
    t.tmux("paste-buffer", "-p", "-r")
    t.keys("Enter")
    t.wait_for("procfleet-agent on lab-1", "parents", "thread_count", "command")
    t.keys("Escape")
    t.wait_for("by read_bytes", "Enter details")
    t.keys("e")
    t.wait_for("Events of lab-1 in the last 15min", "process_start")
    t.keys("Escape")
    t.wait_for("Enter details")
    t.keys("Space")
    t.wait_for("paused")
    t.keys("Space")
    t.wait_for("connected", without=("paused",))


def sizes(t):
    t.resize(20, 5)
    t.wait("five lines of twenty columns are enough", lambda s: len(s.splitlines()) == 5 and "NAME" in s and "procfle" in s)
    t.resize(140, 40)
    t.wait_for("COMMAND", "WRITTEN/s", "by read_bytes")


def stops(t, before):
    t.keys("C-z")
    t.wait_for("MARKER-42", without=("by read_bytes",))
    check("a stopped view leaves the terminal as it was", t.shell_result("stty -g", "stopped"), before)
    t.command("fg; echo code=$?")
    t.wait_for("by read_bytes", "Enter details")


def loses_the_collector(t, fleet):
    fleet.collector.kill()
    fleet.collector.wait()
    t.wait_for("ago)", "procfleet-agent")
    fleet.start_collector()
    t.wait_for("connected", "hosts 1 connected", without=("ago)",))


def leaves(t, before):
    t.keys("q")
    t.wait_for("MARKER-42", "code=0", without=("by read_bytes",))
    check("the terminal is as it was", t.shell_result("stty -g", "after"), before)


def ends_by_signal(t, fleet, number, before):
    pid = fleet.path("pid")
    t.command("clear; sh -c 'echo $$ > %s; exec procfleet top --watch'; echo ended" % pid)
    t.wait_for("by cpu_percent", "hosts 1 connected")
    with open(pid) as f:
        os.kill(int(f.read()), number)
    t.wait_for("ended", without=("by cpu_percent",))
    check("the terminal is as it was after signal %d" % number, t.shell_result("stty -g", "after"), before)


def refuses(t, fleet):
    code, out, err = fleet.cli("top", "--watch", expect=2)
    check("without a terminal it says so", (out, "must be a terminal" in err), ("", True))
    t.command("clear; TERM=dumb procfleet top --watch; echo code=$?")
    t.wait_for("cannot be steered", "code=2")


def colours(t, fleet):
    t.resize(200, 40)
    t.command("clear; procfleet hosts")
    t.wait_for("STATE", "lab-1")
    ensure("tables have colours on a terminal", "\x1b[1m" in t.tmux("capture-pane", "-p", "-e"))
    t.command("clear; NO_COLOR=1 procfleet hosts; echo done-$((40 + 2))")
    t.wait_for("STATE", "lab-1", "done-42")
    ensure("and none with NO_COLOR", "\x1b[1m" not in t.tmux("capture-pane", "-p", "-e"))
    ensure("nor in a pipe", "\x1b" not in fleet.cli("hosts")[1])
    ensure("unless asked for", "\x1b[0;1mHOST" in fleet.cli("hosts", "--color", "always")[1])


def plots(t, fleet, agent):
    pid = str(agent.pid)
    fleet.wait_for("eight samples of the agent", lambda: len(fleet.ask("history", "--pid", pid, expect=None)) >= 8)
    t.command("clear; procfleet history --pid %s -m thread_count -n 1" % pid)
    t.wait_for("procfleet-agent %s on lab-1" % pid, "thread_count  min", "\u2524", "TIME")
    out = fleet.cli("history", "--pid", pid, "-m", "cpu_time", "--plot", "spark", expect=None)[1]
    ensure("a plot that is asked for takes the place of the table", "cpu_time per sample  min" in out and "TIME" not in out, out)
    out = fleet.cli("history", "--pid", pid, "-m", "cpu_time", expect=None)[1]
    ensure("a pipe gets the table alone", "per sample" not in out and "TIME" in out, out)


def narrowed(t):
    t.command("clear; procfleet top --watch --every 500ms --host lab-1 --host lab-2 --label 'image=v1*' "
              "--where 'name ~ \"procfleet-a*\"'")
    t.wait("only what fulfils the condition", lambda s: "hosts 1 connected" in s and " lab-1 " in s and
           all("procfleet-a" in line for line in s.splitlines() if " lab-1 " in line))
    t.keys("q")
    t.wait("the shell is back", lambda s: s.rstrip().endswith("$"))  # what is typed before goes to the view
    t.command("clear; procfleet top --watch --every 500ms --label 'image=v2*'")
    t.wait_for("no process fits")
    t.keys("q")


def main():
    if not shutil.which("tmux"):
        skip("tmux is not installed")
    with Fleet() as f:
        f.start_collector()
        agent = f.start_agent("lab-1", labels="image=v12")
        t = Terminal(f)
        try:
            before = t.shell_result("stty -g", "before")
            t.command("clear; echo MARKER-$((40 + 2)); %s; echo code=$?" % shlex.join(
                ["procfleet", "top", "--watch", "--every", "500ms"]))
            orders_and_groups(t)
            filters(t, f)
            pages(t)
            sizes(t)
            stops(t, before)
            loses_the_collector(t, f)
            leaves(t, before)
            ends_by_signal(t, f, signal.SIGTERM, before)
            ends_by_signal(t, f, signal.SIGSEGV, before)
            refuses(t, f)
            colours(t, f)
            narrowed(t)
            plots(t, f, agent)
        finally:
            t.close()


main()
