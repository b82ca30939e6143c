"""A fleet in use for a while: nothing drifts, and at the end the books balance.

Simulated agents (tests/chaos/fleet_agent_main.c: real batch, spool, uplink and TLS code) with processes that come and go are ended
and killed in turn and come back; one real agent watches this machine; one operator asks all the time; one subscriber listens and
another comes and goes. Every second memory, descriptors and threads of collector and real agent, bytes on disk and the times of
acknowledgements and answers are looked at. After a warm-up a line is laid through each series (least squares); its slope is printed
with the half-width of its 95 % confidence interval (of independent residuals, which they are not quite), and the test fails when a
slope lies above its limit by more than that.

Memory is anonymous pages and file pages, apart. Of the collector's anonymous pages those of batches that wait to be sealed are not
counted: they rise for a window of five minutes and fall. What sealing and answers need for a moment shows until the collector gives
it back to the system, which it does once a minute; so in the long form what counts is the least of every two minutes, and so it is
of times, which other work on the machine only makes longer. Tables that fill up to a bound are made small, so that they are full when
the warm-up ends (SETTINGS). At the end

    an agent that was never killed has as many ticks stored as it made, and no batch is missing
    one that was killed has no tick that is neither stored nor counted as lost
    `store check` finds all files sound

Sanitizers keep freed memory: with PROCFLEET_SANITIZED=1 the slopes of anonymous memory are printed only.

PROCFLEET_SECONDS (30; 1800 with `scripts/test --long`), PROCFLEET_AGENTS (6), PROCFLEET_SEED (printed when chosen by chance).
"""

import collections
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import BIN, Fleet, check, ensure, found, span  # noqa: E402

SECONDS = float(os.environ.get("PROCFLEET_SECONDS", "30"))
AGENTS = int(os.environ.get("PROCFLEET_AGENTS", "6"))
SEED = int(os.environ.get("PROCFLEET_SEED", str(random.SystemRandom().randrange(1 << 32))))
RATE, SAMPLES, PROCESSES = 2, 4, 40
WINDOW_S = 300  # of the store: memory goes up and down with it
LONG = SECONDS >= 6 * WINDOW_S
WARM_UP_S = 4 * WINDOW_S if LONG else SECONDS / 3  # tables and caches are full then
FLOOR_S = 120 if LONG else 1  # of FLOORED the least in so long counts
FLOORED = ("anonymous", "file pages", "acknowledgement", "answer")
EACH_S = max(6.0, SECONDS / 60)  # between ends of agents
VALUES = AGENTS * RATE * PROCESSES * 30  # a second
MIB = 1 << 20
SANITIZED = os.environ.get("PROCFLEET_SANITIZED") == "1"
KILLED = 2  # so many of the agents are killed when it is their turn, the others ended

SETTINGS = {
    "limits.processes_per_host": "128",  # four times as many are remembered: full after eight minutes
    "feed.max_bytes": "8MiB",  # so is the journal, and with it its index
    "http.refresh": "1s",
}

# Limits of slopes, per hour, and why they are not zero. The short run shows what grows with every request or connection; what it keeps
# of the first pages of every table is in its memory too.
LIMITS = {
    "collector anonymous, MiB": (12 if LONG else 3000, "8 the catalogue's cache until it is full, 4 what is known to be on disk"),
    "collector file pages, MiB": (2 if LONG else 1000, "the program's own; no file is mapped"),
    "collector descriptors": (12 if LONG else 900, "connections come and go"),
    "collector segments open": (400 if LONG else 2000, "64 that were read stay open, and those being read"),
    "collector threads": (1 if LONG else 400, "all are started at the beginning"),
    "collector disk, MiB": (6.0 * VALUES * 3600 / MIB, "6 bytes a value made"),
    "agent anonymous, MiB": (4 if LONG else 1500, "processes of this machine come and go"),
    "agent file pages, MiB": (2 if LONG else 1000, "the program's own"),
    "agent descriptors": (4 if LONG else 400, "its own, without those of other processes"),
    "agent threads": (1 if LONG else 400, "all are started at the beginning"),
    "agent disk, MiB": (16 if LONG else 3000, "a log and a status; the spool is empty"),
    "acknowledgement, ms": (20 if LONG else 60000, "other work on the machine"),
    "answer, ms": (100 if LONG else 60000, "the same; the minute that is asked about is always as long"),
}


# -- what is looked at --


def descriptors(pid):
    """Own ones, and those of files that come and go by themselves: segments that were read, other processes' /proc."""
    kept = passing = 0
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            name = os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except FileNotFoundError:  # closed meanwhile
            continue
        other = "/segments/" in name or "/catalogue/" in name or name.startswith("/proc/")
        kept, passing = kept + (not other), passing + other
    return kept, passing


def usage(pid):
    """Resident MiB, anonymous and of files; threads."""
    status = dict(line.split(":", 1) for line in open("/proc/%d/status" % pid))
    anonymous, files = (int(status[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile"))
    return anonymous, files, int(status["Threads"])


def waiting(fleet):
    """MiB of batches that wait to be sealed, by the collector's own figures."""
    with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % fleet.ports["http"], timeout=30) as answer:
        return float(found(r"(?m)^procfleet_store_head_bytes (\S+)", answer.read().decode())) / MIB


def disk(path):
    """MiB that the files below take."""
    total = 0
    for directory, _, files in os.walk(path):
        for name in files:
            try:
                total += os.stat(os.path.join(directory, name)).st_blocks * 512
            except FileNotFoundError:  # segments are joined and go
                pass
    return total / MIB


def floors(points):
    """The least point of every FLOOR_S, of whole ones only."""
    least = {}
    for t, v in points:
        slot = int(t * 3600 / FLOOR_S)
        least[slot] = min(least.get(slot, (t, v)), (t, v), key=lambda p: p[1])
    return [least[slot] for slot in sorted(least) if (slot + 1) * FLOOR_S <= SECONDS]


class Series:
    def __init__(self):
        self.points = collections.defaultdict(list)
        self.begin = time.monotonic()

    def add(self, name, value):
        self.points[name].append((time.monotonic() - self.begin, value))

    def fit(self, name):
        """(level, slope, half-width of its confidence interval) per hour, after the warm-up."""
        points = [(t / 3600, v) for t, v in self.points[name] if t >= WARM_UP_S]
        if any(word in name for word in FLOORED):
            points = floors(points)
        n = len(points)
        if n <= 2:
            ensure("enough points for a line: %s" % name, False, n)
        mean_t, mean_v = sum(t for t, _ in points) / n, sum(v for _, v in points) / n
        spread = sum((t - mean_t) ** 2 for t, _ in points)
        slope = sum((t - mean_t) * (v - mean_v) for t, v in points) / spread
        rest = sum((v - mean_v - slope * (t - mean_t)) ** 2 for t, v in points)
        return mean_v, slope, (1.96 + 2.5 / (n - 2)) * math.sqrt(rest / (n - 2) / spread)  # about Student's t


# -- who takes part --


class Agent:
    """One simulated host through its lives, and what it made."""

    def __init__(self, fleet, seed):
        self.fleet, self.seed, self.name = fleet, seed, "gen-%d" % seed
        self.ticks = self.kills = self.ends = 0
        self.acks = collections.deque()
        self.left = []  # of each end: what was not acknowledged

    def start(self):
        args = ["--seed", str(self.seed), "--keys", self.fleet.path("pki"), "--collector", "127.0.0.1:" + self.fleet.ports["ingest"],
                "--spool", self.fleet.path("spools", self.name), "--rate", str(RATE), "--samples", str(SAMPLES),
                "--processes", str(PROCESSES), "--acks"]
        with open(self.fleet.path("agent-%s.log" % self.name), "ab") as log:
            self.process = subprocess.Popen([os.path.join(BIN, "tests/fleet-agent"), *args], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=log)
        self.fleet.processes.append(self.process)
        self.reader = threading.Thread(target=self.read, args=(self.process.stdout,), daemon=True)
        self.reader.start()

    def read(self, stream):
        for line in stream:
            word, *numbers = line.split()
            if word == b"tick":
                self.ticks += 1
            elif word == b"ack":
                self.acks.append(int(numbers[0]) / 1e6)
            elif word == b"end":
                self.left.append(int(numbers[1]))

    def end(self, kill):
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.kills += kill
        self.ends += not kill
        code = self.process.wait(120)
        self.reader.join(60)
        self.process.stdout.close()
        self.fleet.processes.remove(self.process)
        return code

    def killed_in_turn(self):
        return self.seed <= KILLED


class Background(threading.Thread):
    """Does something again and again until told to stop; a failure is kept for the main thread."""

    def __init__(self, stop, step):
        super().__init__(daemon=True)
        self.stop, self.step, self.failure = stop, step, None

    def run(self):
        n = 0
        try:
            while not self.stop.is_set():
                self.step(n)
                n += 1
        except BaseException as e:  # also the SystemExit of a failed check
            self.failure = e


class Use:
    """Questions, subscribers, and agents that end and come back."""

    def __init__(self, fleet, agents, series, rng):
        self.fleet, self.agents, self.series, self.rng = fleet, agents, series, rng
        self.stop = threading.Event()
        self.threads = [Background(self.stop, step) for step in (self.ask, self.churn, self.subscribe)]
        self.tail = self.listen()

    def ask(self, n):
        name = self.rng.choice(self.agents).name
        args = (["top", "--since", "1m"], ["hosts"], ["history", "--host", name, "--name", "*", "-m", "cpu_time", "--since", "1m"])[n % 3]
        begin = time.monotonic()
        code, _, err = self.fleet.cli(*args, "--format", "json", expect=None)
        if code not in (0, 5):
            check("answer to %s: %s" % (args[0], err), code, 0)
        if n % 3 == 0:  # one kind, so that times compare
            self.series.add("answer, ms", (time.monotonic() - begin) * 1e3)
        self.stop.wait(0.3)

    def churn(self, n):
        if not self.stop.wait(EACH_S):
            agent = self.agents[n % len(self.agents)]
            code = agent.end(agent.killed_in_turn())
            if not agent.killed_in_turn():
                check("an agent ends in order", code, 0)
            agent.start()

    def listen(self):
        tls = self.fleet.tls("subscriber")
        return self.fleet.start("procfleet", "tail", "--samples", "--format", "json", "--events", "127.0.0.1:" + self.fleet.ports["events"],
                                "--collector", "127.0.0.1:" + self.fleet.ports["query"], "--ca", tls["ca"], "--cert", tls["cert"],
                                "--key", tls["key"], log="tail.null")

    def subscribe(self, n):
        p = self.listen()
        self.stop.wait(3)
        p.kill()
        p.wait()
        self.fleet.processes.remove(p)
        self.stop.wait(1)

    def begin(self):
        for t in self.threads:
            t.start()

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join(300)
            ensure("nothing failed meanwhile", t.failure is None and not t.is_alive(), repr(t.failure))
        ensure("the subscriber still listens", self.tail.poll() is None)


def look(fleet, agents, real, series):
    for who, pid, directory in (("collector", fleet.collector.pid, "data"), ("agent", real.pid, "agents/real")):
        anonymous, mapped, threads = usage(pid)
        kept, passing = descriptors(pid)
        series.add(who + " descriptors", kept)
        if who == "collector":
            series.add("collector segments open", passing)
            anonymous -= waiting(fleet)
        series.add(who + " anonymous, MiB", anonymous)
        series.add(who + " file pages, MiB", mapped)
        series.add(who + " threads", threads)
        series.add(who + " disk, MiB", disk(fleet.path(directory)))
    acks = []
    for agent in agents:
        while agent.acks:
            acks.append(agent.acks.popleft())
    if acks:
        series.add("acknowledgement, ms", sum(acks) / len(acks))
    log = fleet.path("tail.null")
    if os.path.getsize(log) > 64 * MIB:  # nobody reads what subscribers print
        os.truncate(log, 0)


# -- verdict --


def judge_slopes(series):
    bad = []
    print("%-28s %10s %12s %10s %10s   per hour" % ("", "level", "slope", "+-", "limit"))
    for name, (limit, why) in LIMITS.items():
        level, slope, half = series.fit(name)
        wrong = slope - half > limit and not (SANITIZED and "anonymous" in name)
        bad += [name] if wrong else []
        print("%-28s %10.2f %12.2f %10.2f %10.1f   %s%s" % (name, level, slope, half, limit, why, "  DRIFTS" if wrong else ""))
    check("nothing drifts", bad, [])


def judge_ledger(fleet, agents):
    sums = collections.Counter()
    for agent in agents:
        _, out, _ = fleet.cli("coverage", "--host", agent.name, "--format", "json", *span(6, 1), expect=None)
        told = json.loads(out)[0]
        story = "%s: made %d ticks, ended %d times, killed %d times; the ledger says %r" % (
            agent.name, agent.ticks, agent.ends, agent.kills, told)
        check("%s left nothing behind" % agent.name, [n for n in agent.left if n], [])
        if agent.kills == 0:
            ensure("%s has all it made" % agent.name,
                   (told["ticks"], told["lost_ticks"], told["missing_batches"]) == (agent.ticks, 0, 0), story)
        else:
            ensure("%s has all it made but for what is counted" % agent.name,
                   told["ticks"] <= agent.ticks <= told["ticks"] + told["lost_ticks"] + agent.kills, story)
        sums.update(made=agent.ticks, stored=told["ticks"], counted_as_lost=told["lost_ticks"], kills=agent.kills, ends=agent.ends)
    print(json.dumps(dict(sums)))


def main():
    rng = random.Random(SEED)
    print("seed", SEED, "agents", AGENTS, "seconds", SECONDS)
    with Fleet() as fleet:
        fleet.start_collector(**SETTINGS)
        real = fleet.start_agent("real")
        agents = [Agent(fleet, i + 1) for i in range(AGENTS)]
        for agent in agents:
            agent.start()
        fleet.wait_for("all agents to report", lambda: all(fleet.hosts().get(a.name, {}).get("batches") for a in agents))
        series = Series()
        use = Use(fleet, agents, series, rng)
        use.begin()
        while time.monotonic() - series.begin < SECONDS:
            look(fleet, agents, real, series)
            time.sleep(1)
        use.end()
        for agent in agents:
            check("%s ends in order" % agent.name, agent.end(False), 0)
        judge_ledger(fleet, agents)
        check("the real agent ends in order", fleet.stop(real), 0)
        check("the collector ends in order", fleet.stop(fleet.collector), 0)
        _, out, _ = fleet.run("procfleet-collector", "store", "check", "--set", "data_dir=" + fleet.path("data"), timeout=600)
        print(out)
        judge_slopes(series)


main()
