"""A Wine prefix of its own in which our sechost.dll and tdh.dll stand before Wine's: the agent is the one people install."""

import json
import os
import shutil
import signal
import subprocess
import sys

WINDOWS_BIN = os.environ["PROCFLEET_BIN"]
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, Fleet, check, ensure, read_json, skip  # noqa: E402,F401  (it reads the environment)

from prefix import WINE, WINESERVER, Prefix  # noqa: E402

SECHOST = os.path.join(WINDOWS_BIN, "tests", "sechost.dll")
AGENT = os.path.join(WINDOWS_BIN, "procfleet-agent.exe")
COLLISION = 91  # exit code: a recorded process has the agent's number


def windows(path):
    return "Z:" + path


def needs():
    """Skips, with the reason, where something is missing."""
    if not os.path.exists(os.path.join(BIN, "procfleet-collector")):
        skip("the collector is a Linux program: build the preset release first")
    if not WINESERVER:
        skip("there is no wineserver")
    if not os.path.exists(SECHOST):
        skip("sechost.dll was not built: Wine's own, which it forwards to, was not found")


class WineHost(Prefix):
    def __init__(self, fleet):
        super().__init__(fleet)
        self.fleet = fleet
        system = self.drive("windows", "system32")
        os.rename(os.path.join(system, "sechost.dll"), os.path.join(system, "sechost_real.dll"))
        shutil.copy(SECHOST, os.path.join(system, "sechost.dll"))
        shutil.copy(os.path.join(WINDOWS_BIN, "tests", "tdh.dll"), os.path.join(system, "tdh.dll"))
        self.env["WINEDLLOVERRIDES"] += ";sechost=n,b;tdh=n,b"


class Agent:
    """One agent with its script; as a host it is called `name`."""

    def __init__(self, host, name, script, *more, **settings):
        self.host, self.fleet, self.name = host, host.fleet, name
        self.script = dict(script, journal=windows(self.fleet.path(name + ".journal")))
        settings.setdefault("batch__max_age", "500ms")
        self.args = [a.replace("=/", "=Z:/") for a in self.fleet.agent_args(name, **settings)]
        self.more = more
        self.write()
        self.process = None
        self.start()

    def write(self):
        """The script, and another one for the doctor, who needs no recording."""
        for suffix, without in ((".script", ()), (".doctor.script", ("recording", "tables", "journal"))):
            with open(self.fleet.path(self.name + suffix), "w", encoding="ascii") as f:
                for key, value in self.script.items():
                    for one in value if isinstance(value, list) else [value]:
                        if key not in without:
                            f.write("%s=%s\n" % (key, one))

    def env(self, script):
        return dict(self.host.env, PROCFLEET_ETW_SCRIPT=windows(self.fleet.path(self.name + script)))

    def start(self):
        with open(self.fleet.path(self.name + ".log"), "ab") as log:
            self.process = subprocess.Popen([WINE, AGENT, "run", *self.args, *self.more], env=self.env(".script"),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.fleet.processes.append(self.process)

    def runs(self):
        """Waits until it has begun; again where it got the number of a recorded process."""
        for _ in range(5):
            self.fleet.wait_for("the agent to begin or give up", self.begun)
            if self.process.poll() != COLLISION:
                break
            self.start()
        ensure("%s runs" % self.name, self.process.poll() is None, self.log())

    def begun(self):
        return "begun" in self.journal() or self.process.poll() is not None

    def journal(self):
        try:
            return self.fleet.log(self.name + ".journal")
        except FileNotFoundError:
            return ""

    def log(self):
        return self.fleet.log(self.name + ".log")

    def stop(self):
        """Ctrl-C, as in a console: what it has is delivered first."""
        self.process.send_signal(signal.SIGINT)
        check("%s ends well" % self.name, self.process.wait(30), 0)

    def doctor(self):
        """What the doctor finds beside the running agent, in the same world."""
        with open(self.fleet.path(self.name + ".doctor"), "wb+") as out:
            subprocess.run([WINE, AGENT, "doctor", *self.args], env=self.env(".doctor.script"), stdin=subprocess.DEVNULL, stdout=out,
                           stderr=subprocess.DEVNULL, timeout=60, check=False)
            out.seek(0)
            return out.read().decode(errors="replace")

    # -- what the collector says of it --

    def ask(self, *args):
        return self.fleet.ask(*args, "--host", self.name, expect=None)

    def events(self, kinds="process"):
        return self.ask("events", "--kind", kinds, "-n", "20000")

    def state(self):
        return self.fleet.hosts().get(self.name, {})

    # -- what it says itself --

    def status(self):
        try:
            with open(self.fleet.path("agents", self.name, "status.json"), encoding="utf-8") as f:
                return json.load(f)
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def losses(self):
        """The loss ledger since the start: {"stage.reason": count}."""
        return {"%s.%s" % (row["stage"], row["reason"]): row["total"] for row in self.status().get("losses", [])}
