"""The packages' units under a real systemd: a Debian of its own (debootstrap) is booted in namespaces, and there they are installed,
started, killed, frozen, upgraded and booted again, the collector is backed up, restored and moved, by the lines of
docs/operating.md as they stand there. A system call outside their filter ends the service here, so that none goes
unseen. Needs root, debootstrap, a cgroup2 to make a group in, and the system's own apt sources; takes minutes (ctest -C long)."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

from debian import CONF, PACKAGES, STATE, Debian, check, documented, ensure, made, run, skip, wait_for

BOOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boot.sh")
NAMESPACES = ("--mount", "--pid", "--fork", "--cgroup", "--uts", "--ipc", "--net")
EXPOSURE_MAX = {"procfleet-collector": 15, "procfleet-agent": 27}  # tenths; systemd-analyze security
RIGHTS = {"procfleet-collector": 0, "procfleet-agent": 1 << 12 | 1 << 19 | 1 << 2}  # CAP_NET_ADMIN, _SYS_PTRACE, _DAC_READ_SEARCH
WATCHDOG_S = 10
FIRST_START = documented("First start")
BACK_UP, RESTORE = documented("Back-up, restore, move, upgrade")[:2]
WHO = FIRST_START[-1][:2]  # who asks whom


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


def strict(debian):
    """Drop-ins that make the filter deadly and the watchdog quick."""
    for service in STATE:
        directory = debian.path("/etc/systemd/system/%s.service.d" % service)
        os.makedirs(directory)
        with open(os.path.join(directory, "strict.conf"), "w") as f:
            f.write("[Service]\nSystemCallErrorNumber=kill\nWatchdogSec=%d\n" % WATCHDOG_S)
    debian.do("systemctl", "daemon-reload")


def collector_is_at(debian, address):
    with open(debian.path("/etc/hosts"), "w") as f:
        f.write("127.0.0.1 localhost\n%s collector.lab.example\n" % address)


def is_not_started_by_root(debian, service):
    said = debian.do(service, "run", "--config", CONF[service], expect=1)
    ensure("%s is not started by root" % service, "runuser -u %s --" % STATE[service] in said, said)
    check("which leaves nothing", os.listdir(debian.path("/var/lib/" + service)), [])


def first_start(debian, debs):
    """As documented, all on one machine; after starts as root by mistake, which leave nothing."""
    for deb in debs:
        shutil.copy(deb, debian.path("/root"))
    with open(debian.path("/etc/apt/apt.conf.d/90yes"), "w") as f:
        f.write('APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n')
    collector_is_at(debian, "127.0.0.1")
    debian.do("useradd", "--create-home", "alice")
    collector, token, agent, person, asks = FIRST_START
    debian.follow(collector[:1] + agent[:1])
    unconfigured(debian)
    strict(debian)
    is_not_started_by_root(debian, "procfleet-collector")
    ensure("the collector is well", " 0 failed, " in debian.follow(collector[1:]))
    debian.follow(token)
    check("a token is a secret", debian.owner_and_mode("/root/token"), "root root 600")
    debian.follow(agent[1:2])
    is_not_started_by_root(debian, "procfleet-agent")
    debian.follow(agent[2:-1])
    wait_for("the agent to say that it is connected", lambda: debian.do("sh", "-c", agent[-1] + " || true").count("collector connected"))
    debian.follow(person)
    debian.follow(agent[-1:])
    ensure("a person sees the host", re.search(r"^\S+ +connected ", ask(debian, *asks), re.M))


def ask(debian, *lines):
    return debian.do("su", "-", "alice", "-c", "\n".join(lines))


def rows(said):
    """JSON; beside it stands what is said on standard error."""
    found = re.search(r"^\[.*^\]|^\[.*\]$", said, re.M | re.S)
    return json.loads(found.group(0)) if found else []


def top(debian):
    return rows(ask(debian, *WHO, "procfleet top --format json --by read_bytes || true"))


def host(debian):
    """This machine as the collector has it; None when it does not answer."""
    return next(iter(rows(ask(debian, *WHO, "procfleet hosts --format json || true"))), None)


def delivers(debian, why):
    before = (host(debian) or {}).get("batches", 0)
    wait_for("the host to deliver %s" % why, lambda: (host(debian) or {}).get("batches", 0) > before, 90)


def files(debian):
    """What is in the collector's directory, whose, with which mode and of what size."""
    return sorted(debian.do("find", "/var/lib/procfleet-collector", "-type", "f", "-printf", "%P %u %g %m %s\n").splitlines())


def backs_up(debian):
    """And restores, by the documented lines."""
    debian.follow(BACK_UP[:1])
    then = files(debian)
    debian.follow(BACK_UP[1:])
    check("an archive with the authority's key is a secret", debian.owner_and_mode("/root/collector.tar.gz"), "root root 600")
    delivers(debian, "after the back-up")
    said = debian.follow(RESTORE[:-1])
    ensure("what is restored is well", " 0 failed, " in said and "all is sound" in said, said)
    check("and all of one moment", files(debian), then)
    debian.follow(RESTORE[-1:])
    delivers(debian, "after it was restored")


def moves(debian, debs):
    """To a machine where the collector's user has another number, at another address."""
    gaps = host(debian)["gaps"]
    debian.follow(BACK_UP[:2])
    uid = debian.do("id", "-u", STATE["procfleet-collector"])
    debian.do("rm", "-r", "/var/lib/procfleet-collector.old")
    debian.do("touch", "/var/lib/procfleet-collector/purge-all")
    debian.do("apt-get", "purge", "procfleet-collector")
    debian.do("useradd", "--system", "--uid", uid.strip(), "earlier")
    collector_is_at(debian, "127.0.0.2")
    debian.do("apt-get", "install", *debian.take(debs))
    ensure("the new machine numbers its users otherwise", debian.do("id", "-u", STATE["procfleet-collector"]) != uid)
    debian.follow(RESTORE)
    wait_for("it to run at its new place", lambda: runs(debian, "procfleet-collector"))
    delivers(debian, "to the new address")
    wait_for("it to lack nothing more than before", lambda: host(debian)["gaps"] <= gaps)


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
    first_start(debian, first)
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
    backs_up(debian)
    moves(debian, again)
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
