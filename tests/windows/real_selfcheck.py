"""The scripts real_*.py, which the workflow runs on Windows, under Wine: they run to their end and say what is left out. And
what the workflow itself names is there."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from prefix import Prefix  # noqa: E402

SCRIPTS = ("real_facts.py", "real_tree.py", "real_service.py", "real_account.py", "real_hijack.py", "real_msi.py")
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
WORKFLOW = os.path.join(ROOT, ".github", "workflows", "windows.yml")
COLLECTOR = os.path.join(os.environ["PROCFLEET_LINUX_BIN"], "procfleet-collector")


def certificates(directory):
    pki = os.path.join(directory, "pki")
    for args in (["init", "--dir", pki, "--name", "real"],
                 ["issue", "--dir", pki, "--role", "agent", "--name", "real", "--out", directory]):
        subprocess.run([COLLECTOR, "pki", *args], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(os.path.join(pki, "ca.pem"), directory)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def missing_of(workflow):
    """What it runs and is not there: scripts, their options, presets, programs of both builds."""
    commands = "\n".join(line for line in workflow.splitlines() if not line.lstrip().startswith("#"))
    found = ["tests/windows/" + s for s in SCRIPTS if s not in commands]
    found += [p for p in re.findall(r"\b(?:scripts|tests/windows)/[\w.-]+", commands) if not os.path.exists(os.path.join(ROOT, p))]
    for script, options in re.findall(r"\b(scripts/[\w-]+)((?: --\w+)+)", commands):
        found += ["%s %s" % (script, o) for o in options.split() if o not in read(os.path.join(ROOT, script))]
    presets = {p["name"] for p in json.loads(read(os.path.join(ROOT, "CMakePresets.json")))["buildPresets"]}
    found += [p for p in re.findall(r"--preset (\w+)", commands) if p not in presets]
    programs = {"release": os.environ["PROCFLEET_LINUX_BIN"], "windows": os.environ["PROCFLEET_BIN"]}
    for preset, program in re.findall(r"build/(\w+)/bin/([\w.-]+)", commands):
        found += [] if os.path.exists(os.path.join(programs[preset], program)) else ["build/%s/bin/%s" % (preset, program)]
    return found


def workflow_is_whole():
    """Each kind of thing that could be missing is noticed, and none is."""
    text = read(WORKFLOW)
    faults = (("real_tree.py", "real_trees.py"), ("scripts/package-windows --out", "scripts/package-windows --into"),
              ("--preset windows", "--preset window"), ("bin/procfleet-collector", "bin/procfleet-collectors"))
    for old, new in faults:
        if old not in text or not missing_of(text.replace(old, new)):
            print("FAILED: %s in place of %s is not noticed" % (new, old))
            return False
    print("%s: %s" % (os.path.relpath(WORKFLOW, ROOT), missing_of(text) or "all that it names is there"))
    return not missing_of(text)


class Room:
    """What a prefix needs of a fleet."""

    def __init__(self, directory):
        self.directory, self.processes = directory, []

    def path(self, *parts):
        return os.path.join(self.directory, *parts)


def runs(script, env):
    done = subprocess.run([sys.executable, "-B", os.path.join(HERE, script), "--selfcheck"], env=env, capture_output=True, text=True,
                          timeout=300, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith("not under Wine: ")]
    print("%s: exit code %d, %d lines, left out: %d" % (script, done.returncode, len(done.stdout.splitlines()), len(said)))
    if done.returncode or not said:
        print(done.stdout[-6000:], done.stderr[-3000:])
        return False
    return True


def main():
    if not os.path.exists(COLLECTOR):
        print("skipped: the collector is a Linux program: build the preset release first")
        sys.exit(77)
    directory = tempfile.mkdtemp()
    certificates(directory)
    wine = Prefix(Room(directory))
    env = dict(wine.env, PROCFLEET_CERTS=directory)
    try:
        failed = [script for script in SCRIPTS if not runs(script, env)]
        failed += [] if workflow_is_whole() else ["windows.yml"]
    finally:
        wine.end()
    shutil.rmtree(directory, ignore_errors=True)
    if failed:
        print("FAILED: %s" % ", ".join(failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
