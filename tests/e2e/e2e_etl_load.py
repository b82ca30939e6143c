"""procfleet-etl load: recordings become run files whose totals are those of `etl summary`, named by a pattern; procfleet lists,
shows, compares and reports them without a collector."""

import json
import os
import shutil
import subprocess
import tempfile

from fleet import BIN, check, corpus, ensure

PUBLIC = corpus("public")
ETL, PROCFLEET = os.path.join(BIN, "procfleet-etl"), os.path.join(BIN, "procfleet")
RECORDINGS = ("perfview-win81-x86.etl", "net.4.5.x86-win7.etl.xz", "diaghub.kernel.1.etl.xz", "tx-KernelNetwork.etl.xz",
              "net.4.5.2.x64.etl.xz")
NAMES = ("Cold_start_%dms%s.20260101-10%02d00", "{case}_{ms}ms{host}.{time}")
QUANTITIES = {"cpu_time": "cpu_time", "context_switches": "switches_in", "disk_read_bytes": "disk_read_bytes",
              "disk_write_bytes": "disk_write_bytes", "hard_faults": "hard_faults", "image_loads": "image_loads",
              "tcp_send_bytes": "tcp_send", "threads_started": "threads_started"}


def run(program, *args, expect=0):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PROCFLEET_") or k == "PROCFLEET_BIN"}
    r = subprocess.run([program, *args], capture_output=True, text=True, timeout=120, check=False, env=env)
    if expect is not None and r.returncode != expect:
        ensure("%s gives %d" % (" ".join(args), expect), False, (r.returncode, r.stdout[-500:], r.stderr))
    return r.stdout, r.stderr


def ask(program, *args, expect=0):
    return json.loads(run(program, *args, "--format", "json", expect=expect)[0])


def totals(path):
    own = ask(ETL, "summary", path)["procfleet"]
    found = {"processes": len(own["instances"]), "starts": sum(i["origin"] == "start" for i in own["instances"]),
             "ends": sum("exit_time" in i for i in own["instances"])}
    for quantity, key in QUANTITIES.items():
        values = [int(i[key]) for i in own["instances"] if key in i]
        found[quantity] = sum(values) if any(values) else None
    return found


def files(room):
    """Each recording under a name that says case, time and host."""
    for i, name in enumerate(RECORDINGS):
        ending = ".etl.xz" if name.endswith(".xz") else ".etl"
        shutil.copy(os.path.join(PUBLIC, name), os.path.join(room, NAMES[0] % (3000 + i, "SRV", i) + ending))
    shutil.copy(os.path.join(PUBLIC, "CldFlt0.etl"), os.path.join(room, "odd.etl"))
    open(os.path.join(room, "readme.txt"), "w").close()


def main():
    with tempfile.TemporaryDirectory() as top:
        room, lib = os.path.join(top, "in"), os.path.join(top, "lib")
        os.mkdir(room)
        files(room)
        out, err = run(ETL, "load", room, "--name", NAMES[1], "-o", lib, "--format", "json", expect=1)
        loaded = json.loads(out)
        check("those that fit", len(loaded), len(RECORDINGS))
        ensure("one that does not is told", "odd.etl: its name does not fit" in err, err)
        check("their names", {(r["name"], r["host"], r["labels"]) for r in loaded},
              {("Cold_start", "SRV", "ms=%d time=20260101-10%02d00" % (3000 + i, i)) for i in range(len(RECORDINGS))})
        listed = ask(PROCFLEET, "run", "list", "--runs", lib)
        check("runs of a directory", sorted(r["labels"] for r in listed), sorted(r["labels"] for r in loaded))
        check("in order of time, the newest first", [r["began_time"] for r in listed],
              sorted((r["began_time"] for r in listed), key=int, reverse=True))
        check("by a label", [r["labels"] for r in ask(PROCFLEET, "run", "list", "--runs", lib, "--label", "ms=30*",
                                                      "--label", "time=*-100200")], ["ms=3002 time=20260101-100200"])
        ids = {r["labels"].split()[0]: r["id"] for r in listed}
        seen = set()
        metrics = [w for q in ("processes", "starts", "ends", *QUANTITIES) for w in ("-m", q)]
        for i, name in enumerate(RECORDINGS):
            wanted = totals(os.path.join(PUBLIC, name))
            run_name = "Cold_start@%s" % ids["ms=%d" % (3000 + i)]
            found = {}  # a quantity that both have is compared
            for other in ids.values():
                if other not in run_name:
                    answer = ask(PROCFLEET, "diff", run_name, "Cold_start@" + other, "--runs", lib, "--class", "os", *metrics,
                                 expect=5)
                    found.update({r["quantity"]: round(r["runs_a"][0]) for r in answer["rows"] if r["runs_a"]})
            for quantity, value in wanted.items():
                if quantity in found or value is None:
                    check("%s: %s" % (name, quantity), found.get(quantity, 0), value or 0)
                    seen.add(quantity)
            shown = ask(PROCFLEET, "run", "show", run_name, "--runs", lib, "-n", "1000")
            check("%s: rows of images add up" % name, sum(int(r.get("cpu_time", 0)) for r in shown[:-1]), wanted["cpu_time"] or 0)
            check("%s: and so do processes" % name, sum(r["processes"] for r in shown[:-1]), wanted["processes"])
        check("each figure in some recording", seen, {"processes", "starts", "ends", *QUANTITIES})
        before = {f: open(os.path.join(lib, f), "rb").read() for f in os.listdir(lib)}
        run(ETL, "load", room, "--name", NAMES[1], "-o", lib, expect=1)
        check("made again they are the same", {f: open(os.path.join(lib, f), "rb").read() for f in os.listdir(lib)}, before)
        twins = [os.path.join(top, d) for d in ("one", "two")]
        for i, d in enumerate(twins):
            os.mkdir(d)
            shutil.copy(os.path.join(PUBLIC, RECORDINGS[3 * i]), os.path.join(d, "same.etl" if i == 0 else "same.etl.xz"))
        run(ETL, "load", *twins, "-o", os.path.join(top, "both"))
        check("two files of one name are two runs", sorted(os.listdir(os.path.join(top, "both"))), ["same-2.pfr", "same.pfr"])
        page = os.path.join(top, "r.html")
        run(PROCFLEET, "report", "Cold_start", "--runs", lib, "-o", page)
        ensure("a report", "<caption" in open(page, encoding="utf-8").read())
        _, err = run(ETL, "load", room, "--name", "{case}{host}", "-o", lib, expect=2)
        ensure("a pattern that cannot tell is refused", "nothing tells where one ends" in err, err)
        run(ETL, "load", room, "--name", "{case", "-o", lib, expect=2)
        run(ETL, "load", room, expect=2)
        plain = os.path.join(top, "plain")
        run(ETL, "load", os.path.join(PUBLIC, RECORDINGS[0]), "-o", plain)
        check("without a pattern it has the file's name", [r["name"] for r in ask(PROCFLEET, "run", "list", "--runs", plain)],
              ["perfview-win81-x86"])
        _, err = run(PROCFLEET, "run", "show", "nothing", "--runs", plain, expect=1)
        ensure("a run that is not there", "no run 'nothing'" in err, err)


main()
