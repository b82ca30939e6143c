"""`etl stacks --event switch --ready` and `--event virtual --live`: waits told apart from what stood ready, allocations from what was freed."""

import collections
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "e2e"))

import etl_file as made  # noqa: E402
from fleet import BIN, check, ensure  # noqa: E402

ETL = os.path.join(BIN, "procfleet-etl")
WAITING, READY = 5, 1


def folded(*args):
    found = collections.Counter()
    for line in subprocess.run([ETL, "stacks", *args, "--format", "folded"], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines():
        path, weight = line.rsplit(" ", 1)
        found[tuple(path.split(";"))] += int(weight)
    return found


def perfinfo(ms, group, opcode, payload, version=2):
    """A kernel record that names no thread."""
    return struct.pack("<HBBHBBq", version, 17, 0xC0, 0x10 + len(payload), opcode, group, int(ms * made.FREQUENCY / 1000)) + payload


def switch(ms, new, old, state=WAITING):
    return perfinfo(ms, 5, 36, struct.pack("<IIbbBbbbbbII", new, old, 8, 8, 0, 0, 0, 0, state, 0, 1, 0))


def ready(ms, tid):
    return perfinfo(ms, 5, 50, struct.pack("<IbbBB", tid, 0, 0, 0, 0))


def virtual(ms, opcode, pid, base, size):
    return made.system(ms, 2, opcode, struct.pack("<QQII", base, size, pid, 0x1000), version=2, pid=pid, tid=pid + 1)


def waits(room):
    a, b = 0x400000, 0x500000
    path = made.write(os.path.join(room, "waits.etl"), [
        made.process(0, 3, 100, 4, "a.exe"), made.process(0, 3, 200, 4, "b.exe"), made.thread(0, 3, 100, 11), made.thread(0, 3, 200, 22),
        made.image(0, 100, a, 0x1000, "C:\\a.exe", opcode=3), made.image(0, 200, b, 0x1000, "C:\\b.exe", opcode=3),
        switch(1, 11, 0, READY), switch(2, 22, 11),                                # 11 waits
        ready(5, 11), made.stack(5.1, 5, 200, 22, [b + 5, b + 6]),                 # 22 wakes it
        switch(9, 11, 22), made.stack(9.1, 9, 100, 11, [a + 1, a + 2]),            # it is put on: 3 ms waited, 4 ms ready
        ready(10, 22), made.stack(10.1, 10, 100, 11, [], 38, 77),                  # 11 wakes 22, its stack is told by a key
        switch(12, 22, 11, READY), made.stack(12.1, 12, 200, 22, [b + 1, b + 2]),  # 22: 1 ms waited, 2 ms ready; 11 was preempted
        made.stack(13, 0, 0, 0, [a + 7, a + 8], 36, 77),                           # the key
        switch(15, 11, 22), made.stack(15.1, 15, 100, 11, [a + 3]),                # 11: 3 ms ready, nobody woke it
        switch(20, 22, 11), made.stack(20.1, 20, 200, 22, [b + 3]),                # 22: 5 ms, nobody is told to have woken it
        ready(21, 11)])                                                            # never put on again
    whole, split = folded(path, "--event", "switch"), folded(path, "--event", "switch", "--ready")
    check("how long threads were not on a CPU", whole, {("a.exe", "a.exe+0x2", "a.exe+0x1"): 7000000, ("b.exe", "b.exe+0x2", "b.exe+0x1"): 3000000,
                                                        ("a.exe", "a.exe+0x3"): 3000000, ("b.exe", "b.exe+0x3"): 5000000})
    check("what stood ready apart", split, {
        ("a.exe", "[waiting]", "a.exe+0x2", "a.exe+0x1"): 3000000, ("a.exe", "[ready]", "b.exe", "b.exe+0x6", "b.exe+0x5"): 4000000,
        ("b.exe", "[waiting]", "b.exe+0x2", "b.exe+0x1"): 1000000, ("b.exe", "[ready]", "a.exe", "a.exe+0x8", "a.exe+0x7"): 2000000,
        ("a.exe", "[ready]", "a.exe+0x3"): 3000000, ("b.exe", "[waiting]", "b.exe+0x3"): 5000000})
    check("the sum is that without", sum(split.values()), sum(whole.values()))
    check("of one process", sum(folded(path, "--event", "switch", "--ready", "--pid", "100").values()), 10000000)
    check("who made threads ready", folded(path, "--event", "ready"), {
        ("b.exe", "b.exe+0x6", "b.exe+0x5"): 1, ("a.exe", "a.exe+0x8", "a.exe+0x7"): 1, ("b.exe", "[no stack]"): 1})
    rows = {r["frame"]: r["total"] for r in json.loads(subprocess.run([ETL, "stacks", path, "--event", "switch", "--ready", "--format", "json"],
                                                                      capture_output=True, timeout=60, check=True).stdout)}
    check("rows", [int(rows["[ready]"]), int(rows["[waiting]"])], [9000000, 9000000])


def live(room):
    a, at = 0x400000, 0x10000000
    path = made.write(os.path.join(room, "live.etl"), [
        made.process(0, 3, 100, 4, "a.exe"), made.process(0, 3, 200, 4, "b.exe"), made.thread(0, 3, 100, 101), made.thread(0, 3, 200, 201),
        made.image(0, 100, a, 0x1000, "C:\\a.exe", opcode=3),
        virtual(1, 98, 100, at, 0x10000), made.stack(1.1, 1, 100, 101, [a + 1]),             # reserved
        virtual(2, 98, 100, at + 0x2000, 0x1000), made.stack(2.1, 2, 100, 101, [a + 2]),     # a part of it committed
        virtual(3, 98, 200, at, 0x8000),                                                     # another process, the same place
        virtual(4, 99, 100, at + 0x8000, 0x4000),                                            # freed in part
        virtual(5, 98, 100, at + 0x100000, 0x5000), made.stack(5.1, 5, 100, 101, [], 38, 9),  # by a key
        virtual(6, 98, 100, at + 0x200000, 0x7000), made.stack(6.1, 6, 100, 101, [a + 3]),
        virtual(7, 99, 100, at + 0x200000, 0x7000),                                          # all of it freed
        virtual(8, 99, 100, at + 0x900000, 0x1000),                                          # was there before
        made.stack(9, 0, 0, 0, [a + 4], 36, 9)])
    check("all that was allocated", sum(folded(path, "--event", "virtual").values()), 0x10000 + 0x1000 + 0x8000 + 0x5000 + 0x7000)
    check("what is there at the end", folded(path, "--event", "virtual", "--live"), {
        ("a.exe", "a.exe+0x1"): 0x10000 - 0x1000 - 0x4000, ("a.exe", "a.exe+0x2"): 0x1000, ("a.exe", "a.exe+0x4"): 0x5000, ("b.exe", "[no stack]"): 0x8000})
    check("of one process", sum(folded(path, "--event", "virtual", "--live", "--pid", "200").values()), 0x8000)
    rows = json.loads(subprocess.run([ETL, "stacks", path, "--event", "virtual", "--live", "--format", "json"], capture_output=True, timeout=60,
                                     check=True).stdout)
    check("shares are of what is there", round(sum(r["self_share"] for r in rows)), 100)


def full(room):
    """More weights and ranges than there is room for: told, and in 64 MiB."""
    records, parts, size = [made.process(0, 3, 100, 4, "a.exe"), made.thread(0, 3, 100, 101)], [], 0
    for i in range(300000):
        records.append(virtual(1 + i / 1000, 98, 100, 0x10000000 + i * 0x2000, 0x1000))
        size += 0x40
        if size > 900000:
            parts.append(records)
            records, size = [], 0
    parts.append(records)
    path = made.write(os.path.join(room, "full.etl"), parts[0])
    with open(path, "ab") as f:
        for p in parts[1:]:
            f.write(made.buffer(p, 0))
    helper = ("import os,subprocess,sys; c=subprocess.Popen(sys.argv[1:],stdout=subprocess.DEVNULL,stderr=subprocess.PIPE);"
              "t=c.stderr.read().decode(); _,s,u=os.wait4(c.pid,0); print(s,u.ru_maxrss); print(t)")  # a child's memory begins with its parent's
    said = subprocess.run([sys.executable, "-c", helper, ETL, "stacks", path, "--event", "virtual", "--live", "--format", "folded"], capture_output=True,
                          text=True, timeout=120, check=True).stdout
    status, resident = map(int, said.split("\n", 1)[0].split())
    ensure("what has no room is told", status == 0 and "allocations had no room" in said, said)
    if os.environ.get("PROCFLEET_SANITIZED") != "1":
        ensure("in at most 64 MiB: %d KiB" % resident, resident <= 65536)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        waits(scratch)
        live(scratch)
        full(scratch)
        for usage, why in ((["--ready"], "--ready is of --event switch"), (["--live", "--event", "switch"], "--live is of --event virtual")):
            r = subprocess.run([ETL, "stacks", os.path.join(scratch, "live.etl"), *usage], capture_output=True, text=True, timeout=60, check=False)
            ensure("%s is refused elsewhere" % usage[0], r.returncode == 2 and why in r.stderr, r)
