"""`etl pcap`: packets of a recording against Windows' own capture of it and against figures computed independently; recordings made up here."""

import csv
import hashlib
import io
import json
import os
import resource
import shutil
import struct
import subprocess
import tempfile

import etl_file as made
from fleet import BIN, check, corpus, ensure

ETL = os.path.join(BIN, "procfleet-etl")
PKTMON, NDIS = "4d4f80d9-c8bd-4d73-bb5b-19c90402c5ac", "2ed6006e-4729-4609-b423-3ee7bcd678ef"
NETWORK = "7dd42a49-5329-4832-8dfd-43d979153a88"
MANIFEST = """<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"><instrumentation><events>
<provider name="Packets" guid="{%s}"><maps><valueMap name="Reasons"><map value="3" message="$(string.three)"/></valueMap></maps>
<templates><template tid="t">%s<data name="DropReason" inType="win:UInt32" map="Reasons"/></template></templates>
<events><event value="170" version="0" template="t"/></events></provider></events></instrumentation>
<localization><resources culture="en-US"><stringTable><string id="three" value="INET: no route "/></stringTable></resources></localization>
</instrumentationManifest>"""
BEFORE = "".join('<data name="F%d" inType="win:UInt%d"/>' % (i, n) for i, n in enumerate([64] + [16] * 7))


def run(*args, expect=0):
    r = subprocess.run([ETL, "pcap", *args], capture_output=True, text=True, timeout=120, check=False)
    ensure("pcap %s gives %d" % (" ".join(args[1:]), expect), r.returncode == expect, (r.returncode, r.stderr))
    return r


def options(raw):
    found, at = [], 0
    while at < len(raw):
        code, n = struct.unpack_from("<HH", raw, at)
        if code == 0:
            break
        found.append((code, raw[at + 4:at + 4 + n]))
        at += 4 + (n + 3) // 4 * 4
    return found


def read(path):
    """Sections of (interfaces, packets, statistics)."""
    sections = []
    with open(path, "rb") as f:
        raw = f.read()
    at = 0
    while at < len(raw):
        kind, n = struct.unpack_from("<II", raw, at)
        if n % 4 or struct.unpack_from("<I", raw, at + n - 4)[0] != n:
            ensure("blocks are whole", False, (at, kind, n))
        body = raw[at + 8:at + n - 4]
        if kind == 0x0A0D0D0A:
            sections.append(([], [], []))
        elif kind == 1:
            sections[-1][0].append((struct.unpack_from("<H", body)[0], options(body[8:])))
        elif kind == 5:
            sections[-1][2].append((struct.unpack_from("<I", body)[0], dict(options(body[12:]))))
        elif kind == 6:
            interface, high, low, got, whole = struct.unpack_from("<5I", body)
            packet = {"interface": interface, "time": high << 32 | low, "bytes": body[20:20 + got], "whole": whole}
            for code, value in options(body[20 + (got + 3) // 4 * 4:]):
                packet[code] = value
            sections[-1][1].append(packet)
        else:
            ensure("only known blocks", False, kind)
        at += n
    return sections


def real(room):
    path, out = corpus("public/pktmon-demikernel.etl"), os.path.join(room, "a.pcapng")
    with open(corpus("expected/packets-demikernel.json"), encoding="utf-8") as f:
        want = json.load(f)
    notes = run(path, "-o", out).stdout
    (interfaces, packets, _), = read(out)
    (_, theirs, _), = read(corpus("public/pktmon-demikernel.cap"))
    check("all packets byte for byte as Windows' own", [p["bytes"] for p in packets], [p["bytes"] for p in theirs])
    check("and at the same microsecond", [p["time"] // 1000 for p in packets], [p["time"] for p in theirs])
    epoch = 116444736000000000
    check("all figures as computed independently",
          [(p["time"] // 100 + epoch, hashlib.sha256(p["bytes"]).hexdigest(), p["whole"], struct.unpack("<Q", p[5])[0],
            struct.unpack("<I", p[2])[0]) for p in packets],
          [(p["filetime"], p["sha256"], p["original"], p["group"], 2 - p["dir"] % 2) for p in want["packet_list"]])
    names = {c["id"]: c for c in want["components"]}
    ours = [p[1].decode() for p in packets]
    check("comments", ours, ["component %d, edge %d %s, %s, appearance %d" % (
        p["component"], p["edge"], names[p["component"]]["edges"][str(p["edge"])], p["dir_name"], p["appearance"]) for p in want["packet_list"]])
    for p, w in zip(packets, want["packet_list"]):
        link, about = interfaces[p["interface"]]
        about, c = dict(about), names[w["component"]]
        macs = [bytes.fromhex(v) for k, v in c["properties"] if k == "PhysAddress"]
        if (link, about[2].decode(), about[3].decode()) != (1, c["name"], c["description"]) or about.get(6) not in (macs or [None]):
            ensure("interfaces are components", False, (link, about, c))
    ensure("what is said of it", "114 packets, 38 of them different, 0 dropped, 4 interfaces; 11172 bytes, 0 packets cut" in notes, notes)
    rows = json.loads(run(path, "--format", "json").stdout)
    check("as rows", {str(r["component"]): r["packets"] for r in rows}, want["by_component"])
    lines = [json.loads(line) for line in run(path, "--format", "jsonl").stdout.splitlines()]
    table = list(csv.DictReader(io.StringIO(run(path, "--format", "csv").stdout)))
    check("JSONL and CSV say the same", (lines, [{k: str(r[k]) for k in ("component", "name", "packets")} for r in rows]),
          (rows, [{k: r[k] for k in ("component", "name", "packets")} for r in table]))
    run(path, "--once", "-o", out)
    first = [p for p in want["packet_list"] if p["appearance"] == 1]
    check("each packet once", [hashlib.sha256(p["bytes"]).hexdigest() for p in read(out)[0][1]], [p["sha256"] for p in first])
    run(path, "--component", "48", "--component", "50", "--since", "20s", "-o", out)
    start = min(p["ticks"] for p in want["packet_list"])
    ensure("of two components, from a moment on", 0 < len(read(out)[0][1]) < 38, start)
    run(path, path, "-o", out)
    check("two recordings are two sections", [len(s[1]) for s in read(out)], [114, 114])
    run(path, path, "--merge", "-o", out)
    tools(path, room)


def tools(path, room):
    if not shutil.which("capinfos") or not shutil.which("tshark"):
        print("skipped: capinfos and tshark are not installed")
        return
    out = os.path.join(room, "tools.pcapng")
    run(path, "-o", out)
    text = subprocess.run(["capinfos", "-c", "-E", out], capture_output=True, text=True, timeout=60, check=True).stdout
    ensure("capinfos reads it", "114" in text and "Ethernet" in text, text)
    text = subprocess.run(["tshark", "-r", out, "-T", "fields", "-e", "frame.interface_name", "-e", "frame.protocols"],
                          capture_output=True, text=True, timeout=60, check=True).stdout
    ensure("tshark decodes every packet", text.count("icmp") == 114 and "netvsc.sys" in text, text[:300])


def pktmon(ms, group, number, appearance, way, kind, component, data, reason=0, whole=None, event=160, pid=0):
    return made.event(ms, PKTMON, event, struct.pack("<QHHHHHHHIIHH", group, number, appearance, way, kind, component, 1, 1, reason, 0xE000,
                                                     len(data) if whole is None else whole, len(data)) + data, pid=pid)


def frame(source, target, ports, data=b"", vlan=False):
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(data), 1, 0, 64, 6, 0, source, target)
    tcp = struct.pack(">HHIIBBHHH", *ports, 1, 2, 0x50, 16, 1000, 0, 0)
    return bytes(12) + (b"\x81\0\0\5" if vlan else b"") + b"\x08\0" + ip + tcp + data


def made_up(room):
    out, a, b = os.path.join(room, "b.pcapng"), bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    there, back = frame(a, b, (4000, 80), b"hello"), frame(b, a, (80, 4000), vlan=True)
    other = frame(a, b, (4001, 80))
    path = made.write(os.path.join(room, "made.etl"), [
        made.process(0, 3, 700, 4, "web.exe"), made.process(0.5, 3, 800, 4, "ping.exe"),
        pktmon(1, 1, 1, 1, 4, 1, 9, there), pktmon(2, 1, 1, 2, 4, 2, 10, there), pktmon(3, 2, 1, 1, 3, 2, 10, back),
        pktmon(4, 3, 1, 1, 2, 1, 9, other, pid=800), pktmon(5, 3, 1, 2, 2, 1, 9, other, reason=3, event=170),
        pktmon(6, 4, 1, 1, 1, 2, 11, b"w" * 30), pktmon(7, 5, 1, 1, 1, 3, 9, b"\x45" + b"\0" * 19, whole=1500),
        pktmon(8, 6, 1, 1, 1, 4, 9, b"GET /"), pktmon(9, 7, 1, 0, 3, 1, 9, b"y" * 20), pktmon(10, 8, 1, 0, 3, 1, 9, b"y" * 20),
        made.event(11, PKTMON, 160, b"short"),
        made.event(12, NETWORK, 10, struct.pack("<II4s4s", 700, 5, b, a) + struct.pack(">HH", 80, 4000), pid=0),
        made.event(13, PKTMON, 20, struct.pack("<HH", 10, 2) + made.wide("wifi.sys") + made.wide("a radio")),
        made.event(14, PKTMON, 65, struct.pack("<HH", 10, 1) + a), made.event(15, PKTMON, 66, struct.pack("<HH", 10, 1) + bytes(15) + b"\1"),
        made.event(16, PKTMON, 90, struct.pack("<H", 9) + made.wide("Upper") + struct.pack("<HHQQHQQ", 1, 3, 12, 9, 4, 1, 9))])
    notes = run(path, "-o", out, "--manifests", manifest(room)).stdout
    (interfaces, packets, _), = read(out)
    check("what a component calls 802.11 and is Ethernet elsewhere is Ethernet; other 802.11 stays",
          [interfaces[p["interface"]][0] for p in packets], [1, 1, 1, 1, 1, 105, 101, 1, 1])
    check("addresses of a component", [v for k, v in interfaces[1][1] if k in (4, 5)], [a + b"\xff" * 4, bytes(15) + b"\1\x80"])
    check("its names", [v for k, v in interfaces[1][1] if k in (2, 3)], [b"wifi.sys", b"a radio"])
    check("an interface of a component without names", dict(interfaces[2][1])[2], b"component 11")
    comments = [p[1].decode() for p in packets]
    check("whose packets: by connection, both ways; of the thread that sent it; else nobody's",
          [c.split(", ")[-1] if "pid" in c else "" for c in comments],
          ["pid 700 web.exe", "pid 700 web.exe", "pid 700 web.exe", "sent in a thread of pid 800 ping.exe", "", "", "", "", ""])
    ensure("why one was dropped", "dropped: INET: no route at 0xe000" in comments[4] and not any("drop" in c for c in comments[:4]), comments)
    check("a cut packet has its length", (len(packets[6]["bytes"]), packets[6]["whole"]), (20, 1500))
    for text in ("9 packets, 7 of them different, 1 dropped", "2 sightings do not say", "1 records hold a part", "1 packet records are damaged",
                 "1 packets cut", "10 packets more are in the components' own counters"):
        ensure("it is said: " + text, text in notes, notes)
    run(path, "-o", out, "--drops-only")
    check("only what was dropped, by its number without names", [p[1].decode().split("dropped: ")[1] for p in read(out)[0][1]], ["reason 3 at 0xe000"])
    run(path, "-o", out, "--once")
    check("once, and where it was dropped", [struct.unpack("<Q", p[5])[0] for p in read(out)[0][1]], [1, 2, 3, 3, 4, 5, 7, 8])
    run(path, "-o", out, "--name", "web*")
    check("of a process", len(read(out)[0][1]), 3)
    ensure("a file that is no capture is kept", "not replaced" in run(path, "-o", path, expect=1).stderr)
    check("as it was", os.path.getsize(path) > 4096, True)
    whole = len(json.loads(run(path, "--format", "json").stdout))
    check("so many rows, all packets", (len(json.loads(run(path, "--format", "json", "-n", "1", "-o", out).stdout)), len(read(out)[0][0])), (1, whole))
    run(path, "-o", out)
    pipe = os.path.join(room, "pipe")
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    run(path, "-o", pipe)
    with open(out, "rb") as f:
        check("through a pipe", reader.communicate(timeout=60)[0], f.read())
    ensure("a file that cannot be written", "cannot be written" in run(path, "-o", os.path.join(room, "no", "x"), expect=1).stderr)
    r = subprocess.run([ETL, "pcap", path, "-o", out], capture_output=True, text=True, timeout=60, check=False, restore_signals=False,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
    ensure("a full disk", r.returncode == 1 and "could not be written" in r.stderr, r)


def manifest(room):
    path = os.path.join(room, "packets.man")
    with open(path, "w", encoding="utf-8") as f:
        f.write(MANIFEST % (PKTMON, BEFORE))
    return path


def ndis(room):
    def part(ms, data, keys, tid=8, event=1001):
        middle = struct.pack("<I", 2) + made.wide("p") * 3 + struct.pack("<II", 1, 5) + made.wide("q") * 3 if event == 1003 else b""
        tail = struct.pack("<I", 4) + b"oob!" if event == 1003 else b""
        return made.event(ms, NDIS, event, struct.pack("<II", 7, 8) + middle + struct.pack("<I", len(data)) + data + tail, keyword=keys, tid=tid,
                          pid=900)
    sent = frame(b"\x0a\0\0\1", b"\x0a\0\0\2", (5000, 443))
    start, end, send, receive = 1 << 30, 1 << 31, 1 << 32, 1 << 33
    path, out = os.path.join(room, "ndis.etl"), os.path.join(room, "c.pcapng")
    made.write(path, [part(1, sent, start | end | send), part(2, b"one ", start | receive), part(3, b"other ", start | receive, tid=9),
                      part(4, b"two ", receive), part(5, b"thread", end | receive, tid=9), part(6, b"three", end | receive),
                      part(7, b"radio", start | end | receive | 0x10000), part(8, b"modem", start | end | send | 0x200),
                      part(9, b"switch", start | end | receive, event=1003), part(10, b"lost", start), part(11, b"again", start | end),
                      part(12, b"no begin", end), part(13, b"no end", start), made.event(14, NDIS, 1001, b"damaged")])
    notes = run(path, "-o", out).stdout
    (interfaces, packets, statistics), = read(out)
    check("fragments are joined by thread", [p["bytes"] for p in packets],
          [sent, b"other thread", b"one two three", b"radio", b"modem", b"switch", b"again"])
    check("links by keyword", [interfaces[p["interface"]][0] for p in packets], [1, 1, 1, 105, 101, 1, 1])
    check("ways", [struct.unpack("<I", p[2])[0] if 2 in p else 0 for p in packets], [2, 1, 1, 1, 2, 1, 0])
    check("who sent", [p.get(1, b"") for p in packets], [b"sent in a thread of pid 900"] + [b""] * 6)
    check("statistics of each interface", [(i, struct.unpack("<Q", o[4])[0]) for i, o in statistics], [(0, 5), (1, 1), (2, 1)])
    ensure("what was lost is said", "3 fragments of packets without begin or end" in notes and "1 packet records are damaged" in notes, notes)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        made_up(scratch)
        ndis(scratch)
        real(scratch)
