"""Tables of the agent, the collector and the tool for recordings fit the terminal they are printed on; --wide, a file or a pipe
shows all. Those of the operator's command: e2e_cli."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

from fleet import BIN, Fleet, corpus

LIMIT = 60  # seconds that any command may take on a busy machine
failures = []


def ensure(what, ok, seen):
    if not ok:
        failures.append("%s: %s" % (what, seen))


def piped(*args):
    r = subprocess.run([os.path.join(BIN, args[0]), *args[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", timeout=LIMIT)
    ensure("%s works" % " ".join(args), r.returncode == 0, r.stderr)
    return r.stdout


def on_terminal(columns, *args):
    """What a terminal of so many columns gets to see."""
    pid, terminal = pty.fork()
    if pid == 0:
        while os.get_terminal_size(1).columns != columns:
            time.sleep(0.01)
        os.environ.update(TERM="xterm", NO_COLOR="1")
        os.execv(os.path.join(BIN, args[0]), args)
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
    ensure("%s works on a terminal" % " ".join(args), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, text)
    text = re.sub(r"\r[^\n]*\x1b\[K", "", text.decode(errors="replace"))  # progress
    return re.sub("\r+\n", "\n", text)


def table(text, title):
    """The lines from the one with this title on: what stands above is text."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if title in line), len(lines))
    return [line for line in lines[at:] if line and not line.startswith("no room for ")]


def widest(text, title):
    """0 when there is no table."""
    return max(map(len, table(text, title)), default=0)


def fits(title, keeps, *args):
    for columns in (40, 80, 120):
        seen = on_terminal(columns, *args)
        ensure("%s fits %d columns" % (" ".join(args), columns), 0 < widest(seen, title) <= columns, seen)
    seen = on_terminal(80, *args)
    for word in keeps:
        ensure("%s keeps %s" % (" ".join(args), word), word in seen, seen)
    wide = on_terminal(40, *args, "--wide")
    ensure("%s --wide cuts nothing" % " ".join(args), "\u2026" not in wide and "no room for" not in wide and widest(wide, title) > 40, wide)


def same(*args):
    """What does not change from one run to the next: --wide on a terminal is what a pipe gets."""
    ensure("%s in a pipe" % " ".join(args), on_terminal(40, *args, "-w") == piped(*args), "differs")


def collector(fleet):
    room, pki, program = fleet.path(""), fleet.path("pki"), "procfleet-collector"
    fleet.start_collector()
    fleet.stop(fleet.collector)
    for name in ("a-host-with-a-name-that-nobody-would-give-it", "b"):
        piped(program, "pki", "issue", "--dir", pki, "--role", "agent", "--name", name, "--out", os.path.join(room, "certs"))
    piped(program, "pki", "issue", "--dir", pki, "--role", "query", "--name", "alice", "--scope", "web-*", "--out", os.path.join(room, "certs"))
    piped(program, "pki", "token", "create", "--dir", pki, "--name", "a-pattern-of-names-that-is-long-*")
    fits("NAME", ["NAME", "ROLE", "DAYS LEFT", "STATE", "alice"], program, "pki", "list", "--dir", pki, "--all")
    fits("STATE", ["ID", "FOR", "STATE"], program, "pki", "token", "list", "--dir", pki, "--all")
    same(program, "pki", "list", "--dir", pki)
    same(program, "pki", "token", "list", "--dir", pki)
    data = fleet.path("data")
    fits("KIND", ["KIND", "SIZE", "SHARE"], program, "store", "stats", "--set", "data_dir=" + data)
    fits("KIND", ["KIND", "DAMAGED FILES", "LOST"], program, "store", "check", "--set", "data_dir=" + data)


def agent():
    title = "NAME"
    for columns in (40, 80, 120):
        seen = on_terminal(columns, "procfleet-agent", "watch", "--for", "1200ms", "--interval", "500ms")
        ensure("watch fits %d columns" % columns, 0 < widest(seen, title) <= columns, seen)
    seen = on_terminal(80, "procfleet-agent", "watch", "--for", "700ms", "--interval", "500ms")
    for word in ("PID", "NAME", "CPU TIME", "MEMORY"):
        ensure("watch keeps " + word, word in table(seen, title)[0], seen)
    seen = on_terminal(40, "procfleet-agent", "watch", "--for", "700ms", "--interval", "500ms", "-w")
    ensure("watch --wide has all", "WRITTEN" in seen and "no room" not in seen, seen)


def recordings():
    small, full = corpus("public/CldFlt0.etl"), corpus("public/net.4.5.x86-win7.etl.xz")
    fits("RECORDS", ["RECORDS", "PROVIDER"], "procfleet-agent", "etl", "info", small)
    fits("RECORDS", ["RECORDS", "PROVIDER", "ID", "NAME"], "procfleet-agent", "etl", "summary", full)
    fits("PID", ["PID", "NAME", "COMMAND"], "procfleet-agent", "etl", "processes", full)
    fits("PID", ["PID", "PROCESS"], "procfleet-agent", "etl", "threads", full)
    same("procfleet-agent", "etl", "processes", full)


def main():
    with Fleet() as fleet:
        collector(fleet)
    agent()
    recordings()
    for f in failures:
        print("FAILED: " + f)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
