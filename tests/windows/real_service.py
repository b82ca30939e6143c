"""real_service.py: the agent as a service of LocalSystem against a closed port: it traces, survives its killing without leaving
sessions behind, keeps its times through a step of the clock, is installed anew over itself, and goes without a trace."""

import json
import sys
import time

from real import Machine

SERVICE = "procfleet-agent"


def runs(machine):
    code, text = machine.agent("service", "status")
    return code == 0 and "running" in text


def pid(machine):
    text = machine.agent("service", "status")[1]
    words = text.replace(",", " ").split()
    return int(words[words.index("process") + 1]) if "process" in words else 0


def sessions(machine):
    return sorted(line.split()[0] for line in machine.run("logman", "query", "-ets")[1].splitlines()
                  if line.lower().startswith("procfleet"))


def killed(machine, config):
    """The service manager starts it again; its sessions are those of the new one, none is left behind."""
    before, old = sessions(machine), pid(machine)
    machine.check("it has sessions of its own", bool(before), before)
    machine.run("taskkill", "/f", "/pid", str(old), expect=0)
    machine.wait("it is started again", lambda: runs(machine) and pid(machine) not in (0, old), 60)
    machine.wait("the sessions are the same ones", lambda: sessions(machine) == before, 60)
    machine.wait("it traces", lambda: machine.traces(config), 60)


def stepped(machine, config):
    """Ten seconds forward and back: it goes on, and its file keeps up with the clock."""
    for seconds in (10, -10):
        machine.powershell("Set-Date -Adjust ([TimeSpan]::FromSeconds(%d)) | Out-Null" % seconds)
        machine.wait("after a step of %d s its file is written with the time of now" % seconds,
                     lambda: abs(int(machine.status(config).get("written_time", "0")) / 1e9 - time.time()) < 6, 60)
        machine.check("it runs and traces", runs(machine) and machine.traces(config))
        machine.fact("status after a step of %d s: %s" % (seconds, json.dumps(machine.status(config))))


def starts_with_the_system(machine):
    """And not minutes later, which Wine does not take."""
    text = machine.run("reg", "query", "HKLM\\SYSTEM\\CurrentControlSet\\Services\\" + SERVICE, expect=0)[1].lower()
    rows = {words[0]: words[2] for words in map(str.split, text.splitlines()) if len(words) == 3}
    machine.check("it starts with the system", rows.get("start") == "0x2" and rows.get("delayedautostart", "0x0") == "0x0", text)


def main():
    machine = Machine()
    config = machine.settings("service", batch__max_age="1s")
    machine.agent("service", "install", "--config", config, expect=0)
    starts_with_the_system(machine)
    machine.agent("service", "start", expect=0)
    machine.wait("it runs", lambda: runs(machine))
    machine.wait("it says how it fares", lambda: machine.status(config).get("state") not in (None, "never"))
    machine.fact("status: %s" % json.dumps(machine.status(config)))
    if machine.real("event tracing, recovery by the service manager, a step of the clock"):
        machine.wait("it traces from the start", lambda: machine.traces(config))
        killed(machine, config)
        stepped(machine, config)
    machine.agent("service", "install", "--config", config, expect=1)  # it is installed already, and says so
    machine.agent("service", "stop", expect=0)
    if machine.real("the list of sessions"):
        machine.check("no session stays", sessions(machine) == [], sessions(machine))
    machine.agent("service", "uninstall", expect=0)
    code, text = machine.agent("service", "status")
    machine.check("it is gone", code == 1 and "not installed" in text, text)
    machine.end()


if __name__ == "__main__":
    sys.exit(main())
