"""`etl stacks`: sums, modules, methods and stacks against figures computed independently; joins, keys, symbols and formats on recordings made
up here."""

import base64
import collections
import html
import json
import lzma
import os
import re
import resource
import shutil
import struct
import subprocess
import tempfile

import etl_file as made
from fleet import BIN, ROOT, check, corpus, ensure

ETL = os.path.join(BIN, "procfleet-etl")
IMAGE_ID, CLR = "b3e675d7-2554-4f18-830b-2762732560de", "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"
RUNDOWN = "a669021c-c450-4609-a035-5af59af4df18"
KERNEL = 0xFFFFF80000000000


def run(*args, expect=0, binary=False):
    r = subprocess.run([ETL, "stacks", *args], capture_output=True, text=not binary, timeout=120, check=False)
    if r.returncode != expect:
        ensure("stacks %s gives %d" % (" ".join(args), expect), False, (r.returncode, r.stderr))
    return r.stdout


def folded(*args):
    found = collections.Counter()
    for line in run(*args, "--format", "folded").splitlines():
        path, weight = line.rsplit(" ", 1)
        found[tuple(path.split(";"))] += int(weight)
    return found


def recording(name):
    path = os.path.join(corpus("public"), name + ".etl")
    return path if os.path.exists(path) else path + ".xz"


def plain(stacks):
    return collections.Counter({k: n for k, n in stacks.items() if k[1:2] != ("[interrupt]",) and k[0] != "Idle"})


def module(frame):
    """Of a leaf: the module, None for an address, "" for a method."""
    return None if frame.startswith("0x") else frame.rsplit("+0x", 1)[0] if "+0x" in frame else ""


def real(name):
    path = recording(name)
    with open(corpus("expected/stacks-%s.json" % name), encoding="utf-8") as f:
        want = json.load(f)
    with open(corpus("expected/%s.json" % name), encoding="utf-8") as f:
        samples = json.load(f)["figures"]["samples_by_pid"]
    everything = folded(path)
    check("%s: the sum is the number of samples" % name, sum(everything.values()), want["samples"]["all"])
    with_stack = sum(n for k, n in everything.items() if "[no stack]" not in k)
    check("%s: so many with a stack" % name, with_stack, sum(want["samples"]["with_stack"].values()))
    ours, theirs, cut = collections.Counter(), collections.Counter(), set()
    for k, n in plain(everything).items():
        ours[k[0], module(k[-1]) or "?"] += n
    for p in want["processes"]:
        listed = {m["module"]: m["samples"] for m in p["modules"]}
        theirs.update({(p["image"], m): n for m, n in listed.items()})
        if p["no_module"]:
            theirs[p["image"], "?"] += p["no_module"]
        if sum(listed.values()) + p["no_module"] < p["plain_samples"]:
            cut |= {k for k in ours if k[0] == p["image"] and k[1] not in listed and k[1] != "?"}  # modules of few samples are not listed
    check("%s: modules by process" % name, {k: ours[k] for k in theirs if k not in cut}, {k: n for k, n in theirs.items() if k not in cut})
    ensure("those whose list is cut have at least as many", all(ours[k] >= n for k, n in theirs.items()) and len(cut) < 40, cut)
    for p in want["processes"][:2]:
        mine = folded(path, "--pid", str(p["pid"]))
        check("%s, %d: all of its samples" % (name, p["pid"]), sum(mine.values()), samples[str(p["pid"])])
        mine = plain(mine)
        check("plain ones", sum(mine.values()), p["plain_samples"])
        leaves, inclusive = collections.Counter(), collections.Counter()
        for k, n in mine.items():
            leaves[k[-1]] += n
            if "[no stack]" not in k:
                for frame in set(k):
                    inclusive[frame] += n
        check("in methods", sum(n for k, n in leaves.items() if module(k) == ""), p["in_managed_methods"])
        for t in p["top_leaf_frames"]:
            if t["module"] != "managed code":
                frame = t["offset"] if t["module"] == "?" else "%s+%s" % (t["module"], t["offset"])
                check("where it was: " + frame, leaves[frame], t["samples"])
        for t in p["top_methods_exclusive"]:
            check("in " + t["method"], leaves[t["method"]], t["samples"])
        for t in p["top_methods_inclusive"]:
            check("in or below " + t["method"], inclusive[t["method"]], t["samples"])
    for s in want["first_sample_stacks"]:  # those figures know no methods by their unloads: there we may know more
        frames = [(f, s["frames"][i]) for i, f in enumerate(s["names"])][::-1]
        ensure("a stack in full, of %d frames" % len(frames), any(is_stack(k[-len(frames):], frames) for k in everything), frames)


def is_stack(ours, theirs):
    return len(ours) == len(theirs) and all(o == name or (name == "?" and (o == address or module(o) == "")) for o, (name, address) in zip(ours, theirs))


def kernel_image(ms):
    return made.image(ms, 0, KERNEL, 0x100000, "\\SystemRoot\\ntoskrnl.exe", opcode=3)


def method(ms, pid, number, start, size, space, name, event=143, guid=CLR):
    payload = struct.pack("<QQQIII", number, 1, start, size, 0, 8) + made.wide(space) + made.wide(name) + made.wide("void()") + b"\0\0"
    return made.event(ms, guid, event, payload, version=1, pid=pid)


def joins(room):
    base, k = 0x400000, KERNEL
    path = made.write(os.path.join(room, "joins.etl"), [
        kernel_image(0), made.process(0, 3, 100, 4, "app.exe"), made.thread(0, 3, 100, 11), made.image(0, 100, base, 0x1000, "C:\\app.exe", opcode=3),
        # both halves, apart, with another's between them; one record with both
        made.sample(1, 11, k + 1), made.stack(1.1, 1, 100, 11, [k + 1, k + 2]), made.stack(1.2, 7, 100, 11, [base + 9]),
        made.stack(1.3, 1, 100, 11, [base + 1, base + 2]),
        made.sample(2, 11, k + 1), made.stack(2.1, 2, 100, 11, [k + 1, k + 2, base + 1, base + 2]),
        # the kernel's alone; none at all; a place that the walk had left already
        made.sample(3, 11, k + 1), made.stack(3.1, 3, 100, 11, [k + 1, k + 2]), made.sample(4, 11, base + 5),
        made.sample(5, 11, base + 7), made.stack(5.1, 5, 100, 11, [base + 1, base + 2]),
        # keys: told later, used again with other frames, of both halves, never told
        made.sample(6, 11, base + 1), made.stack(6.1, 6, 100, 11, [], 38, 77), made.sample(7, 11, base + 1), made.stack(7.1, 7, 100, 11, [], 38, 77),
        made.stack(8, 0, 0, 0, [base + 1, base + 0x20], 35, 77),
        made.sample(9, 11, k + 3), made.stack(9.1, 9, 100, 11, [], 37, 78), made.stack(9.2, 9, 100, 11, [], 38, 77),
        made.stack(10, 0, 0, 0, [k + 3, k + 4], 36, 78), made.stack(10.1, 0, 0, 0, [base + 1, base + 0x30], 36, 77),
        made.stack(10.2, 0, 0, 0, [base + 1, base + 0x40], 36, 77),
        made.sample(11, 11, k + 5), made.stack(11.1, 11, 100, 11, [], 37, 79), made.stack(11.2, 11, 100, 11, [base + 1, base + 2]),
        # idle on a CPU, an interrupt, a thread of nobody
        made.sample(12, 0, k + 6), made.sample(13, 11, k + 7, flags=1), made.sample(14, 99, k + 8),
        # the image is gone: an address
        made.image(15, 100, base, 0x1000, "C:\\app.exe", opcode=2), made.sample(16, 11, base + 1)])
    a, n = "app.exe", "ntoskrnl.exe"
    want = {(a, a + "+0x2", a + "+0x1", n + "+0x2", n + "+0x1"): 2, (a, n + "+0x2", n + "+0x1"): 1, (a, "[no stack]", a + "+0x5"): 1,
            (a, a + "+0x2", a + "+0x1", a + "+0x7"): 1, (a, a + "+0x20", a + "+0x1"): 2, (a, a + "+0x30", a + "+0x1", n + "+0x4", n + "+0x3"): 1,
            (a, a + "+0x2", a + "+0x1", "[stack not recorded]", n + "+0x5"): 1, ("Idle", "[no stack]", n + "+0x6"): 1,
            (a, "[interrupt]", "[no stack]", n + "+0x7"): 1, ("[unknown process]", "[no stack]", n + "+0x8"): 1, (a, "[no stack]", "0x400001"): 1}
    found = folded(path)
    check("joins and keys", {k: n for k, n in found.items() if want.get(k) != n}, {k: n for k, n in want.items() if found.get(k) != n})
    notes = run(path)
    ensure("it is said what is missing", "13 samples, 8 of them with a stack" in notes and "1 stacks whose frames are not" in notes, notes)
    rows = {r["frame"]: r for r in json.loads(run(path, "--format", "json"))}
    check("rows: itself and with all below", [(rows[a + "+0x1"][k], rows["app.exe"][k]) for k in ("self", "total", "self_share")], [(2, 0), (7, 11), (15.4, 0)])
    check("a module alone", [r["total"] for r in json.loads(run(path, "--modules", "--format", "json")) if r["frame"] == n], [8])
    check("of a moment", sum(folded(path, "--since", "6", "--until", "7").values()), 2)
    check("keys are told after it", folded(path, "--since", "6", "--until", "7"), {(a, a + "+0x20", a + "+0x1"): 2})
    for args, word in ((["--event", "nothing"], "PROVIDER#ID"), (["--format", "svg"], "table, json"), ([path, "--format", "html"], "--merge")):
        r = subprocess.run([ETL, "stacks", path, *args], capture_output=True, text=True, timeout=60, check=False)
        ensure("%s is refused" % " ".join(args[-2:]), r.returncode == 2 and word in r.stderr, r)
    check("two recordings", sum(folded(path, path).values()), 26)
    return path


def other_events(room):
    base = 0x400000
    own = struct.pack("<HHHHQQQ", 32, 6, 0, 24, 0, base + 0x15, base + 0x105)
    def provider(ms, number, payload, stack=b"", **more):
        raw = made.event(ms, CLR, number, stack + payload, **more)
        return raw[:4] + struct.pack("<H", 1 if stack else 0) + raw[6:]  # flags: extended items follow
    def tick(ms, size, tid):
        return provider(ms, 10, struct.pack("<IIHQQ", size & 0xFFFFFFFF, 0, 1, size, 0) + made.wide("T") + struct.pack("<I", 0), version=2, pid=100, tid=tid)
    def clr_stack(ms, tid, frames):
        return provider(ms, 82, struct.pack("<HBBI%dQ" % len(frames), 1, 0, 0, len(frames), *frames), pid=100, tid=tid)
    def switch(ms, new, old):
        return made.system(ms, 5, 36, struct.pack("<IIbbBbbbbbII", new, old, 8, 8, 0, 0, 0, 0, 2, 0, 1, 0), version=2)
    path = made.write(os.path.join(room, "other.etl"), [
        made.process(0, 3, 100, 4, "app.exe"), made.thread(0, 3, 100, 11), made.thread(0, 3, 100, 12),
        method(0.5, 100, 1, base, 0x100, "N.C", "Inner"), method(0.6, 100, 2, base + 0x100, 0x100, "N.C", "Outer"),
        tick(1, 1000, 11), clr_stack(1.1, 11, [base + 5, base + 0x105]), tick(2, 500, 12), made.stack(2.1, 2, 100, 12, [base + 0x106]),
        clr_stack(2.2, 12, [base + 5, base + 0x105]), tick(3, 50, 11), provider(3.1, 80, b"", pid=100, tid=11), clr_stack(3.2, 11, [base + 5]),
        provider(4, 80, b"x", own, pid=100, tid=11),
        switch(5, 12, 11), switch(7, 11, 12), made.stack(7.1, 7, 100, 11, [base + 0x107]), switch(8, 0, 11),
        method(9, 100, 1, base, 0x100, "N.C", "Inner", event=144), method(9.5, 100, 3, base, 0x100, "", "Second"), tick(10, 7, 11),
        clr_stack(10.1, 11, [base + 5]), method(11, 100, 2, base + 0x100, 0x100, "N.C", "Outer", event=144, guid=RUNDOWN)])
    a, inner, outer = "app.exe", "N.C.Inner", "N.C.Outer"
    check("allocations, with the CLR's own stacks", folded(path, "--event", "alloc"),
          {(a, outer, inner): 1000, (a, outer): 500, (a, "[no stack]"): 50, (a, "Second"): 7})
    wide = made.write(os.path.join(room, "wide.etl"), [made.process(0, 3, 100, 4, "app.exe"), made.thread(0, 3, 100, 11),
                                                       *(tick(i, 1 << 62, 11) for i in (1, 2))])
    check("speedscope has numbers, however large", json.loads(run(wide, "--event", "alloc", "--format", "speedscope"))["profiles"][0]["weights"], [1 << 63])
    check("any event, with the stack of its header", folded(path, "--event", "*DotNETRuntime#80"), {(a, inner): 1, (a, outer, inner): 1})
    for form in ("table", "html"):
        r = subprocess.run([ETL, "stacks", path, "--event", "fault", "--format", form], capture_output=True, text=True, timeout=60, check=False)
        ensure("why there is nothing", "no hard faults are recorded" in r.stdout + r.stderr, r)
    check("by GUID", sum(folded(path, "--event", CLR + "#80").values()), 2)
    check("how long a thread had waited", folded(path, "--event", "switch"), {(a, outer): 2000000})


def differences(room, before):
    base, other = 0x400000, 0x7000
    path = made.write(os.path.join(room, "now.etl"), [
        kernel_image(0), made.process(0, 3, 700, 4, "app.exe"), made.thread(0, 3, 700, 11), made.image(0, 700, other, 0x1000, "D:\\app.exe", opcode=3)] +
        [r for i in range(1, 4) for r in (made.sample(i, 11, other + 5), made.stack(i + 0.1, i, 700, 11, [other + 5, other + 2]))])
    one, two = folded(before), folded(path)
    lines = {tuple(k.split(";")): (int(a), int(b)) for k, a, b in
             (line.rsplit(" ", 2) for line in run(path, "--diff", before, "--format", "folded").splitlines())}
    check("two recordings, stack by stack", lines, {k: (one[k], two[k]) for k in one | two})
    rows = {r["frame"]: r for r in json.loads(run(path, "--diff", before, "--format", "json"))}
    r = rows["app.exe+0x5"]
    check("what grew", [r[k] for k in ("self", "self_before", "self_growth", "total")], [3, 1, 92.3, 3])
    check("what went away", [rows["app.exe+0x1"].get(k) for k in ("self", "self_before", "self_growth")], [0, 2, -15.4])
    check("compared with itself", {r["self_growth"] for r in json.loads(run(path, "--diff", path, "--format", "json"))}, {0})
    kept = os.path.join(room, "kept.txt")
    for usage, says in ((["--diff", before, "--format", "html", "-o", kept], "as rows or --format folded"),
                        (["--format", "folded", "-o", os.path.join(room, ".", "now.etl")], "is a recording"),
                        (["--diff", before, "-o", before], "is a recording")):
        with open(kept, "w", encoding="utf-8") as f:
            f.write("kept")
        sizes = [os.path.getsize(p) for p in (path, before, kept)]
        r = subprocess.run([ETL, "stacks", path, *usage], capture_output=True, text=True, timeout=60, check=False)
        ensure("refused, and nothing is overwritten", r.returncode == 2 and says in r.stderr, r)
        check("files as they were", [os.path.getsize(p) for p in (path, before, kept)], sizes)
    ensure("formats without a before", subprocess.run([ETL, "stacks", path, "--diff", path, "--format", "html"], capture_output=True, timeout=60,
                                                      check=False).returncode == 2, base)


def tags(room, path):
    """By the innermost frame that has a tag; the first entry that fits it; modules in any case, methods without their module."""
    xml = os.path.join(room, "tags.xml")
    with open(xml, "w", encoding="utf-8") as f:
        f.write("""<?xml version='1.0'?><Tags><Tag Name=""><Tag Name="Kernel"><Tag Name="Any"><Entrypoint Module="NTOS*.exe" Method="*"/></Tag></Tag>
            <Tag Name="Mine"><Entrypoint Module="APP.EXE" Method="*"/></Tag></Tag></Tags>""")
    found = {r["frame"]: r["self"] for r in json.loads(run(path, "--tags", xml, "--format", "json"))}
    check("tags", found, {"Kernel\\Any": 8, "Mine": 4, "(no tag)": 1})
    for first, second, want in (("-5", "0", {"Kernel\\Any": 4, "Mine": 8}), ("0", "-5", {"Kernel\\Any": 8, "Mine": 4}), ("1", "1", {"Kernel\\Any": 8, "Mine": 4})):
        with open(xml, "w", encoding="utf-8") as f:
            f.write("""<Tags><Tag Name="Kernel" Priority="%s"><Tag Name="Any"><Entrypoint Module="ntos*" Method="*"/></Tag></Tag>
                <Tag Name="Mine" Priority="%s"><Entrypoint Module="app.exe" Method="*"/></Tag></Tags>""" % (first, second))
        found = {r["frame"]: r["self"] for r in json.loads(run(path, "--tags", xml, "--format", "json"))}
        check("the tag with the highest priority of a stack: %s, %s" % (first, second), found, {**want, "(no tag)": 1})
    with open(xml, "w", encoding="utf-8") as f:
        f.write("""<Tags><Tag Name="Dates"><Entrypoint Module="mscorlib*" Method="System.DateTime.*"/></Tag><Tag Name="Main">
            <Entrypoint Module="*" Method="Test.Program.Main"/></Tag></Tags>""")
    net = recording("net.4.5.2.x64")
    found = {r["frame"]: r["self"] for r in json.loads(run(net, "--pid", "3676", "--tags", xml, "--format", "json"))}
    stacks, want = folded(net, "--pid", "3676"), collections.Counter()
    for k, n in stacks.items():
        want[next(("Dates" if f.startswith("System.DateTime.") else "Main" for f in reversed(k) if f.startswith("System.DateTime.") or
                   f == "Test.Program.Main"), "(no tag)")] += n
    check("tags of methods", found, dict(want))
    for text, word in (("<Tags/>", "no stack tags"), ("<Tags><Tag", "no stack tags")):
        with open(xml, "w", encoding="utf-8") as f:
            f.write(text)
        r = subprocess.run([ETL, "stacks", path, "--tags", xml], capture_output=True, text=True, timeout=60, check=False)
        ensure("tags that are none", r.returncode == 1 and word in r.stderr, r)


def symbols(room):
    for name, base in (("crash", 0x10000), ("WriteArgument", 0x20000)):
        with open(corpus("expected/pdb-%s.json" % name), encoding="utf-8") as f:
            want = json.load(f)
        store = os.path.join(room, name)
        identity = bytes.fromhex(want["guid"].replace("-", ""))
        guid = struct.pack("<IHH", *struct.unpack(">IHH", identity[:8])) + identity[8:]
        shelf = os.path.join(store, name + ".pdb", want["guid"].replace("-", "").upper() + "%X" % want["dbi_age"])
        os.makedirs(shelf)
        packed = corpus("symbols/%s.pdb" % name) if name == "WriteArgument" else corpus("symbols/crash.pdb.xz")
        with (lzma.open(packed) if packed.endswith("xz") else open(packed, "rb")) as f, open(os.path.join(shelf, name + ".pdb"), "wb") as to:
            to.write(f.read())
        records = []
        for i, look in enumerate(want["lookups"]):
            pid = 1000 + i
            records += [made.process(i, 3, pid, 4, "p%d" % i), made.thread(i, 3, pid, pid), made.image(i, pid, base, 0x9000, "C:\\%s.exe" % name, 3),
                        made.classic(i, IMAGE_ID, 36, struct.pack("<QI", base, pid) + guid + struct.pack("<I", want["executable"]["age"]) +
                                     want["executable"]["pdb_name"].encode() + b"\0"),
                        made.sample(i + 0.5, pid, base + int(look["rva"], 16))]
        path = made.write(os.path.join(room, name + ".etl"), records)
        found = {k[0]: k[-1] for k in folded(path, "--symbols", store)}
        wrong = []
        for i, look in enumerate(want["lookups"]):
            names = look.get("any_of") or look.get("public") or [look["function"]]
            got = found["p%d" % i]
            if look["source"] == "outside" and got.startswith((name + ".exe+", "0x")):
                continue
            if got not in ["%s!%s" % (name, n) for n in names]:
                wrong.append((got, look))
        check("%s: functions at %d places" % (name, len(found)), wrong, [])
        flat = os.path.join(room, name + "-flat")
        os.mkdir(flat)
        shutil.copy(os.path.join(shelf, name + ".pdb"), flat)
        check("found flat, too", folded(path, "--symbols", flat), folded(path, "--symbols", store))
        with open(os.path.join(flat, name + ".pdb"), "r+b") as f:
            f.truncate(os.path.getsize(f.name) // 2)
        run(path, "--symbols", flat)
        if name == "crash":
            starts(path, store, room, base, guid, want)


def starts(path, store, room, base, guid, want):
    """Every function of the published .sym, at its start."""
    functions = {}
    with open(corpus("symbols/crash.sym"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("FUNC "):
                _, at, _, _, text = line.rstrip("\n").replace("FUNC m ", "FUNC ").split(" ", 4)
                functions[int(at, 16)] = text
    records = [made.process(0, 3, 5, 4, "p"), made.image(0, 5, base, 0x9000, "C:\\crash.exe", 3),
               made.classic(0, IMAGE_ID, 36, struct.pack("<QI", base, 5) + guid + struct.pack("<I", 1) + b"crash.pdb\0")]
    for i, at in enumerate(functions):
        records += [made.thread(i + 1, 3, 5, 100 + i), made.sample(i + 1.5, 100 + i, base + at)]
    found = collections.Counter()
    for k, n in folded(made.write(os.path.join(room, "starts.etl"), records), "--symbols", store).items():
        found[k[-1].split("!", 1)[1].lstrip("_")] += n
    def bare(text):
        depth = 0
        for i in range(len(text) - 1, -1, -1):  # without its arguments
            depth += {")": 1, "(": -1}.get(text[i], 0)
            if depth == 0 and text[i] == "(":
                return text[:i].lstrip("_")
        return text.lstrip("_")
    theirs = collections.Counter(bare(t) for t in functions.values())
    check("all %d functions of the .sym at their starts" % len(functions), (sum((found & theirs).values()), theirs - found, found - theirs), (len(functions), {}, {}))


def varints(raw):
    at, found = 0, collections.defaultdict(list)
    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            b = raw[at]
            at += 1
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value
    while at < len(raw):
        tag = number()
        if tag & 7 == 2:
            n = number()
            found[tag >> 3].append(raw[at:at + n])
            at += n
        else:
            found[tag >> 3].append(number())
    return found


def formats(path, room):
    want = folded(path)
    shown = json.loads(run(path, "--format", "speedscope"))
    profile, names = shown["profiles"][0], [f["name"] for f in shown["shared"]["frames"]]
    check("speedscope", {tuple(names[i] for i in s): w for s, w in zip(profile["samples"], profile["weights"])}, want)
    check("its end is the sum", (profile["endValue"], profile["type"]), (sum(want.values()), "sampled"))
    out = os.path.join(room, "cpu.pb")
    run(path, "--format", "pprof", "-o", out)
    with open(out, "rb") as f:
        top = varints(f.read())
    texts = [t.decode() for t in top[6]]
    functions = {f[1][0]: texts[f[2][0]] for f in map(varints, top[5])}
    places = {p[1][0]: functions[varints(p[4][0])[1][0]] for p in map(varints, top[4])}
    samples = {tuple(places[i] for i in reversed(s[1])): s[2][1] for s in map(varints, top[2])}
    check("pprof", samples, want)
    check("its types", [(texts[t[1][0]], texts[t[2][0]]) for t in map(varints, top[1])], [("samples", "count"), ("weight", "count")])
    if shutil.which("go"):
        text = subprocess.run(["go", "tool", "pprof", "-top", out], capture_output=True, text=True, timeout=60, check=True).stdout
        ensure("go tool pprof opens it", "app.exe+0x1" in text, text)
    else:
        print("skipped: go is not installed")
    page = os.path.join(room, "flame.html")
    run(path, "--format", "html", "-o", page)
    with open(page, encoding="utf-8") as f:
        text = f.read()
    ensure("a page of its own: nothing is fetched", "default-src &#39;none&#39;" in text or "default-src 'none'" in text, text[:400])
    ensure("no address of another place in it", "http" not in text.split("<style>")[1].replace("http-equiv", ""), text)
    check("each frame has its width", text.count("<i style="), sum(1 for _ in prefixes(want)))
    if shutil.which("chromium"):
        shown = dom(room, "file://" + page)
        ensure("a browser opens it, its script runs", shown.count("<i style=") == text.count("<i style=") and 'id="c" hidden' not in shown, shown[:300])
        speedscope(path, room)
    else:
        print("skipped: chromium is not installed")


def dom(room, url, *more):
    """Of a page, after its scripts ran."""
    r = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + os.path.join(room, "chromium"), *more, "--dump-dom", url],
                       capture_output=True, text=True, timeout=60, check=False)
    ensure("chromium shows %s" % url[:60], r.returncode == 0 and "</html>" in r.stdout, r.stderr[-300:])
    return r.stdout


def speedscope(path, room):
    """Its own page imports the file, as its command `speedscope FILE` makes it do, and lists each frame with our sums."""
    page = os.environ.get("PROCFLEET_SPEEDSCOPE") or os.path.join(ROOT, ".cache/speedscope/node_modules/speedscope/dist/release")
    if not os.path.exists(os.path.join(page, "index.html")):
        print("skipped: speedscope's page; npm install --prefix .cache/speedscope speedscope, or PROCFLEET_SPEEDSCOPE names its dist/release")
        return
    made_of, script = run(path, "--format", "speedscope", binary=True), os.path.join(room, "speedscope.js")
    with open(script, "w", encoding="ascii") as f:
        f.write("speedscope.loadFileFromBase64('a.speedscope.json', '%s')" % base64.b64encode(made_of).decode())
    text = dom(room, "file://%s/index.html#localProfilePath=%s&view=sandwich" % (os.path.abspath(page), script), "--allow-file-access-from-files",
               "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--virtual-time-budget=8000")
    found = {}
    for row in re.findall(r"<tr.*?</tr>", text, re.S):
        cells = [html.unescape(re.sub(r"<[^>]*>", "", c)) for c in re.findall(r"<td.*?</td>", row, re.S)]
        if len(cells) == 3:
            found[cells[2]] = tuple(int(c.split(" ")[0].replace(",", "")) for c in cells[:2])
    want = {r["frame"]: (r["total"], r["self"]) for r in json.loads(run(path, "--format", "json"))}
    check("speedscope's page: frames with total and self", found, want)


def full(room):
    """More than there is room for: nothing of the sum is lost, the memory has its bound."""
    n, depth, at, parts, size = 8000, 60, 0x400000, [[made.process(0, 3, 100, 4, "app.exe"), made.thread(0, 3, 100, 11)]], 0
    for i in range(n):
        frames = range(at, at + 64 * depth, 64)
        at += 64 * depth
        ms = 1 + i / 50
        parts[-1] += [made.sample(ms, 11, frames[0]), made.stack(ms + 0.001, ms, 100, 11, frames)]
        size += 8 * depth + 100
        if size > 900000:
            parts.append([])
            size = 0
    path = made.write(os.path.join(room, "full.etl"), parts[0])
    with open(path, "ab") as f:
        for records in parts[1:]:
            f.write(made.buffer(records, 0))
    for form in ("folded", "html"):
        out = os.path.join(room, "full.out")
        with open(out, "wb") as to:
            child = subprocess.Popen([ETL, "stacks", path, "--format", form], stdout=to, stderr=subprocess.PIPE, text=True)
            said = child.stderr.read()
            _, status, usage = os.wait4(child.pid, 0)
            child.stderr.close()
            child.returncode = status
        if form == "folded":
            with open(out, encoding="utf-8") as f:
                check("nothing of the sum of a full tree is lost", sum(int(line.rsplit(" ", 1)[1]) for line in f), n)
        ensure("a full tree is told", status == 0 and "paths had no room and end with (more)" in said, said)
        if os.environ.get("PROCFLEET_SANITIZED") != "1":
            ensure("in at most 64 MiB: %d KiB" % usage.ru_maxrss, usage.ru_maxrss <= 65536)


def crowd(room):
    """Many events of one time and thread take no longer than others."""
    took = []
    for name, step in (("apart", 1e-3), ("at once", 0)):
        path = made.write(os.path.join(room, name), [made.process(0, 3, 700, 4, "a.exe"), made.thread(0, 3, 700, 11)] +
                          [made.sample(1 + i * step, 11, 0x7005) for i in range(60000)])
        start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        check("all of them", sum(folded(path).values()), 60000)
        took.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start)
    ensure("as fast", took[1] < 5 * took[0] + 0.2, took)


def prefixes(stacks):
    return {k[:i] for k in stacks for i in range(1, len(k) + 1)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        joined = joins(scratch)
        formats(joined, scratch)
        differences(scratch, joined)
        tags(scratch, joined)
        other_events(scratch)
        symbols(scratch)
        full(scratch)
        crowd(scratch)
        real("net.4.5.2.x64")
        real("net.4.5.x86-win7")
