"""procfleet.exe at work: under Wine it asks a Linux collector over mutual TLS, and ends with the codes that it has on Linux."""

import glob
import json
import os
import pty
import re
import subprocess
import sys

WINDOWS_BIN = os.environ["PROCFLEET_BIN"]
os.environ["PROCFLEET_BIN"] = os.environ["PROCFLEET_LINUX_BIN"]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import BIN, Fleet, check, ensure, skip  # noqa: E402  (it reads the environment)

WINE = os.environ["WINE64"]


def run(code, *args, **variables):
    """(standard output, standard error) of procfleet.exe."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PROCFLEET_", "XDG_"))}
    done = subprocess.run([WINE, os.path.join(WINDOWS_BIN, "procfleet.exe"), *args], stdin=subprocess.DEVNULL,
                          capture_output=True, env=dict(env, **variables), timeout=120)
    out, err = done.stdout.decode().replace("\r\n", "\n"), done.stderr.decode().replace("\r\n", "\n")
    check("exit code of procfleet.exe %s%s" % (" ".join(args), "" if done.returncode == code else ": " + err), done.returncode, code)
    return out, err


def without_a_collector(fleet):
    for args in (["top", "--help"], ["completion", "bash"], ["man", "history"]):
        linux = fleet.run("procfleet", *args)[1]
        check("the same text as on Linux: " + " ".join(args), run(0, *args)[0] == linux, True)
    ensure("a wrong word suggests", "did you mean 'json'" in run(2, "hosts", "--format", "jsno")[1])
    ensure("a wrong command suggests", "did you mean 'hosts'" in run(2, "hsots")[1])
    run(2, "hosts", "--config", "Z:" + fleet.path("nosuch.yaml"))


def write_profiles(fleet):
    """Where Wine's APPDATA is: it takes no other from outside."""
    tls = fleet.tls("operator")
    folder = os.path.join(glob.glob(os.path.join(os.environ["WINEPREFIX"], "drive_c/users/*/AppData/Roaming"))[0], "procfleet")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "config.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write("default_profile: lab\nprofiles:\n")
        for name, who, port in (("lab", tls, fleet.ports["query"]), ("dead", tls, "1"),
                                ("stranger", fleet.tls("spy"), fleet.ports["query"])):
            f.write("  %s: {collector: '127.0.0.1:%s', ca: 'Z:%s', cert: 'Z:%s', key: 'Z:%s'}\n"
                    % (name, port, who["ca"], who["cert"], who["key"]))
    with open(fleet.path("wrong.yaml"), "w", encoding="utf-8") as f:
        f.write("profiles:\n  lab:\n    colector: x\n")
    return path


def with_profiles(fleet):
    out, err = run(0, "config", "show")
    ensure("the file below APPDATA is found", "profile: lab" in out, out + err)
    check("hosts", [h["host"] for h in json.loads(run(0, "hosts", "--format", "json")[0])], ["live"])
    rows = json.loads(run(0, "top", "-n", "3", "--format", "json")[0])
    ensure("top has rows", rows and all(r["host"] == "live" for r in rows))
    ensure("a table has them too", "HOST" in run(0, "top", "-n", "3")[0])
    run(3, "hosts", "--profile", "dead", "--timeout", "2s")
    run(4, "hosts", "--profile", "stranger")
    ensure("the likeliest profile", "did you mean 'lab'" in run(2, "hosts", "--profile", "lba")[1])
    said = run(2, "hosts", "--config", "Z:" + fleet.path("wrong.yaml"))[1]
    ensure("a wrong key is named with its line", "wrong.yaml:3: unknown key 'profiles.lab.colector'" in said, said)


def in_a_console(fleet):
    """The console's code page is the caller's again when the program has ended, whatever it was while it wrote."""
    script = fleet.path("console.cmd")
    with open(script, "w", encoding="ascii", newline="\r\n") as f:
        burner, procfleet = ("Z:" + os.path.join(WINDOWS_BIN, *n) for n in (("tests", "burner.exe"), ("procfleet.exe",)))
        f.write('@chcp 850\n@"%s" page\n@"%s" --version\n@"%s" page\n' % (burner, procfleet, burner))
    ours, theirs = pty.openpty()
    console = subprocess.Popen([WINE, "cmd", "/c", "Z:" + script], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    out = b""
    try:
        while data := os.read(ours, 4096):
            out += data
    except OSError:  # its other end is closed
        pass
    os.close(ours)
    ensure("the console ends", console.wait(60) == 0, out)
    pages = re.findall(rb"page=(\d+)", re.sub(rb"\x1b\[[?0-9;]*[A-Za-z]", b"", out))
    check("the console's code page before and after", pages, [b"850", b"850"])


def main():
    for path in (os.path.join(BIN, "procfleet-collector"), os.path.join(WINDOWS_BIN, "procfleet.exe")):
        if not os.path.exists(path):
            skip("%s is not built" % path)
    with Fleet() as fleet:
        fleet.start_collector()
        fleet.issue("agent", "spy")
        without_a_collector(fleet)
        in_a_console(fleet)
        fleet.start_agent("live")
        fleet.wait_for("the agent's data", lambda: fleet.ask("top", "--host", "live", expect=None))
        path = write_profiles(fleet)
        try:
            with_profiles(fleet)
        finally:
            os.remove(path)


if __name__ == "__main__":
    main()
