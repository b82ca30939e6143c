"""The scripts real_*.py, which the workflow runs on Windows, under Wine: they run to their end and say what is left out."""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from prefix import Prefix  # noqa: E402

SCRIPTS = ("real_facts.py", "real_tree.py", "real_service.py", "real_account.py", "real_hijack.py")
COLLECTOR = os.path.join(os.environ["PROCFLEET_LINUX_BIN"], "procfleet-collector")


def certificates(directory):
    pki = os.path.join(directory, "pki")
    for args in (["init", "--dir", pki, "--name", "real"],
                 ["issue", "--dir", pki, "--role", "agent", "--name", "real", "--out", directory]):
        subprocess.run([COLLECTOR, "pki", *args], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(os.path.join(pki, "ca.pem"), directory)


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
    finally:
        wine.end()
    shutil.rmtree(directory, ignore_errors=True)
    if failed:
        print("FAILED: %s" % ", ".join(failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
