"""What the scripts real_*.py share: one Windows machine to try the agent on. They run on Windows as an administrator, by
.github/workflows/windows.yml. With --selfcheck they run on Linux against Wine, as far as Wine goes, which proves that they work."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SELFCHECK = "--selfcheck" in sys.argv
REFUSED = 77


def argument(i, default=None):
    plain = [a for a in sys.argv[1:] if not a.startswith("--")]
    return plain[i] if i < len(plain) else default


class Machine:
    """`failures` are told as they are found; the script goes on, so that one run tells all."""

    def __init__(self):
        self.failures = 0
        self.env = dict(os.environ)
        self.wine = None
        if SELFCHECK:
            if "WINE64" not in os.environ:
                print("skipped: there is no Wine")
                sys.exit(REFUSED)
            self.wine = os.environ["WINE64"]
            self.env.update(WINEDEBUG="-all", WINEDLLOVERRIDES="mscoree,mshtml=")  # WINEPREFIX is real_selfcheck's
        # At the top of C:, for a service trusts no directory in one that a person could move.
        self.top = os.path.join(self.env["WINEPREFIX"], "drive_c") if self.wine else os.environ["SystemDrive"] + os.sep
        self.dir = tempfile.mkdtemp(prefix="procfleet-real-", dir=self.top)
        bin_dir = os.environ.get("PROCFLEET_BIN", os.path.join(ROOT, "build", "windows", "bin"))
        self.exe = os.path.join(bin_dir, "procfleet-agent.exe")
        if not os.path.exists(self.exe):
            sys.exit("there is no %s" % self.exe)
        self.certs = os.environ.get("PROCFLEET_CERTS", os.path.join(ROOT, "certs"))
        if not self.wine:
            self.close()
        os.mkdir(self.path("bin"))
        self.exe = shutil.copy(self.exe, self.path("bin"))
        self.own()

    def close(self):
        """What a service takes must be administrators' alone: a checkout is open to every user, and so is what comes from it."""
        only = ["*S-1-5-18:(OI)(CI)F", "*S-1-5-32-544:(OI)(CI)F"]
        self.run("icacls", self.dir, "/inheritance:r", "/grant:r", *only, expect=0)
        if os.path.isdir(self.certs):
            self.certs = shutil.copytree(self.certs, self.path("certs"), copy_function=shutil.copyfile)

    def own(self):
        """The same of who owns it: a person is a stranger to the system's service."""
        if not self.wine:
            self.run("icacls", self.dir, "/setowner", "*S-1-5-32-544", "/t", "/q", expect=0)

    # -- saying --

    def check(self, what, right, detail=""):
        print("%s: %s%s" % ("ok" if right else "FAILED", what, "" if right or not detail else "\n  %s" % detail), flush=True)
        self.failures += not right
        return right

    def fact(self, text):
        """A figure for people; on GitHub also on the run's page."""
        print("fact: %s" % text, flush=True)
        if os.environ.get("GITHUB_STEP_SUMMARY"):
            with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as f:
                f.write("- %s\n" % text)

    def real(self, what):
        """Whether this is Windows; elsewhere it says what is left out."""
        if self.wine:
            print("not under Wine: %s" % what, flush=True)
        return not self.wine

    def end(self):
        if not self.failures:
            shutil.rmtree(self.dir, ignore_errors=True)
        print("%d failed" % self.failures)
        sys.exit(1 if self.failures else 0)

    # -- doing --

    def command(self, args):
        return [self.wine, *args] if self.wine else args

    def run(self, *args, expect=None, timeout=120):
        """(exit code, what it printed). Files, not pipes: children of services would keep them open."""
        with tempfile.TemporaryFile() as out:
            code = subprocess.run(self.command(list(args)), env=self.env, stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, timeout=timeout, check=False).returncode
            out.seek(0)
            text = out.read().decode(errors="replace")
        if expect is not None:
            self.check("%s gives %d" % (" ".join(os.path.basename(a) for a in args[:4]), expect), code == expect,
                       "%d: %s" % (code, text[-2000:]))
        return code, text

    def agent(self, *args, **more):
        return self.run(self.exe, *args, **more)

    def status(self, config):
        """What the running agent tells of itself, as status.json has it in one row; {} when there is none."""
        text = self.agent("status", "--config", config, "--format", "json")[1]
        try:
            return json.loads(text[text.index("["):text.rindex("]") + 1])[0]
        except (ValueError, IndexError):
            return {}

    def traces(self, config):
        """It has data, and not only from a polled table."""
        row = self.status(config)
        return row.get("state") not in (None, "never") and bool(row.get("source")) and not row.get("polled")

    def start(self, *args, to):
        with open(to, "wb") as out:
            return subprocess.Popen(self.command(list(args)), env=self.env, stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT)

    def powershell(self, text, expect=0):
        return self.run("powershell", "-NoProfile", "-NonInteractive", "-Command", text, expect=expect)[1]

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def windows(self, path):
        if not self.wine:
            return path
        return ("C:" + path[len(self.top):] if path.startswith(self.top) else "Z:" + path).replace("/", "\\")

    def settings(self, name, **more):
        """A configuration whose collector is a closed port: what is collected stays in the spool."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        rows = {"state_dir": self.windows(self.path(name)), "collector.addresses": "127.0.0.1:%d" % port,
                "tls.ca": self.windows(os.path.join(self.certs, "ca.pem")),
                "tls.cert": self.windows(os.path.join(self.certs, "real.pem")),
                "tls.key": self.windows(os.path.join(self.certs, "real.key"))}
        rows.update({k.replace("__", "."): v for k, v in more.items()})
        path = self.path(name + ".yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines("%s: '%s'\n" % row for row in rows.items())
        self.own()
        return self.windows(path)

    def wait(self, what, condition, seconds=60):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if condition():
                return self.check(what, True)
            time.sleep(0.5)
        return self.check(what, False, "not within %d s" % seconds)

    def lines(self, path):
        """JSON lines; the last one may be half written."""
        rows = []
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    pass
        return rows
