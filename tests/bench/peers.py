"""What scripts/bench --peers measures: the store beside ClickHouse, VictoriaMetrics and Prometheus, as Debian has them, with the
same data (bench_peers_data), on the same machine, one after the other. A server that cannot be had is skipped, with the reason.

Bytes are those on disk when everything has been merged; our own are the rows of bench_store --only hour alone, and with all that
stands beside them (tiers, catalogue). CPU is user and system time of the server from its start until it is idle again after the
last value and the merge; ours is that of putting and sealing, without the network. Questions go over HTTP to the others and by a
call to us, five times each, the median: the ten processes with most CPU time over all hosts and the whole span, and one metric of
one process, every value.
"""

import functools
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "clickhouse"))

import lab  # noqa: E402

DEPS = os.environ.get("DEPS_DIR") or os.path.join(ROOT, ".cache", "deps")
ROUNDS = 5
STEP_S = 10  # a body has so many ticks of a host
IDLE = 0.05  # of a core


def debian(package, program, into):
    """Where the program of Debian's package is: of the system, in .cache, or there from now on."""
    found = shutil.which(program, path=into) or shutil.which(program)
    if found:
        return found
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise lab.Missing("there is no apt-get here to get Debian's %s with" % package)
    os.makedirs(into, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as d:
        said = lab.fetch(d, [package])
        debs = glob.glob(os.path.join(d, "*.deb"))
        if not debs:
            raise lab.Missing("package %s cannot be downloaded: %s" % (package, said.stdout.decode().strip().splitlines()[-1]))
        subprocess.run(["dpkg-deb", "-x", debs[0], d], check=True)
        os.replace(os.path.join(d, "usr", "bin", program), os.path.join(into, program))
    return os.path.join(into, program)


def size_of(directory):
    return sum(os.stat(p).st_blocks * 512 for p in glob.glob(os.path.join(directory, "**"), recursive=True) if os.path.isfile(p))


class Server:
    """A peer that runs, and answers at `url`."""

    def __init__(self, process, url, log):
        self.process, self.url, self.log = process, url, log

    def http(self, path, body=None, headers=()):
        r = urllib.request.Request(self.url + path, data=body, headers=dict(headers))
        try:
            with urllib.request.urlopen(r, timeout=600) as answer:
                return answer.read()
        except urllib.error.HTTPError as e:
            raise RuntimeError("%s: %d %s" % (path[:60], e.code, e.read()[:300].decode(errors="replace"))) from e

    def wait(self, path):
        until = time.monotonic() + 60
        while True:
            try:
                return self.http(path)
            except (OSError, RuntimeError) as e:
                if time.monotonic() > until or self.process.poll() is not None:
                    with open(self.log, errors="replace") as f:
                        raise RuntimeError("it does not start: %s" % f.read()[-500:]) from e
                time.sleep(0.1)

    def cpu_s(self):
        with open("/proc/%d/stat" % self.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self):
        """Until it is idle, at most a minute; its CPU so far."""
        for _ in range(60):
            before = self.cpu_s()
            time.sleep(1)
            if self.cpu_s() - before < IDLE:
                break
        return self.cpu_s()

    def end(self):
        self.process.kill()
        self.process.wait()


def launch(words, url, directory):
    path = os.path.join(directory, "log")
    with open(path, "wb") as log:
        return Server(subprocess.Popen(words, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log), url, path)


def ask(question):
    """Median ms, and the last answer."""
    ms = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        answer = question()
        ms.append((time.monotonic() - began) * 1e3)
    return statistics.median(ms), answer


def bodies(data, kind):
    for path in sorted(glob.glob(os.path.join(data["dir"], kind, "*"))):
        with open(path, "rb") as f:
            yield f.read()


def result(name, data, cpu_s, size, top, history, top_rows, history_values):
    if top_rows != 10 or not 0 < history_values <= data["seconds"]:
        raise RuntimeError("%s answered %d rows and %d values" % (name, top_rows, history_values))
    return {"name": name, "bytes": size / data["values"], "cpu_ns": cpu_s * 1e9 / data["values"], "top_ms": top, "history_ms": history}


# -- ClickHouse --


def clickhouse(data, directory):
    lab.prepare()
    started = lab.Server(directory)
    try:
        server = Server(started.start().process, started.url, os.path.join(directory, "log"))
        columns = ", ".join("%s Int64" % m for m in data["metrics"])
        server.http("/", ("CREATE TABLE p (host String, pid UInt32, start UInt64, at Int64, %s, day Date MATERIALIZED "
                          "toDate(toDateTime(intDiv(at, 1000000000)))) ENGINE = MergeTree PARTITION BY toYYYYMM(day) "
                          "ORDER BY (host, pid, start, at)" % columns).encode())
        for body in bodies(data, "rows"):
            server.http("/?query=" + urllib.parse.quote("INSERT INTO p FORMAT RowBinary"), body)
        server.http("/", b"OPTIMIZE TABLE p FINAL")
        cpu_s = server.settle()
        size = int(server.http("/", b"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'p'"))
        top, rows = ask(lambda: server.http("/", b"SELECT host, pid, start, max(cpu_time) - min(cpu_time) AS d FROM p "
                                                 b"GROUP BY host, pid, start ORDER BY d DESC LIMIT 10"))
        host, pid, start, _ = rows.decode().split("\n")[0].split("\t")
        history, values = ask(lambda: server.http("/", ("SELECT at, cpu_time FROM p WHERE host = '%s' AND pid = %s AND start = %s "
                                                        "ORDER BY at" % (host, pid, start)).encode()))
        return result("ClickHouse", data, cpu_s, size, top, history, rows.count(b"\n"), values.count(b"\n"))
    finally:
        started.kill()


# -- what speaks PromQL --

REMOTE = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}


def promql(server, question, at_ms):
    path = "/api/v1/query?" + urllib.parse.urlencode({"query": question, "time": "%.3f" % (at_ms / 1e3)})
    return json.loads(server.http(path))["data"]["result"]


def promql_questions(server, data):
    end, span = data["until_ms"] - 1, "[%ds]" % data["seconds"]
    top, rows = ask(lambda: promql(server, "topk(10, max_over_time(procfleet_cpu_time%s) - min_over_time(procfleet_cpu_time%s))" %
                                   (span, span), end))
    who = ", ".join('%s="%s"' % (k, rows[0]["metric"][k]) for k in ("host", "pid", "start"))
    history, series = ask(lambda: promql(server, "procfleet_cpu_time{%s}%s" % (who, span), end))
    return top, history, len(rows), len(series[0]["values"])


def prometheus(data, directory):
    program = debian("prometheus", "prometheus", os.path.join(DEPS, "prometheus"))
    port = lab.free_port()
    with open(os.path.join(directory, "conf.yml"), "w") as f:
        f.write("global: {scrape_interval: 1h}\n")
    server = launch([program, "--config.file=conf.yml", "--web.listen-address=127.0.0.1:%d" % port, "--storage.tsdb.path=data",
                     "--web.enable-remote-write-receiver", "--web.enable-admin-api", "--storage.tsdb.retention.time=100y",
                     "--query.lookback-delta=1s"], "http://127.0.0.1:%d" % port, directory)
    try:
        server.wait("/-/ready")
        for body in bodies(data, "remote"):
            server.http("/api/v1/write", body, REMOTE)
        # A block of what is in memory: what stays on disk when two hours are over.
        name = json.loads(server.http("/api/v1/admin/tsdb/snapshot", b""))["data"]["name"]
        cpu_s = server.settle()
        return result("Prometheus", data, cpu_s, size_of(os.path.join(directory, "data", "snapshots", name)),
                      *promql_questions(server, data))
    finally:
        server.end()


def victoria_metrics(data, directory):
    program = debian("victoria-metrics", "victoria-metrics", os.path.join(DEPS, "victoria-metrics"))
    port = lab.free_port()
    server = launch([program, "-httpListenAddr=127.0.0.1:%d" % port, "-storageDataPath=data", "-retentionPeriod=100y",
                     "-search.disableCache", "-search.latencyOffset=0s"], "http://127.0.0.1:%d" % port, directory)
    try:
        server.wait("/health")
        for body in bodies(data, "remote"):
            server.http("/api/v1/write", body, REMOTE)
        server.http("/internal/force_flush")
        server.http("/internal/force_merge")
        cpu_s = server.settle()
        return result("VictoriaMetrics", data, cpu_s, size_of(os.path.join(directory, "data")),
                      *promql_questions(server, data))
    finally:
        server.end()


# -- ours --


def ours(data, bin_dir):
    """Two lines: what is comparable, and the whole."""
    words = [os.path.join(bin_dir, "bench_store"), "--json", "--only", "hour", "--hosts", str(data["hosts"]), "--seconds",
             str(data["seconds"]), "--rounds", str(ROUNDS)]
    text = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {x["name"]: x["value"] for x in map(json.loads, re.findall(r"^\{.*\}$", text, re.MULTILINE))}
    line = {"cpu_ns": 1e3 / found["hour_values_per_cpu_second_all"], "top_ms": found["top10_warm"],
            "history_ms": found["history_1_metric_warm"]}
    everything = sum(v for k, v in found.items() if k.startswith("hour_sealed_")) + found["hour_catalogue"]
    return [dict(line, name="procfleet, every value", bytes=found["hour_sealed_raw"]),
            dict(line, name="procfleet, with its tiers", bytes=everything)]


# -- the table --

HEAD = "| what | bytes a value | ingest, CPU ns a value | top 10, ms | history, ms |\n|---|---:|---:|---:|---:|"


def number(x):
    return "%.3g" % x if x < 1000 else "%.0f" % x


def row(r, base):
    """Each figure, and how many times ours it is."""
    cells = ["%s (%sx)" % (number(r[k]), number(r[k] / base[k])) if r is not base else number(r[k])
             for k in ("bytes", "cpu_ns", "top_ms", "history_ms")]
    return "| %s | %s |" % (r["name"], " | ".join(cells))


def main(bin_dir, hosts, seconds, as_json):
    """0; 1 when a peer failed."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="procfleet-peers-") as top:
        where = os.path.join(top, "data")
        for kind in ("remote", "rows"):
            os.makedirs(os.path.join(where, kind))
        made = subprocess.run([os.path.join(bin_dir, "bench_peers_data"), where, str(hosts), str(seconds)], check=True,
                              stdout=subprocess.PIPE)
        data = dict(json.loads(made.stdout), dir=where, hosts=hosts, seconds=seconds)
        lines = ours(data, bin_dir)
        if not as_json:
            print("%d hosts, %d s at 1 Hz, %.1f M values; in brackets: how many times procfleet's\n\n%s\n%s\n%s" %
                  (hosts, seconds, data["values"] / 1e6, HEAD, row(lines[0], lines[0]), row(lines[1], lines[0])), flush=True)
        for name, peer in (("ClickHouse", clickhouse), ("VictoriaMetrics", victoria_metrics), ("Prometheus", prometheus)):
            directory = os.path.join(top, name)
            os.mkdir(directory)
            try:
                line = functools.partial(peer, data, directory)()
                lines.append(line)
                said = row(line, lines[0])
            except lab.Missing as e:
                line, said = {"name": name, "skipped": str(e)}, "| %s | skipped: %s | | | |" % (name, e)
            except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as e:
                line, said, failed = {"name": name, "failed": str(e)}, "| %s | failed: %s | | | |" % (name, e), True
            print(json.dumps(line) if as_json else said, flush=True)
            shutil.rmtree(directory, ignore_errors=True)
        if as_json:
            for line in lines[:2]:
                print(json.dumps(line), flush=True)
    return 1 if failed else 0
