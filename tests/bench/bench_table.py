"""scripts/bench: its table holds what the programs print, its exit code what they reached. Programs that are made up print what
is to be judged; the real ones are asked whether they know their words, and a few of them run in their small form."""

import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

BIN = os.environ["PROCFLEET_BIN"]
SCRIPT = os.path.join(os.getcwd(), "scripts", "bench")
loader = importlib.machinery.SourceFileLoader("bench_script", SCRIPT)
spec = importlib.util.spec_from_loader("bench_script", loader)
bench = importlib.util.module_from_spec(spec)
loader.exec_module(bench)
failures = []


def check(what, right, seen):
    if not right:
        failures.append(f"{what}: {seen}")


def script(*words):
    r = subprocess.run([sys.executable, "-B", SCRIPT, "--no-build", *words], stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, timeout=120, check=False)
    return r.returncode, r.stdout, r.stderr


def figure(name, value, goal, better="less"):
    return json.dumps({"name": name, "value": value, "unit": "ns", "goal": goal, "better": better})


def made_up(directory, lines, code=0):
    """bench_window, which is not counted, as a program that prints these lines."""
    path = os.path.join(directory, "bench_window")
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + f"\nEND\nexit {code}\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return script("--bin", directory, "--only", "bench_window")


def judges():
    held, missed = figure("quick", 3, 4), figure("slow", 5, 4)
    cases = [  # lines, exit code of the program; exit code of the script, what its output must hold
        ([held], 0, 0, r"quick +≤ 4 +3 ns +held\n"),
        ([held, missed], 0, 1, r"slow +≤ 4 +5 ns +MISSED\n"),
        ([figure("rate", 5, 4, "more")], 0, 0, r"rate +≥ 4 +5 ns +held\n"),
        ([figure("rate", 3, 4, "more")], 0, 1, r"rate +≥ 4 +3 ns +MISSED\n"),
        ([figure("plain", 3, None)], 0, 0, r"no goals\n"),
        (["not json", "{broken", held], 0, 0, r"\n1 goals held, 0 missed"),
        ([held], 3, 1, r"failed: exit code 3\n"),
        ([], 0, 1, r"failed: printed no figures\n"),
        (["skipped: no recordings"], 77, 0, r"skipped: no recordings\n"),
    ]
    with tempfile.TemporaryDirectory() as d:
        for lines, code, wanted, pattern in cases:
            got, out, _ = made_up(d, lines, code)
            check(f"{lines}, exit code {code}", got == wanted and re.search(pattern, out), (got, out))
        got, out, _ = script("--bin", os.path.join(d, "nowhere"), "--only", "bench_window")
        check("a program that is not there", got == 1 and "failed: " in out, (got, out))
    with_count = {"goal": None, "better": "less", "value": 1.0, "instructions": 200.0, "instructions_goal": 150}
    check("too many instructions", bench.held(with_count) is False, with_count)
    rate = {"goal": 4, "better": "more", "value": 3, "unit": "M events/s", "name": "rate"}
    check("a rate of a slow machine", bench.held(rate, 0.5) is True and bench.held(rate, 1.0) is False, rate)
    size = {"goal": 4, "better": "less", "value": 5, "unit": "B/value", "name": "size"}
    check("a size of a slow machine", bench.held(size, 0.5) is False, size)
    ns = {"goal": 4, "better": "less", "value": 5, "unit": "ns/value", "name": "time"}
    check("a time of a slow machine", bench.held(ns, 0.5) is True and bench.held(ns, 2.0) is False, ns)
    alone = []
    bench.join(alone, {"pass": {"instructions": 3.0, "unit": "step", "goal": 2}}, None)
    check("counted alone", len(alone) == 1 and alone[0]["held"] is False and "3/step (≤ 2)" in bench.row(alone[0]), alone)
    with_count["instructions_goal"] = 250
    check("few instructions", bench.held(with_count) is True, with_count)


def words_are_known():
    for name, full, quick, counts in bench.RUNS:
        ways = [full.split() + ["--json"], quick.split() + ["--quick", "--json"]] + ([["--count"]] if counts else [])
        for words in ways:
            r = subprocess.run([os.path.join(BIN, name), *words, "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=60, check=False)
            check(f"{name} {words}", r.returncode == 0, r.stderr or r.stdout)
    listed = set(re.findall(r"\bbench_\w+", bench.__doc__)) | {r[0] for r in bench.RUNS}
    there = {f for f in os.listdir(BIN) if re.fullmatch(r"bench_\w+", f)} - {"bench_ring", "bench_spool",  # they have no goals
                                                                                   "bench_peers_data"}  # nor has it figures
    check("programs that are neither run nor said to be left out", not there - listed, there - listed)


def real_programs():
    code, out, err = script("--bin", BIN, "--json", "--quick", "--only", "bench_(decode|cipher|etl_clr|console --only fleet)")
    lines = [json.loads(line) for line in out.splitlines()]
    check("exit code", code == int(any(x.get("held") is False for x in lines)), (code, err))
    check("the machine", lines and lines[0]["cores"] >= 1 and lines[0]["kernel"] and lines[0]["load"] >= 0, lines[:1])
    check("nothing failed", not any("failed" in x for x in lines), out)
    names = {x["name"]: x for x in lines if "name" in x}
    wanted = ["decode_aggregate", "decode_only", "hosts_4000"]
    check("their figures", all(n in names and names[n]["value"] > 0 for n in wanted), sorted(names))
    if shutil.which("valgrind"):
        decode = names.get("decode_aggregate", {})
        check("instructions", 20 < decode.get("instructions", 0) < 2000 and decode.get("instructions_unit") == "event", decode)
    else:
        print("skipped: valgrind is not installed")


def beside_peers():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import peers
    ours = {"name": "ours", "bytes": 0.5, "cpu_ns": 40, "top_ms": 3, "history_ms": 2}
    theirs = {"name": "theirs", "bytes": 5, "cpu_ns": 20, "top_ms": 4500, "history_ms": 2}
    check("our own figures", peers.row(ours, ours) == "| ours | 0.5 | 40 | 3 | 2 |", peers.row(ours, ours))
    check("a peer's, and how many times ours", peers.row(theirs, ours) == "| theirs | 5 (10x) | 20 (0.5x) | 4500 (1500x) | 2 (1x) |",
          peers.row(theirs, ours))
    with tempfile.TemporaryDirectory() as d:
        made = subprocess.run([os.path.join(BIN, "bench_peers_data"), d, "1", "10"], capture_output=True, check=False)
        check("nowhere to write its data", made.returncode != 0 and b"remote" in made.stderr, made)
        for kind in ("remote", "rows"):
            os.mkdir(os.path.join(d, kind))
        made = subprocess.run([os.path.join(BIN, "bench_peers_data"), d, "2", "20"], capture_output=True, check=True)
        data = dict(json.loads(made.stdout), dir=d)
        wide = 1 + len("gen-1") + 4 + 8 + 8 + 8 * len(data["metrics"])  # of a row
        rows, remote = list(peers.bodies(data, "rows")), list(peers.bodies(data, "remote"))
        check("its rows", (len(rows), sum(map(len, rows))) == (4, data["rows"] * wide), [len(r) for r in rows])
        check("its values", data["values"] == data["rows"] * len(data["metrics"]) > 0, data)
        samples = sum(unframed(r).count(b"procfleet_cpu_time") for r in remote)
        check("its series", len(remote) == 4 and samples >= 4 * 140, samples)


def unframed(body):
    """A message in snappy's framing, of literals alone."""
    at = size = 0
    while True:
        size |= (body[at] & 127) << 7 * at
        at += 1
        if body[at - 1] < 128:
            break
    message = b""
    while at < len(body):
        n = int.from_bytes(body[at + 1:at + 3], "little") + 1
        message += body[at + 3:at + 3 + n]
        at += 3 + n
    return message if len(message) == size else b""


def wrong_words():
    check("--only nothing", script("--only", "bench_nothing")[0] == 2, "not 2")
    check("--nothing", script("--nothing")[0] == 2, "not 2")
    code, out, _ = script("--help")
    check("--help", code == 0 and out.startswith("bench [--quick]"), out)


if os.path.exists(os.path.join(BIN, "bench_decode")):
    judges()
    words_are_known()
    real_programs()
    wrong_words()
    beside_peers()
else:
    print("skipped: benchmarks are not built")
    sys.exit(77)
for f in failures:
    print("bench_table:", f, file=sys.stderr)
sys.exit(1 if failures else 0)
