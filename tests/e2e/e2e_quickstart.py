"""scripts/quickstart by every way into it, on a terminal of 80 columns: from another directory, with recordings that hold no processes
or are none, on a machine that is called like a role, twice at once, interrupted, and where it cannot work: each refusal says why and
what to do, nothing is left running, and what it prints to be pasted works."""

import fcntl
import gzip
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request

from fleet import BIN, PATIENCE, ROOT, check, ensure, skip

CORPUS = os.environ.get("PROCFLEET_CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
RECORDING = os.path.join(CORPUS, "public", "SelfDescribingSingleEvent.etl")
QUICKSTART = os.path.join(os.path.realpath(ROOT), "scripts", "quickstart")
COLUMNS = 80
TMPFS = "mount -t tmpfs -o size=%s tmpfs \"$0\" && exec \"$@\""


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, where, *command):
        self.command = " ".join(command)
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
            os.chdir(where)
            os.execvp(command[0], command)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while True:
                got = os.read(self.fd, 65536)
                if not got:
                    return
                self.text += got.decode(errors="replace").replace("\r\n", "\n")
        except OSError:
            pass  # the other side is closed: the end

    def wait_for(self, words):
        end = time.monotonic() + 2 * PATIENCE
        while words not in self.text:
            if time.monotonic() > end or not self.reader.is_alive():
                ensure("%s says '%s'" % (self.command, words), False, self.text)
            time.sleep(0.05)

    def interrupt(self):
        os.write(self.fd, b"\x03")

    def end(self, expect):
        self.reader.join(240)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        ensure("%s: exit code %d" % (self.command, expect), code == expect, "%d\n%s" % (code, self.text))
        return self.text


def quickstart(where, *args, expect):
    return Terminal(where, QUICKSTART, *args).end(expect)


def paste(where, lines):
    """Into a new shell, as a person would."""
    done = subprocess.run(["sh", "-e"], input="\n".join(lines).encode(), cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=240, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def advised(text):
    """The lines that are printed to be pasted."""
    return re.findall(r"^  (\S.*)$", text.split("] Done\n")[1], re.M)


def refusals(work):
    """What cannot work is told at once, with cause and remedy, before anything is installed or built."""
    full, other = os.path.join(work, "full"), os.path.join(work, "other")
    for directory in (full, other):
        os.mkdir(directory)
    with open(os.path.join(other, "letter"), "w"):
        pass
    mode = os.stat(other).st_mode
    cases = ((["frob"], 2, ("unknown argument 'frob'", "--help")),
             (["--etl"], 2, ("--etl needs a file",)),
             (["--etl", "nowhere.etl"], 2, ("there is no file 'nowhere.etl'",)),
             (["--etl", work], 2, ("there is no file",)),
             (["--dir"], 2, ("--dir needs a directory",)),
             (["--keep", "--stop"], 2, ("exclude each other",)),
             (["--stop", "--dir", "nowhere"], 1, ("nothing to stop", "nowhere")),
             (["--dir", "/proc/nowhere"], 1, ("/proc/nowhere", "with --dir")),
             (["--dir", other], 1, ("holds other things", "with --dir")))
    for args, code, words in cases:
        text = quickstart(work, *args, expect=code)
        ensure("%s: cause and remedy" % args, all(w in text for w in words) and "[1]" not in text, text)
    check("a foreign directory stays as it is", (os.listdir(other), os.stat(other).st_mode), (["letter"], mode))
    if os.geteuid() == 0:
        text = Terminal(work, "unshare", "--mount", "sh", "-c", TMPFS % "8m", full, QUICKSTART, "--dir", full + "/run").end(1)
        ensure("a small disk is told", re.search(r"has room for \d MiB and needs \d+; make room, or name", " ".join(text.split())), text)
    else:
        print("not root: no small disk is tried")


def keeps(work):
    """Everything at once: another directory with a blank in it, relative names, a torn recording, two of one name."""
    directory = os.path.join(work, "a run")
    shutil.copy(RECORDING, os.path.join(work, "rec.etl"))
    os.mkdir(os.path.join(work, "more"))
    shutil.copy(RECORDING, os.path.join(work, "more", "rec.etl"))
    with open(os.path.join(work, "torn.etl"), "wb") as f:
        f.write(b"no recording")
    text = quickstart(work, "--keep", "--dir", "a run", "--etl", "rec.etl", "--etl", "torn.etl", "--etl", "more/rec.etl", expect=1)
    ensure("it says that there is nothing to show", text.count("rec.etl has no processes to show. It holds:") == 2, text)
    ensure("and which provider's events it holds", "events" in text.split("It holds:")[1], text)
    ensure("it says which replay failed", "replay-torn.log" in text, text)
    ensure("and only that", text.count("the replay failed") == 1, text)
    ensure("two recordings of one name are two hosts", "as host rec\n" in text and "as host rec-2\n" in text, text)
    ensure("it gets to its end", "Collector and agent go on running" in text, text)
    own = re.compile(r"\[\d+\] (?!Replaying|Making)|    127|(HOST|TIME) |%s |rec(-2)? |\d{4}-\d\d-\d\dT" % re.escape(os.uname().nodename))
    lines = re.sub(r"\x1b\[[0-9;]*[mK]", "", text).splitlines()
    check("tables and steps fit the terminal", [line for line in lines if own.match(line) and len(line) > COLUMNS], [])
    ensure("there are some", sum(bool(own.match(line)) for line in lines) > 20, text)

    told = quickstart(work, "--dir", "a run", expect=1)
    ensure("a second start says what runs and both ways on", "is running in" in told and "--stop" in told and "/env" in told, told)
    lines = advised(text)
    ensure("there is something to paste", len(lines) > 3 and lines[-1].endswith("--stop"), lines)
    tail = [line for line in lines if line == "procfleet tail"]
    ensure("tail among it", tail, lines)
    partial = " || [ $? = 5 ]"  # a host of a minute has not filled its window
    code, said = paste(work, lines[:1] + ["timeout 5 " + line if line in tail else line + partial for line in lines[1:-1]])
    ensure("what it says to paste works until tail, which goes on", code == 124, said)
    link = re.search(r"^http://127.0.0.1:(\d+)/#ticket=[0-9a-f]{32}$", text, re.M)
    ensure("it ends with the console's link", link and not text[link.end():].strip(), text)
    page = urllib.request.Request("http://127.0.0.1:%s/" % link.group(1), headers={"Accept-Encoding": "gzip"})
    ensure("which leads to the page", b"<!doctype html>" in gzip.decompress(urllib.request.urlopen(page).read()).lower())
    ensure("and shows this machine", "connected" in said and "process_start" in said, said)
    code, said = paste(work, lines[-1:])
    ensure("so does the line that stops it", code == 0 and "stopped" in said, said)
    ensure("and it is stopped", paste(work, [lines[0], "procfleet hosts"])[0] == 3)
    ensure("once more there is nothing to stop", "nothing runs in" in quickstart(work, "--stop", "--dir", directory, expect=0))


def named_like_a_role(work):
    """On a machine that is called collector; meanwhile a second one is started, and interrupted when it waits for its turn."""
    name = "collector"
    command = [QUICKSTART, "--dir", "b"]
    if os.geteuid() == 0:
        command = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name, *command]
    else:
        name = None
        print("not root: the machine keeps its name")
    first = Terminal(work, *command)
    first.wait_for("[3]")
    told = quickstart(work, "--dir", "b", expect=1)
    ensure("a second one at once is told", "another quickstart is at work in" in told and "--dir" in told, told)
    text = first.end(0)
    ensure("the machine's name is its host's", not name or "Top ten of collector" in text, text)
    ensure("it says how to keep it", advised(text)[0] == "%s --dir %s --keep" % (QUICKSTART, os.path.join(work, "b")), text)
    return os.path.join(work, "b")


def interrupted(work, directory):
    started = Terminal(work, QUICKSTART, "--dir", "b")
    started.wait_for("Waiting for data")
    started.interrupt()
    text = started.end(130)
    ensure("ctrl-C says what is left", "nothing is left running" in text and "Again: " in text, text)
    check("and leaves nothing running", [f for f in os.listdir(directory) if f.endswith(".pid")], [])


def main():
    if os.path.realpath(BIN) != os.path.realpath(os.path.join(ROOT, "build", "release", "bin")):
        skip("quickstart shows what stands in build/release")
    if not os.path.exists(RECORDING):
        skip("corpus not found (PROCFLEET_CORPUS names another place)")
    work = os.path.realpath(tempfile.mkdtemp(prefix="procfleet-quickstart-"))
    try:
        refusals(work)
        keeps(work)
        interrupted(work, named_like_a_role(work))
    finally:
        for directory in ("a run", "b"):
            if os.path.isdir(os.path.join(work, directory)):
                subprocess.run([QUICKSTART, "--stop", "--dir", os.path.join(work, directory)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(work, ignore_errors=True)
    return 0


sys.exit(main())
