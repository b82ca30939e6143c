"""The packages' units under a real systemd: a Debian of its own (debootstrap) is booted in namespaces, and there they are installed,
started, killed, frozen, upgraded and booted again. A system call outside their filter ends the service here, so that none goes
unseen. Needs root, debootstrap, a cgroup2 to make a group in, and the system's own apt sources; takes minutes (ctest -C long)."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

from debian import PACKAGES, STATE, Debian, check, edit, ensure, made, run, skip, wait_for

BOOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boot.sh")
NAMESPACES = ("--mount", "--pid", "--fork", "--cgroup", "--uts", "--ipc", "--net")
EXPOSURE_MAX = {"procfleet-collector": 15, "procfleet-agent": 27}  # tenths; systemd-analyze security
RIGHTS = {"procfleet-collector": 0, "procfleet-agent": 1 << 12 | 1 << 19 | 1 << 2}  # CAP_NET_ADMIN, _SYS_PTRACE, _DAC_READ_SEARCH
WATCHDOG_S = 10


def make_group():
    """A group of its own in the hierarchy that systemd wants; unshare makes it the root of what is seen inside."""
    for hierarchy in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if os.path.exists(hierarchy + "/cgroup.procs") and os.access(hierarchy, os.W_OK):
            return tempfile.mkdtemp(prefix="procfleet-", dir=hierarchy)
    skip("there is no cgroup2 to make a group in")
    return None


def is_gone(group):
    """False while the last processes are on their way out."""
    try:
        for directory, _, _ in os.walk(group, topdown=False):
            os.rmdir(directory)
    except OSError:
        return False
    return True


class Booted(Debian):
    """One that is up: commands run inside, files are reached from outside."""

    def __init__(self, top, group):
        super().__init__(top)
        self.group = group
        self.log = tempfile.TemporaryFile()
        self.outer = self.init = None

    def boot(self):
        join = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
        self.outer = subprocess.Popen(["sh", "-c", join, self.group, "unshare", *NAMESPACES, "--kill-child", "sh", BOOT, self.top],
                                      stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        wait_for("systemd to be the first process", self.find_init)
        wait_for("the system to be up", lambda: self.do("systemctl", "is-system-running", expect=None).strip() in
                 ("running", "degraded"), 300)
        check("nothing of it failed", self.do("systemctl", "list-units", "--failed", "--plain", "--no-legend").strip(), "")

    def find_init(self):
        if self.outer.poll() is not None:
            ensure("the namespaces are there", False, self.said())
        children = open("/proc/%d/task/%d/children" % (self.outer.pid, self.outer.pid)).read().split()
        self.init = children[0] if children else None
        return self.init and open("/proc/%s/comm" % self.init).read() == "systemd\n"

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-4000:]

    def do(self, *command, expect=0):
        return run("nsenter", "--all", "--target", self.init, "env", "-i", *("%s=%s" % kv for kv in self.env.items()), *command,
                   expect=expect)

    def end(self):
        """As a machine is turned off: services are stopped."""
        os.kill(int(self.init), signal.SIGRTMIN + 4)
        check("the system ends", self.outer.wait(120), -signal.SIGINT)  # the kernel's word for a namespace that was powered off

    def close(self):
        if self.outer and self.outer.poll() is None:
            self.outer.kill()
            self.outer.wait()

    def show(self, service, name):
        return self.do("systemctl", "show", "--property", name, "--value", service).strip()

    def status(self, service, name):
        """A line of the main process's status in /proc."""
        return re.search(r"^%s:\s*(.*)$" % name, self.do("cat", "/proc/%s/status" % self.show(service, "MainPID")), re.M).group(1)

    def journal(self, service):
        return self.do("journalctl", "--no-pager", "--output", "cat", "--unit", service)


def unconfigured(debian):
    for service in STATE:
        ensure("%s is enabled" % service, debian.enabled(service))
        check("and waits to be configured", [debian.show(service, what) for what in ("ActiveState", "ConditionResult")], ["inactive", "no"])
        said = debian.do("systemd-analyze", "security", "--no-pager", "--threshold=%d" % EXPOSURE_MAX[service], service)
        print(said.strip().splitlines()[-1])


def prepare(debian):
    """The administrator's part, and drop-ins that make the filter deadly and the watchdog quick."""
    edit(debian)
    debian.do("procfleet-collector", "pki", "issue", "--dir", "/var/lib/procfleet-collector/pki", "--role", "query", "--name", "operator",
              "--out", "/root/operator")
    for service in STATE:
        directory = debian.path("/etc/systemd/system/%s.service.d" % service)
        os.makedirs(directory)
        with open(os.path.join(directory, "strict.conf"), "w") as f:
            f.write("[Service]\nSystemCallErrorNumber=kill\nWatchdogSec=%d\n" % WATCHDOG_S)
    debian.do("systemctl", "daemon-reload")


def top(debian):
    out = debian.do("procfleet", "top", "--format", "json", "--by", "read_bytes", "--collector", "127.0.0.1:7421", *(
        word for name, file in (("ca", "ca.pem"), ("cert", "operator.pem"), ("key", "operator.key"))
        for word in ("--" + name, "/root/operator/" + file)), expect=None)
    rows = re.search(r"^\[.*^\]|^\[.*\]$", out, re.M | re.S)  # beside it stands what is said on standard error
    return json.loads(rows.group(0)) if rows else []


def runs(debian, service):
    return debian.show(service, "ActiveState") == "active" and debian.show(service, "StatusText") in ("ready", "watching proc")


def starts(debian):
    for service in ("procfleet-collector", "procfleet-agent"):
        debian.do("systemctl", "start", service)
        check("%s is started when it says so" % service, debian.show(service, "ActiveState"), "active")
    for service, user in STATE.items():
        wait_for("%s to do its work" % service, lambda s=service: runs(debian, s))
        check("it is %s" % user, debian.do("stat", "-c", "%U", "/proc/%s" % debian.show(service, "MainPID")).strip(), user)
        check("with no more rights than it needs", int(debian.status(service, "CapEff"), 16), RIGHTS[service])
        check("now and later", (debian.status(service, "NoNewPrivs"), debian.status(service, "Seccomp")), ("1", "2"))
        said = debian.do("nsenter", "--mount", "--target", debian.show(service, "MainPID"), "touch", "/usr/here", expect=1)
        ensure("and nothing to write but its directory", "Read-only file system" in said, said)


def sees_others(debian):
    """The first process is root's: its figures of I/O need the rights of the unit."""
    wait_for("the I/O of another user's process", lambda: any(
        row.get("pid") == 1 and row.get("read_bytes") is not None for row in top(debian)), 90)


def restarts(debian, how, sent, patience):
    for service in STATE:
        before = debian.show(service, "MainPID"), int(debian.show(service, "NRestarts"))
        debian.do("sh", "-c", "kill $0 $1", sent, before[0])
        wait_for("%s to come back after it %s" % (service, how), lambda s=service, b=before: runs(debian, s) and
                 debian.show(s, "MainPID") != b[0] and int(debian.show(s, "NRestarts")) == b[1] + 1, patience)


def life(debian, first, again):
    shutil.copytree(os.path.dirname(first[0]), debian.path("/root/debs"))
    Debian(debian.top).do("sh", "-c", "apt-get install -y --download-only --no-install-recommends /root/debs/*.deb")  # no network inside
    debian.boot()
    debian.do("apt-get", "install", "-y", "--no-install-recommends", *debian.take(first))
    unconfigured(debian)
    prepare(debian)
    starts(debian)
    sees_others(debian)
    restarts(debian, "was killed", "-KILL", 60)
    restarts(debian, "stood still", "-STOP", 60 + 4 * WATCHDOG_S)
    for service in STATE:
        ensure("systemd saw it stand still", "Watchdog timeout" in debian.journal(service))
    old = {service: debian.show(service, "MainPID") for service in STATE}
    debian.do("apt-get", "install", "-y", "--no-install-recommends", *debian.take(again))
    for service in STATE:
        wait_for("%s to be the new version" % service, lambda s=service: runs(debian, s) and debian.show(s, "MainPID") != old[s])
        check("without a failure", debian.show(service, "Result"), "success")
    debian.end()
    debian.boot()
    for service in STATE:
        wait_for("%s to run after a boot" % service, lambda s=service: runs(debian, s))
        ensure("no call was refused", "SYS" not in re.findall(r"status=\d+/(\w+)", debian.journal(service)))
    debian.do("apt-get", "remove", "-y", *PACKAGES)
    for service in STATE:
        check("%s is stopped before it is removed" % service, debian.do("systemctl", "is-active", service, expect=None).strip(), "inactive")
    debian.end()


for tool in ("unshare", "nsenter"):
    if not shutil.which(tool):
        skip("%s is not installed" % tool)
if subprocess.run(["unshare", *NAMESPACES, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
    skip("new namespaces are not allowed here")
own_group = make_group()
try:
    with made("systemd", "systemd-sysv", "dbus") as (tree, *versions):
        booted = Booted(tree, own_group)
        try:
            life(booted, *versions)
        finally:
            booted.close()
finally:
    wait_for("the group to be gone", lambda: is_gone(own_group))
