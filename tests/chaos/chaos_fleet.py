"""Fifty agents, one collector, and everything that may happen to them: afterwards the books balance.

Each agent is a process (tests/chaos/fleet_agent_main.c) with the real batch, spool, uplink and TLS code; what it makes it writes
into a journal, a pipe to this program, before it hands it on. Meanwhile, chosen by a seeded generator: agents and the collector are
killed with -9, their disks are full, spools are cut at a random byte while their agent is down, connections are cut and stalled
(all pass through a proxy in this program), and clocks jump by an hour. Two more agents reach nobody until their spools overflow. Then
all is mended, everything drains, and

    every tick and event that is stored was made, with as many processes, and is stored once
    every one that is not stored is explained: its agent was killed before it was durable, or its spool was cut or full
    the loss ledger tells of all of it, and of no more than the time it took

PROCFLEET_SECONDS of trouble (40), PROCFLEET_AGENTS (50), PROCFLEET_SEED (printed when it was chosen by chance).
"""

import asyncio
import collections
import glob
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import BIN, Fleet, check, ensure, read_json, span  # noqa: E402
from wal import known, logged  # noqa: E402

SECONDS = float(os.environ.get("PROCFLEET_SECONDS", "40"))
AGENTS = int(os.environ.get("PROCFLEET_AGENTS", "50"))
SEED = int(os.environ.get("PROCFLEET_SEED", str(random.SystemRandom().randrange(1 << 32))))
RATE, SAMPLES, PROCESSES = 5, 5, 4
LONELY = 2  # agents that reach no collector all the while, and fill their spools
HOUR_NS = 3600 * 10**9
# How long before a kill a tick may have been made and yet not be durable: the open batch, a sync, and a busy machine.
UNSYNCED_S = SAMPLES / RATE + 15


class Chaos(Fleet):
    """A full disk is a limit on the size of files, whose signal is ignored: writing then fails."""

    def spawn(self, program, args, stdout, stderr):
        p = subprocess.Popen([os.path.join(BIN, program), *args], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                             preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        self.processes.append(p)
        return p

    def start(self, program, *args, log):
        with open(self.path(log), "ab") as f:
            return self.spawn(program, args, f, f)


def quiet_port():
    """Below the ports that outgoing connections get: whoever dials it while nobody listens must not meet himself."""
    low = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
    while True:
        port = random.SystemRandom().randrange(10240, max(low, 20000))
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def disk_full(process, full):
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (2048 if full else resource.RLIM_INFINITY, resource.RLIM_INFINITY))


# -- connections --


class Proxy:
    """Between agents and collector; connections can be cut, which both sides see as a reset, and stalled."""

    def __init__(self, port):
        self.to = port
        self.closed = False  # nobody gets through
        self.flows = set()
        self.cuts = self.stalls = 0

    async def open(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            if self.closed:
                raise OSError
            peer_reader, peer_writer = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.transport.abort()
            return
        flow = (writer.transport, peer_writer.transport)
        self.flows.add(flow)
        await asyncio.gather(self.copy(reader, peer_writer), self.copy(peer_reader, writer))
        for transport in flow:
            transport.abort()
        self.flows.discard(flow)

    @staticmethod
    async def copy(reader, writer):
        try:
            while True:
                data = await reader.read(65536)
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.transport.abort()

    def cut(self, rng):
        if self.flows:
            self.cuts += 1
            for transport in rng.choice(sorted(self.flows, key=id)):
                transport.abort()

    async def stall(self, rng, seconds):
        if self.flows:
            self.stalls += 1
            flow = rng.choice(sorted(self.flows, key=id))
            for transport in flow:
                if not transport.is_closing():
                    transport.pause_reading()
            await asyncio.sleep(seconds)
            for transport in flow:
                if not transport.is_closing():
                    transport.resume_reading()


# -- agents --


class Agent:
    """One host: its process, what it made, and the times in which it could lose something."""

    def __init__(self, fleet, seed, address, lonely=False):
        self.fleet, self.seed, self.address, self.lonely = fleet, seed, address, lonely
        self.rate, self.samples, self.processes = (2 * RATE, 1, 50 * PROCESSES) if lonely else (RATE, SAMPLES, PROCESSES)
        self.name = "gen-%d" % seed
        self.spool = fleet.path("spools", self.name)
        self.offset_file = fleet.path("offset-" + self.name)
        self.ticks = {}  # wall: (mono, rows)
        self.events = {}  # (wall, kind, pid, start): mono
        self.excuses = []  # [from, to) of the monotonic clock
        self.full_since = None
        self.cut = self.kills = self.fulls = 0
        self.away_s = 0  # from kills to the first ticks after them
        self.killed_at = None
        self.process = self.end = None
        self.busy = False
        self.story = []  # what happened to it, for whoever reads a failure
        self.ended = asyncio.Event()

    def tell(self, what):
        self.story.append("%.3f %s" % (time.monotonic(), what))

    def start(self):
        args = ["--seed", str(self.seed), "--keys", self.fleet.path("pki"), "--collector", self.address, "--spool", self.spool,
                "--offset-file", self.offset_file, "--rate", str(self.rate), "--samples", str(self.samples),
                "--processes", str(self.processes), "--spool-bytes", str(1 << 20)]
        with open(self.fleet.path("agent-%s.log" % self.name), "ab") as log:
            self.process = self.fleet.spawn("tests/fleet-agent", args, subprocess.PIPE, log)
        self.tell("started")
        self.rest = b""
        self.ended.clear()
        os.set_blocking(self.process.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(self.process.stdout.fileno(), self.read)

    def read(self):
        data = self.process.stdout.read(1 << 20)
        if data is None:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self.process.stdout.fileno())
            self.ended.set()
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            numbers = [int(n) for n in numbers]
            if word == b"tick":
                self.ticks[numbers[1]] = (numbers[0], numbers[2])
                if self.killed_at is not None:
                    self.away_s += numbers[0] / 1e9 - self.killed_at
                    self.killed_at = None
            elif word == b"event":
                self.events[tuple(numbers[1:])] = numbers[0]
            else:
                self.end = numbers

    async def wait_end(self):
        await self.ended.wait()
        self.process.stdout.close()
        return await asyncio.get_running_loop().run_in_executor(None, self.process.wait)

    async def kill(self):
        """What is not durable by now is lost; with a full disk that is everything since then."""
        self.tell("killed")
        killed_at = time.monotonic()
        self.process.kill()
        await self.wait_end()
        now = time.monotonic()
        begin = now if self.full_since is None else self.full_since
        self.excuses.append((begin - UNSYNCED_S, now))
        self.full_since = None
        self.kills += 1
        self.killed_at = killed_at

    def set_clock(self, offset_ns):
        self.tell("clock %+d s" % (offset_ns // 10**9))
        with open(self.offset_file + ".new", "w") as f:
            f.write("%d\n" % offset_ns)
        os.rename(self.offset_file + ".new", self.offset_file)

    def excused(self, mono_ns):
        return any(a * 1e9 <= mono_ns < b * 1e9 for a, b in self.excuses)

    def cut_spool(self, rng):
        """The newest segment ends at a random byte: whatever was not delivered by then and lies behind is lost."""
        files = sorted(glob.glob(os.path.join(self.spool, "spool-*.seg")))
        if files:
            size = os.path.getsize(files[-1])
            cut = rng.randrange(size + 1)
            self.tell("%s of %d bytes cut to %d" % (os.path.basename(files[-1]), size, cut))
            os.truncate(files[-1], cut)
            self.cut += 1
            self.excuses.append((0, time.monotonic()))


# -- trouble --


class Trouble:
    def __init__(self, fleet, proxy, agents, rng):
        self.fleet, self.proxy, self.agents, self.rng = fleet, proxy, agents, rng
        self.counts = collections.Counter()
        self.tasks = set()

    def pick(self):
        free = [a for a in self.agents if not a.busy]
        return self.rng.choice(free) if free else None

    async def with_agent(self, what):
        agent = self.pick()
        if agent:
            agent.busy = True
            self.counts[what.__name__] += 1
            await what(agent)
            agent.busy = False

    async def agent_killed(self, agent):
        await agent.kill()
        await asyncio.sleep(self.rng.uniform(0, 3))
        agent.start()

    async def spool_cut(self, agent):
        await agent.kill()
        agent.cut_spool(self.rng)
        await asyncio.sleep(self.rng.uniform(0, 2))
        agent.start()

    async def agent_disk_full(self, agent):
        agent.tell("disk full")
        agent.fulls += 1
        agent.full_since = time.monotonic()
        disk_full(agent.process, True)
        await asyncio.sleep(self.rng.uniform(1, 6))
        if self.rng.random() < 0.3:
            await agent.kill()
            agent.start()
        else:
            disk_full(agent.process, False)
            agent.tell("disk has room")
            await asyncio.sleep(12)  # the spool tries again every few seconds
            agent.full_since = None

    async def clock_jump(self, agent):
        agent.set_clock(self.rng.choice((-HOUR_NS, 0, HOUR_NS)))

    async def collector_restarted(self):
        loop = asyncio.get_running_loop()
        collector = self.fleet.collector
        if self.rng.random() < 0.4:
            self.counts["collector_disk_full"] += 1
            disk_full(collector, True)
            await asyncio.sleep(self.rng.uniform(0.5, 2))
            disk_full(collector, False)
        if self.rng.random() < 0.8:
            self.counts["collector_killed"] += 1
            collector.kill()
        else:
            self.counts["collector_stopped"] += 1
            collector.terminate()
        await loop.run_in_executor(None, collector.wait)
        await asyncio.sleep(self.rng.uniform(0, 3))
        await loop.run_in_executor(None, self.fleet.start_collector)

    async def collector_trouble(self, until):
        while time.monotonic() < until:
            await asyncio.sleep(self.rng.uniform(2, 8))
            await self.collector_restarted()

    async def stall(self):
        await self.proxy.stall(self.rng, self.rng.uniform(0.5, 8))

    async def cut(self):
        self.proxy.cut(self.rng)

    def once(self):
        what = self.rng.choices(
            [lambda: self.with_agent(self.agent_killed), lambda: self.with_agent(self.spool_cut),
             lambda: self.with_agent(self.agent_disk_full), lambda: self.with_agent(self.clock_jump), self.cut, self.stall],
            weights=[6, 2, 2, 3, 6, 4])[0]
        task = asyncio.get_running_loop().create_task(what())
        self.tasks.add(task)

    async def run(self, until):
        collector = asyncio.get_running_loop().create_task(self.collector_trouble(until))
        while time.monotonic() < until:
            await asyncio.sleep(self.rng.expovariate(AGENTS / 15))
            self.once()
        await asyncio.gather(collector, *self.tasks)


# -- what is stored --


def asked(fleet, *args):
    """Rows of an answer that may be in part."""
    limit = [] if args[0] == "coverage" else ["-n", "100000"]
    code, out, err = fleet.cli(*args, *limit, "--format", "json", *span(3, 3), expect=None)
    if code not in (0, 5):
        check("answer to %s (%s)" % (" ".join(args), err), code, 0)
    return read_json(out)


def stored_ticks(fleet, name):
    """wall: how many processes."""
    rows = asked(fleet, "history", "--host", name, "--name", "*", "-m", "thread_count")
    return collections.Counter(r["time"] for r in rows)


def stored_events(fleet, name):
    kinds = {"process_start": 1, "process_stop": 2}
    found = asked(fleet, "events", "--host", name, "--kind", "process")
    return collections.Counter((e["time"], kinds[e["kind"]], e["pid"], e["start"]) for e in found)


def judge_ledger(answer, agent, batches, ticks, events, lost_ticks, lost_events):
    """What the loss ledger says of a host, against what is known here. A killed agent cannot tell what was in its memory: its next
    life counts the ticks from its last durable batch to its own start, those included that were never made."""
    told = answer[0]
    wrong = []

    def expect(what, holds):
        if not holds:
            wrong.append("the ledger: %s; lost here: %d ticks, %d events; %.1f s away after %d kills; it says %r"
                         % (what, lost_ticks, lost_events, agent.away_s, agent.kills, told))

    expect("as many ticks delivered as are stored", told["ticks"] == len(ticks))
    expect("as many events delivered as are stored", told["events"] == len(events))
    expect("no loss is left out", told["lost_ticks"] + agent.kills >= lost_ticks)
    expect("lost events make it an upper bound", lost_events == 0 or told["at_most"])
    if agent.lonely:
        lost_rows = sum(rows for wall, (_, rows) in agent.ticks.items() if wall not in ticks)
        expect("its spool was full, and it says what that cost",
               (told["lost_ticks"], told["lost_rows"], told["lost_events"]) == (lost_ticks, lost_rows, lost_events) and lost_rows)
        print(agent.name, "reached nobody: of", len(agent.ticks), "ticks and", len(agent.events), "events its spool dropped",
              lost_ticks, "with", lost_rows, "processes, and", lost_events)
    elif agent.kills == 0:
        expect("nothing is lost, and it says so", (told["lost_ticks"], lost_ticks, lost_events) == (0, 0, 0))
    if agent.lonely:  # a batch of each tick, a last one, and one where a window begins between an event and its tick
        more = told["missing_batches"] - (len(agent.ticks) + 1 - batches)
        expect("as many batches are missing as its spool dropped whole", 0 <= more <= SECONDS / 300 + 1)
    elif agent.cut == 0 and not (agent.fulls and agent.kills):  # what a full disk did not take, a kill does
        expect("no batch is missing", told["missing_batches"] == 0)
    if agent.cut == 0 and agent.fulls == 0:
        expect("no loss is made up", told["lost_ticks"] <= lost_ticks + agent.away_s * RATE + 2 * agent.kills)
    return wrong


def judge(fleet, agent, batches):
    """Complaints about one host; counts (made, stored, lost) of ticks and of events."""
    wrong = []
    ticks, events = stored_ticks(fleet, agent.name), stored_events(fleet, agent.name)
    for wall, rows in ticks.items():
        if wall not in agent.ticks:
            wrong.append("a tick at %d that was never made" % wall)
        elif rows != agent.ticks[wall][1]:
            wrong.append("%d processes at %d, made %d" % (rows, wall, agent.ticks[wall][1]))
    for event, n in events.items():
        if event not in agent.events:
            wrong.append("an event that never happened: %r" % (event,))
        elif n != 1:
            wrong.append("an event is stored %d times: %r" % (n, event))
    lost_ticks = [(mono, wall) for wall, (mono, _) in agent.ticks.items() if wall not in ticks]
    lost_events = [(mono, event) for event, mono in agent.events.items() if event not in events]
    for mono, what in lost_ticks + lost_events:
        if not agent.excused(mono) and not agent.lonely:
            wrong.append("%r is lost without a cause (made at %.3f)" % (what, mono / 1e9))
    wrong += judge_ledger(asked(fleet, "coverage", "--host", agent.name), agent, batches, ticks, events, len(lost_ticks),
                          len(lost_events))
    if wrong:
        print("story of", agent.name, *agent.story, sep="\n  ")
    return wrong, (len(agent.ticks), len(ticks), len(lost_ticks)), (len(agent.events), len(events), len(lost_events))


# -- the test --


async def live(fleet, rng):
    proxy = Proxy(int(fleet.ports["ingest"]))
    address = "127.0.0.1:%d" % await proxy.open()
    nowhere = Proxy(proxy.to)
    nowhere.closed = True
    agents = [Agent(fleet, i + 1, address) for i in range(AGENTS)]
    address = "127.0.0.1:%d" % await nowhere.open()
    lonely = [Agent(fleet, AGENTS + i + 1, address, lonely=True) for i in range(LONELY)]
    for agent in agents + lonely:
        agent.start()
    trouble = Trouble(fleet, proxy, agents, rng)
    await trouble.run(time.monotonic() + SECONDS)
    nowhere.closed = False
    agents += lonely
    await asyncio.sleep(3)  # a last look at a world without trouble
    for agent in agents:
        agent.process.terminate()
    codes = await asyncio.gather(*(agent.wait_end() for agent in agents))
    check("every agent ends in order", [c for c in codes if c != 0], [])
    check("every agent has delivered all it held", [(a.name, a.end) for a in agents if not a.end or a.end[1]], [])
    print("trouble:", dict(trouble.counts, connections_cut=proxy.cuts, connections_stalled=proxy.stalls))
    return agents


def make_keys(fleet):
    for i in range(AGENTS + LONELY):
        fleet.run("tests/fleet-agent", "--keys-only", "--seed", str(i + 1), "--keys", fleet.path("pki"))


def main():
    rng = random.Random(SEED)
    print("seed", SEED, "agents", AGENTS, "seconds", SECONDS)
    with Chaos() as fleet:
        make_keys(fleet)
        fleet.ports = {name: str(quiet_port()) for name in ("ingest", "query", "events")}
        fleet.start_collector()
        agents = asyncio.run(live(fleet, rng))
        batches = logged(fleet.path("data"))
        check("no batch is stored twice", len(batches), len(set(batches)))
        hosts = fleet.hosts()
        check("the log knows as many batches as the collector tells of", sum(hosts[a.name]["batches"] for a in agents),
              len(known(fleet.path("data"))))
        wrong, sums, lost = [], collections.Counter(), {}
        for agent in agents:
            complaints, ticks, events = judge(fleet, agent, hosts[agent.name]["batches"])
            wrong += ["%s: %s" % (agent.name, c) for c in complaints]
            lost[agent.name] = ticks[2]
            sums.update(dict(zip(("ticks made", "ticks stored", "ticks lost", "events made", "events stored", "events lost"),
                                 ticks + events)))
        print(json.dumps(dict(sums)))
        ensure("what is not stored was lost by a kill, a cut or a full spool, and the ledger tells of it", not wrong,
               "%d complaints\n  %s" % (len(wrong), "\n  ".join(wrong[:20])))
        # While its disk is full an agent sends from memory, in no strict order: a kill may take a batch that a later one overtook.
        holes = {a.name: lost[a.name] if a.fulls and a.kills else 0 for a in agents if not a.cut and not a.lonely}
        check("no hole in the numbers of a host whose spool was never cut, but for batches it lost",
              {name: hosts[name]["gaps"] for name, most in holes.items() if hosts[name]["gaps"] > most}, {})
        ensure("most of it arrived", sums["ticks stored"] > sums["ticks made"] * 0.8, sums)


main()
