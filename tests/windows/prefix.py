"""A Wine prefix of its own for one test. A sleeping program keeps it alive: Wine ends services with the last ordinary program."""

import fcntl
import os
import shutil
import subprocess
import tempfile

from fleet import ensure

WINE = os.environ["WINE64"]
WINESERVER = next((w for w in (shutil.which("wineserver"), "/usr/lib/wine/wineserver") if w and os.path.exists(w)), None)


def windows(path):
    return "Z:" + path.replace("/", "\\")


SETTINGS = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
TEMPLATE = os.path.realpath(os.path.join(os.environ["PROCFLEET_LINUX_BIN"], "..", "..", "wine-template"))  # in build/


def template():
    """A fresh prefix, made once in the build tree: making one takes ten seconds, copying it two. Anew with another Wine."""
    version = subprocess.run([WINE, "--version"], env=dict(os.environ, **SETTINGS), stdout=subprocess.PIPE, check=True).stdout
    ready, made = os.path.join(TEMPLATE, "ready"), os.path.join(TEMPLATE, "prefix")
    os.makedirs(TEMPLATE, exist_ok=True)
    with open(os.path.join(TEMPLATE, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(ready) or read(ready) != version:
            shutil.rmtree(made, ignore_errors=True)
            env = dict(os.environ, **SETTINGS, WINEPREFIX=made)
            with tempfile.TemporaryFile() as said:
                subprocess.run([WINE, "wineboot", "-i"], env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=120,
                               check=False)
                subprocess.run([WINESERVER, "-w"], env=env, timeout=60, check=True)  # or what is made now is lost
            with open(ready, "wb") as f:
                f.write(version)
    return made


def read(path):
    with open(path, "rb") as f:
        return f.read()


class Prefix:
    def __init__(self, fleet):
        self.dir = fleet.path("wine")
        self.env = dict(os.environ, **SETTINGS, WINEPREFIX=self.dir)
        shutil.copytree(template(), self.dir, symlinks=True)
        sleeper = subprocess.Popen([WINE, "cmd", "/c", "pause"], env=self.env, stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        fleet.processes.append(sleeper)

    def drive(self, *parts):
        return os.path.join(self.dir, "drive_c", *parts)

    def run(self, *args, expect=0, timeout=60):
        # Files, not pipes: Wine's own services start with the first program and keep its handles open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            done = subprocess.run([WINE, *args], env=self.env, timeout=timeout, stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=err, check=False)
            for f in (out, err):
                f.seek(0)
            out, err = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        ensure("%s gives %s" % (" ".join(os.path.basename(a) for a in args), expect), expect in (None, done.returncode),
               "%d\n%s\n%s" % (done.returncode, out, err))
        return out, err

    def cmd(self, script, *args, expect=0):
        return self.run("cmd", "/c", script, *args, expect=expect, timeout=120)

    def end(self):
        subprocess.run([WINESERVER, "-k"], env=self.env, timeout=30, check=False)
