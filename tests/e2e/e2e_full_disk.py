"""A collector whose disk takes no more refuses what comes, says so wherever one looks, and goes on by itself when there is room.

A limit on the size of its files stands for the full disk (it needs no rights); as root a small file system of its own is filled, too.
"""

import errno
import os
import resource
import subprocess
import time
import urllib.error
import urllib.request

from fleet import Fleet, check, ensure, read_json

FAST = {"batch__max_age": "1s"}
HOSTS = ("one", "two", "three")
LIMIT = 48 << 10  # bytes of a file; what the collector prints goes into one, too


def ready(fleet):
    """(status, body) of /readyz"""
    try:
        with urllib.request.urlopen("http://127.0.0.1:%s/readyz" % fleet.ports["http"], timeout=60) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def figure(fleet, name):
    with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % fleet.ports["http"], timeout=60) as r:
        return sum(float(line.split()[-1]) for line in r.read().decode().splitlines() if line.split()[0] == name)


def stored(fleet):
    return figure(fleet, "procfleet_store_batches_total")


def doctor(fleet):
    _, out, _ = fleet.run("procfleet-collector", "doctor", "--format", "json", "--set", "data_dir=" + fleet.path("data"),
                          "--set", "pki.dir=" + fleet.path("pki"), "--set", "listen.http=127.0.0.1:" + fleet.ports["http"], expect=None)
    return {f["check"]: f for f in read_json(out)}


def all_came(fleet):
    """Of every host all batches up to now are stored: none is missing, none is set aside."""
    rows = fleet.hosts()
    check("no number is missing of any host", [rows[h]["gaps"] for h in HOSTS], [0] * len(HOSTS))
    for host in HOSTS:
        ensure("%s has set nothing aside" % host, "quarantined" not in fleet.log("agent-%s.log" % host))


def limit(pid, size):
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def log_bytes(fleet):
    """Of the largest file of the collector's log."""
    wal = fleet.path("data", "wal")
    return max(os.path.getsize(os.path.join(wal, name)) for name in os.listdir(wal))


def by_limit(fleet):
    collector = fleet.collector
    fleet.wait_for("the log to be larger than what is written beside it", lambda: log_bytes(fleet) > LIMIT)
    limit(collector.pid, LIMIT)
    fleet.wait_for("the log to be told of it", lambda: "store no_space" in fleet.log("collector.log"))
    status, why = ready(fleet)
    check("it is not ready, and why", (status, "no room" in why), (503, True))
    fleet.wait_for("its numbers to say so", lambda: figure(fleet, "procfleet_store_no_space") == 1)
    before = stored(fleet)
    fleet.wait_for("batches to be refused", lambda: figure(fleet, "procfleet_store_no_room_total") > 3)
    told = fleet.cli("top", "--host", "one", expect=None)
    ensure("answers come and say that nothing new is stored", "disk is full" in told[1] + told[2], told)
    found = doctor(fleet)["store.writes"]
    check("the doctor finds it and says the way out", (found["state"], "make room" in found["fix"]), ("failed", True))
    check("nothing was stored meanwhile", stored(fleet), before)
    limit(collector.pid, resource.RLIM_INFINITY)
    fleet.wait_for("it to go on by itself", lambda: "store space_again" in fleet.log("collector.log"))
    fleet.wait_for("what waited to be taken", lambda: stored(fleet) > before + 4 * len(HOSTS))
    check("it is ready again", ready(fleet)[0], 200)
    check("and so says the doctor", doctor(fleet)["store.writes"]["state"], "ok")
    check("it is still the same process", collector.poll(), None)
    all_came(fleet)


def fill(path):
    """Takes all room there is."""
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError as e:
                ensure("the disk is full", e.errno == errno.ENOSPC, e)


def refuses(fleet):
    log = fleet.log("collector.log")
    return "store no_space" in log or "store disk_full" in log


def by_disk(fleet):
    filler = fleet.path("data", "filler")
    fill(filler)
    fleet.wait_for("the log to be told of it", lambda: refuses(fleet))
    before = stored(fleet)
    fleet.wait_for("batches to be refused", lambda: figure(fleet, "procfleet_store_no_room_total") > 3)
    check("it is not ready", ready(fleet)[0], 503)
    check("the doctor finds it", doctor(fleet)["store.writes"]["state"], "failed")
    os.remove(filler)
    fleet.wait_for("what waited to be taken", lambda: stored(fleet) > before + 4 * len(HOSTS))
    check("it is ready again", ready(fleet)[0], 200)
    check("it is still the same process", fleet.collector.poll(), None)
    all_came(fleet)


def start(fleet):
    fleet.start_collector(http__refresh="1s")
    agents = [fleet.start_agent(h, **FAST) for h in HOSTS]
    fleet.wait_for("batches of all", lambda: len(fleet.hosts()) == len(HOSTS) and stored(fleet) > 6)
    return agents


def after_restart(fleet, agents):
    """What was acknowledged is there, also for the next collector."""
    for a in agents:
        fleet.stop(a)
    fleet.stop(fleet.collector)
    fleet.start_collector(http__refresh="1s")
    all_came(fleet)
    fleet.stop(fleet.collector)


def main():
    with Fleet() as fleet:
        agents = start(fleet)
        by_limit(fleet)
        after_restart(fleet, agents)
    with Fleet() as fleet:
        os.mkdir(fleet.path("data"), 0o700)
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "procfleet-test", fleet.path("data")]
        if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
            print("skipped: a small file system of its own needs root and mount")
            return
        try:
            agents = start(fleet)
            by_disk(fleet)
            after_restart(fleet, agents)
        finally:
            for p in fleet.processes:
                if p.poll() is None:
                    p.kill()
                    p.wait()
            subprocess.run(["umount", "-l", fleet.path("data")], check=True)


if __name__ == "__main__":
    main()
