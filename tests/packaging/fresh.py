"""A new machine: in a Debian of its own (debootstrap, minbase) with nothing else installed, a checkout of HEAD is put and the two
commands of README.md are run, scripts/quickstart and scripts/test. Both must end well: install-deps names everything they need and
fetches it by itself. What they mount, start and leave is gone at the end. Needs root, debootstrap, the system's own apt sources
and a git checkout; takes the better part of an hour on a busy machine (ctest -C long). Further commands may be given as arguments,
to try by hand what a new machine can do: fresh.py 'cd build/release && ctest -L lab'."""

import os
import signal
import subprocess
import sys
import tempfile
import time

from debian import ROOT, bootstrap, check, needed, run, skip

ALL_S = 5100  # less than the test's own limit: whoever ends it from outside leaves the tree behind
CHECKOUT = "/srv/procfleet"
CORPUS = os.path.realpath(os.environ.get("PROCFLEET_CORPUS") or os.path.join(ROOT, "..", "shared", "corpus"))
# What a machine has mounted, and the recordings beside the checkout where there are some; the tree is its root and no chroot, where
# nobody may make a user namespace or mount anything. All of it ends with the last process in the namespace: nothing is unmounted by hand.
ENTER = """set -eu
tree=$1 checkout=$2 command=$3 corpus=$4
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount -t sysfs -o ro sysfs "$tree/sys"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$tree/dev/pts"
mkdir -p "$tree/dev/shm"
mount -t tmpfs tmpfs "$tree/dev/shm"
if [ -d "$corpus" ]; then
  mkdir -p "$tree$checkout/../shared/corpus"
  mount --bind -o ro "$corpus" "$tree$checkout/../shared/corpus"
fi
cd "$tree"
pivot_root . mnt
umount -l /mnt
cd "$checkout"
exec sh -c "$command"
"""
PROXIES = ("http_proxy", "https_proxy", "no_proxy")


def take_checkout(top):
    """What is committed, without what earlier runs fetched or built."""
    inside = top + CHECKOUT
    os.makedirs(inside)
    tar = os.path.join(top, "root", "procfleet.tar")
    run("git", "-C", ROOT, "archive", "--output", tar, "HEAD")
    run("tar", "-x", "-f", tar, "-C", inside)
    os.unlink(tar)


def take_settings_of_apt(top):
    """How this system reaches its package sources; which ones debootstrap has written."""
    settings = run("apt-config", "dump", "--no-empty", "Acquire::http", "Acquire::https", "Acquire::Check-Date",
                   "Acquire::Check-Valid-Until", "Acquire::Retries")
    with open(top + "/etc/apt/apt.conf.d/90host", "w") as f:
        f.write(settings)


def name_this_machine(top):
    """As the installer of a system does, and debootstrap does not."""
    with open(top + "/etc/hosts", "w") as f:
        f.write("127.0.0.1 localhost %s\n::1 localhost\n" % os.uname().nodename)


def inside(top):
    """Processes that have the tree as their root, in whichever namespace."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.samefile("/proc/%s/root" % pid, top):
                found.append(int(pid))
        except OSError:
            pass  # it ended
    return found


def end_all(top):
    """Services and tests outlive the shell that started them when it is ended early."""
    for _ in range(100):
        left = inside(top)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.1)


def try_command(top, command, end):
    print("== %s" % command, flush=True)
    begun = time.monotonic()
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **{k: os.environ[k] for k in PROXIES if k in os.environ}}
    done = subprocess.run(["unshare", "--mount", "sh", "-c", ENTER, "sh", top, CHECKOUT, command, CORPUS],
                          stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=env, timeout=max(end - begun, 1), check=False)
    print("== %s: exit %d after %d s" % (command, done.returncode, time.monotonic() - begun), flush=True)
    return done.returncode


def main():
    suite, source = needed("git", "unshare", "apt-config")
    if not os.path.exists(os.path.join(ROOT, ".git")):
        skip("this is no git checkout")
    end = time.monotonic() + ALL_S
    with tempfile.TemporaryDirectory(prefix="procfleet-debian-") as place:
        top = os.path.join(os.path.realpath(place), "debian")
        try:
            begun = time.monotonic()
            bootstrap(top, suite, source)
            print("== debootstrap %s from %s: %d s" % (suite, source, time.monotonic() - begun), flush=True)
            take_settings_of_apt(top)
            name_this_machine(top)
            take_checkout(top)
            codes = {command: try_command(top, command, end) for command in ("scripts/quickstart", "scripts/test", *sys.argv[1:])}
        finally:
            end_all(top)
    for command, code in codes.items():
        check("%s works on a new machine" % command, code, 0)


main()
