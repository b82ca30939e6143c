"""procfleet diff and gate over a directory of run files, without a collector: the planted regression of
tests/common/fixtures/planted (eight runs main-*, eight runs pr-* that take 8 % more CPU time), exit codes, formats, --wait."""

import csv
import io
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

BIN = os.environ["PROCFLEET_BIN"]
PROCFLEET = os.path.join(BIN, "procfleet")
PLANTED = "tests/common/fixtures/planted"


def run(*args, expect):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PROCFLEET_")}
    r = subprocess.run([PROCFLEET, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
                       env=env, timeout=120)
    assert r.returncode == expect, "%s: exit code %d\n%s%s" % (" ".join(args), r.returncode, r.stdout, r.stderr)
    return r.stdout if expect != 2 else r.stderr


def gate(*limits, a="main-*", b="pr-*", runs=PLANTED, expect, more=()):
    return run("gate", b, "--against", a, "--runs", runs, *more, *(w for limit in limits for w in ("--fail-on", limit)),
               expect=expect)


def verdicts():
    out = gate("cpu_time > 5%", "read_bytes > 5%", expect=6)
    lines = out.splitlines()
    assert lines[0].startswith("regression  cpu_time +8.6 % (+7.0 … +10.0 %), limit 5 %, q "), out
    assert lines[0].endswith(", 8+8 runs") and lines[1].startswith("ok          read_bytes "), out
    assert "A  main-*  8 runs, 4 hosts each, class Windows 11/26100/i7-12700/12c/32G, coverage 100.00 %" in lines, out
    out = gate("cpu_time > 5%", more=("--class", "os_name,cores"), expect=6)
    assert "A  main-*  8 runs, 4 hosts each, class Windows 11/12c, coverage 100.00 %" in out.splitlines(), out
    assert "--class: 'nothing' is no name" in gate("cpu_time > 5%", more=("--class", "os_name,nothing"), expect=2)
    gate("cpu_time > 20%", expect=0)
    gate('cpu_time of "cc1" > 5%', expect=6)
    assert gate("cpu_time > 8.5%", a="main-*", expect=6).startswith("regression")
    assert gate("cpu_time > 9%", expect=5).startswith("undecided ")
    gate("cpu_time < -5%", a="pr-*", b="main-*", expect=6)
    gate("cpu_time > 5%", a="pr-*", b="main-*", expect=0)


def refusals():
    out = gate("cpu_time > 5%", b="pr-1", expect=5)
    assert out.startswith("refused     cpu_time") and "8+1 runs are too few for a verdict" in out, out
    out = gate("cpu_time > 5%", b="nothing", expect=5)
    assert "no verdict: no run of B can be judged" in out and out.startswith("refused     cpu_time, limit 5 %: no_runs"), out
    r = subprocess.run([PROCFLEET, "gate", "pr-*", "other", "--against", "main-*", "--runs", PLANTED, "--fail-on", "cpu_time > 5%"],
                       capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
    assert r.returncode == 6 and r.stderr == "procfleet gate: there is no run 'other'\n", r
    gate("cpu_time > 5%", "starts > 10", a="main-?", b="pr-?", expect=6)  # 5+5 runs
    assert "6 on each side" in gate("cpu_time > 5%", "starts > 10", a="main-?", b="pr-?", more=("--looks", "4"), expect=5)
    gate("write_bytes > 5%", expect=5)
    for limit in ("cpu_time", "cpu_tim > 5%", "cpu_time > 5MiB", "private_bytes > 5%"):
        assert "--fail-on" in gate(limit, expect=2)
    assert "cpu_time" in gate("cpu_tim > 5%", expect=2)
    run("gate", "pr-*", "--runs", PLANTED, "--fail-on", "cpu_time > 5%", expect=2)
    run("gate", "pr-*", "--against", "main-*", "--runs", PLANTED, expect=2)
    run("gate", "pr-*", "--against", "main-*", "--runs", PLANTED + "/none", "--fail-on", "cpu_time > 5%", expect=1)


def diffs():
    args = ("diff", "main-*", "pr-*", "--runs", PLANTED, "--group-by", "image", "--limit", "2%")
    out = run(*args, expect=0)
    assert "can carry 321 tests, 10 made" in out, out
    says = {line[:21].strip(): line.split()[-1] for line in out.splitlines()[4:14]}
    assert says["cpu_time"] == "more" and says["duration"] == "same", says
    answer = json.loads(run(*args, "--format", "json", expect=0))
    rows = {(r["quantity"], r.get("group")): r for r in answer["rows"]}
    row = rows["cpu_time", "cc1"]
    assert row["says"] == "more" and 0.07 < row["low"] < row["effect"] < row["high"] < 0.11, row
    assert len(row["runs_a"]) == 8 and [r["name"] for r in answer["a"]["runs"]][0] == "main-0", answer["a"]
    table = list(csv.DictReader(io.StringIO(run(*args, "--format", "csv", expect=0))))
    assert len(table) == 10 and float(table[1]["effect"]) == rows["cpu_time", None]["effect"], table[1]
    swapped = json.loads(run("diff", "pr-*", "main-*", "--runs", PLANTED, "-m", "cpu_time", "-f", "json", expect=0))
    assert abs((1 + swapped["rows"][0]["effect"]) * (1 + rows["cpu_time", None]["effect"]) - 1) < 1e-9
    run("diff", "main-*", "pr-1", "--runs", PLANTED, expect=5)
    run("diff", "main-*", "--runs", PLANTED, expect=2)
    run("diff", "main-*", "pr-*", "--runs", PLANTED, "-m", "private_bytes", expect=2)
    run("diff", "main-*", "pr-*", "--runs", PLANTED, "--limit", "x", expect=2)


def waiting():
    with tempfile.TemporaryDirectory() as lib:
        names = sorted(os.listdir(PLANTED))
        for name in names[::2]:
            shutil.copy(os.path.join(PLANTED, name), lib)

        def later():
            time.sleep(1)
            with tempfile.TemporaryDirectory(dir=lib) as aside:
                for name in names[1::2]:
                    shutil.copy(os.path.join(PLANTED, name), aside)
                for name in names[1::2]:
                    os.rename(os.path.join(aside, name), os.path.join(lib, name))

        thread = threading.Thread(target=later)
        thread.start()
        gate("cpu_time > 5%", runs=lib, b="pr-*", more=("--wait", "0s"), expect=5)
        out = gate("cpu_time > 5%", runs=lib, b="pr-1", more=("--wait", "60s"), expect=5)
        assert "8+1 runs" in out or "too few" in out, out
        thread.join()
        gate("cpu_time > 5%", runs=lib, more=("--wait", "60s"), expect=6)
        with open(os.path.join(lib, names[3]), "r+b") as f:  # one damaged byte
            f.seek(200)
            f.write(bytes([f.read(1)[0] ^ 1]))
        env = {k: v for k, v in os.environ.items() if not k.startswith("PROCFLEET_")}
        r = subprocess.run([PROCFLEET, "gate", "pr-*", "--against", "main-*", "--runs", lib, "--fail-on", "cpu_time > 5%"],
                           capture_output=True, text=True, env=env, timeout=60)
        assert r.returncode == 1 and names[3] + ": the file is damaged" in r.stderr, r


def main():
    verdicts()
    refusals()
    diffs()
    waiting()


main()
