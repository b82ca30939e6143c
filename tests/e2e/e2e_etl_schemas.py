"""Events of providers that recordings do not describe: by the program's tables and by --manifests, against values computed
independently; what stays raw; layouts that are lossy."""

import glob
import hashlib
import ipaddress
import json
import os
import re
import subprocess
import sys
import tempfile

import etl_wevt_file
from fleet import BIN, ROOT, check, corpus, ensure

ETL = os.path.join(BIN, "procfleet-etl")
EXPECTED, PUBLIC, MANIFESTS = corpus("expected"), corpus("public"), corpus("manifests")
RAW_MAX = 100  # records of the whole corpus without any name for what they hold
CLR = ("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4", "a669021c-c450-4609-a035-5af59af4df18", "763fd754-7086-4dfe-95eb-c01a46faf4ca")


def recording(name):
    path = os.path.join(PUBLIC, name if name.endswith(".etl") else name + ".etl")
    return path if os.path.exists(path) else path + ".xz"


def events(path, *args):
    with subprocess.Popen([ETL, "events", "--format", "jsonl", *args, path], stdout=subprocess.PIPE) as p:
        for line in p.stdout:
            yield json.loads(line)
    if p.returncode != 0:
        check("%s is read" % path, p.returncode, 0)


def number(value):
    if isinstance(value, bool):
        return int(value)
    return int(value, 0) if isinstance(value, str) and re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", value) else value


def maps():
    """Of the program's tables: map: {text: number}."""
    with open(os.path.join(ROOT, "agent", "decode", "schema", "known_schemas.txt"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if line.startswith("M\t")]
    return {row[1]: {e.partition("=")[2]: int(e.partition("=")[0]) for e in row[3:]} for row in rows}


MAPS = maps()


def plain(value, kind):
    """As the expected files write a value: numbers decimal, without a map's text; addresses of no type as their bytes."""
    if value in MAPS.get(kind.get("map"), ()):
        return MAPS[kind["map"]][value]
    kind = (kind["in_type"] or "").rpartition(":")[2]
    if kind in ("UnicodeString", "AnsiString", "GUID"):
        return value
    if kind == "Binary":
        return ipaddress.ip_address(value).packed.hex() if ":" in value else value
    if "UInt32" in kind and isinstance(value, str) and value.count(".") == 3:
        return int.from_bytes(ipaddress.ip_address(value).packed, "little")
    return number(value)


def sockaddr(value, n):
    """The bytes of an address that was shown as one; what is behind them is not shown."""
    ip = ipaddress.ip_address(value["address"])
    head = (2 if ip.version == 4 else 23).to_bytes(2, "little") + value["port"].to_bytes(2, "big")
    return (head + (b"" if ip.version == 4 else bytes(4)) + ip.packed).ljust(n, b"\0").hex()


def decoded(r, kinds):
    fields = r.get("fields", {})
    out = []
    for i, (name, value) in enumerate(fields.items()):
        if isinstance(value, dict) and "address" in value:
            value = sockaddr(value, number(list(fields.values())[i - 1]))
        else:
            value = plain(value, kinds.get(name, {"in_type": ""}))
            if isinstance(value, int) and (kinds.get(name, {}).get("out_type") or "").endswith("Port"):
                value = int.from_bytes(value.to_bytes(2, "big"), "little")
        out.append((name, value))
    return out


def against(expected, *args):
    """Counts, the first events value by value, and the digest of all."""
    with open(expected, encoding="utf-8") as f:
        want = json.load(f)
    name = os.path.basename(expected)
    kinds = {(c["id"], c["version"]): {f["name"]: f for f in c["fields"]} for c in want["counts"]}
    digest, counts, rest, first = hashlib.sha256(), {}, {}, want["first"]
    n = 0
    for r in events(recording(want["file"]), "--provider", want["provider"], *args):
        key = (r["id"], r["version"])
        fields = decoded(r, kinds.get(key, {}))
        counts[key] = counts.get(key, 0) + 1
        if "_rest" in r:
            rest[key + (r["left"],)] = rest.get(key + (r["left"],), 0) + 1
        if n < len(first):
            theirs = [(f["name"], f["value"]) for f in first[n]["fields"]]
            if fields != theirs:
                check("%s: event %d" % (name, n), fields, theirs)
        digest.update(("%d %d %s\n" % (*key, "\x1f".join("%s=%s" % f for f in fields))).encode())
        n += 1
    check("%s: counts" % name, counts, {(c["id"], c["version"]): c["n"] for c in want["counts"]})
    lossy = {(u["id"], u["version"]) for u in want["undecodable"]}
    check("%s: bytes left over are told" % name, {k: v for k, v in rest.items() if k[:2] not in lossy},
          {(b["id"], b["version"], b["bytes"]): b["n"] for b in want["residual_bytes"]})
    check("%s: and where a layout ends too early" % name, {k[:2]: v for k, v in rest.items() if k[:2] in lossy},
          {(u["id"], u["version"]): u["n"] for u in want["undecodable"]})
    check("%s: every value of all %d events" % (name, n), digest.hexdigest(), want["digest_of_all_events"]["sha256"])


# ---- TraceEvent's own listing of CLR events ----

def told(value):
    """A value as TraceEvent prints it."""
    value = value.replace(",", "") if re.fullmatch(r"-?[\d,]+", value) else value
    return number(value)


def equal(theirs, ours):
    """A signed number may be shown as the status it is."""
    theirs, ours = told(theirs), number(ours)
    return theirs == ours or (isinstance(theirs, int) and isinstance(ours, int) and theirs < 0 and theirs % 2**32 == ours)


def clr(name):
    """Every EVENT line of the CLR's providers: the record at that time on that thread, and the fields both name."""
    with open(os.path.join(PUBLIC, name + ".baseline.txt"), encoding="utf-8-sig", errors="replace") as f:
        lines = [line for line in f if re.match(r"EVENT .*: (Microsoft-Windows-DotNETRuntime\w*)/", line)]
    rows = {}
    for r in (r for guid in CLR for r in events(recording(name), "--provider", guid)):
        rows.setdefault((round(float(r["ms"]), 3), r["tid"]), []).append(r)
    found = compared = 0
    for line in lines:
        ms = float(re.match(r"EVENT ([\d,.]+):", line).group(1).replace(",", ""))
        tid = int(re.search(r"TID=(\d+);", line).group(1))
        fields = dict(re.findall(r"(\w+)=([^;]*);", line.split("DataLen=", 1)[1]))
        near = [r for d in (-0.001, 0, 0.001) for r in rows.get((round(ms + d, 3), tid), [])]
        scored = [(sum(equal(fields[k], v) for k, v in r["fields"].items() if k in fields and isinstance(v, (int, str))), i)
                  for i, r in enumerate(near)]
        found += bool(scored)
        best = near[max(scored)[1]]["fields"] if scored else {}
        compared += max(scored)[0] if scored else 0
        wrong = [k for k, v in fields.items() if k in best and isinstance(told(v), int) and isinstance(number(best[k]), int) and
                 not equal(v, best[k])]
        if wrong:
            ensure("%s: numbers of a record are TraceEvent's" % name, False, (line, wrong, best))
    check("%s: lines of TraceEvent that are found" % name, found, len(lines))
    return compared


# ---- what is left ----

def raw_records():
    """Of the public corpus: records without names, and those of the CLR whose payload ends too early. Others are not looked into."""
    raw = damaged = 0
    for path in sorted(glob.glob(os.path.join(PUBLIC, "*.etl")) + glob.glob(os.path.join(PUBLIC, "*.etl.xz"))):
        text = subprocess.run([ETL, "events", "--format", "jsonl", path], stdout=subprocess.PIPE, check=True).stdout
        for line in text.splitlines():
            if b'"payload":' in line:
                r = json.loads(line)
                if "payload" in r:
                    raw += not r.get("damaged")
                    damaged += bool(r.get("damaged")) and r["guid"] in CLR
    ensure("at most %d records stay raw" % RAW_MAX, raw <= RAW_MAX, raw)
    check("no record of the CLR ends too early", damaged, 0)
    print("raw records in the public corpus: %d" % raw)


def programs():
    """The same manifests, compiled into programs."""
    with tempfile.TemporaryDirectory(prefix="procfleet-etl-") as room:
        for name, xml in (("tx-HTTP_Server.man", "HTTP_Server.man"), ("tx-KernelNetwork", "win7-Microsoft-Windows-Kernel-Network.xml"),
                          ("tx-winrm", "win7-Microsoft-Windows-WinRM.xml")):
            etl_wevt_file.write(os.path.join(room, name + ".DLL"), os.path.join(MANIFESTS, xml))
            against(os.path.join(EXPECTED, "manifest-%s.json" % name), "--manifests", room)
            run = subprocess.run([ETL, "providers", recording(name.removesuffix(".man")), "--manifests", room, "--format", "json"],
                                 capture_output=True, text=True, timeout=60, check=True)
            ensure("%s: by the program" % name, any(r.get("schema") == "manifest" and not r["provider"].startswith("dd5") for r in json.loads(run.stdout)), run.stdout[:300])
        # Maps and structs, of several providers: by their XML and by a program, with its texts in it, in its language's file, without them.
        xml, clr = os.path.join(MANIFESTS, "ClrEtwAll.man"), os.path.join(room, "clr")
        os.makedirs(os.path.join(clr, "en-US"))
        path = os.path.join(clr, "clretw.dll")
        for name in ("gcevents", "diaghub.user_paged.1"):
            want = [r.get("fields") for r in events(recording(name), "--manifests", xml, "--provider", "*DotNETRuntime*")]
            ensure("%s: there are maps and structs" % name, any(isinstance(v, list) for f in want for v in (f or {}).values()) or name != "diaghub.user_paged.1")
            for texts in (None, os.path.join(clr, "en-US", "clretw.dll.mui")):
                etl_wevt_file.write(path, xml, texts)
                check("%s: the CLR's manifest in a program%s" % (name, ", texts beside it" if texts else ""),
                      [r.get("fields") for r in events(recording(name), "--manifests", path, "--provider", "*DotNETRuntime*")] == want, True)
            os.remove(texts)
            bare = [r.get("fields") for r in events(recording(name), "--manifests", path, "--provider", "*DotNETRuntime*")]
            ensure("%s: without texts values stay numbers" % name, len(bare) == len(want) and bare != want and
                   [f and list(f) for f in bare] == [f and list(f) for f in want])
        path = os.path.join(room, "cut.sys")
        with open(os.path.join(room, "tx-winrm.DLL"), "rb") as f, open(path, "wb") as to:
            to.write(f.read()[:2000])
        r = subprocess.run([ETL, "events", recording("tx-winrm"), "--manifests", path], capture_output=True, text=True, timeout=60, check=False)
        ensure("a program without a manifest is refused", r.returncode in (1, 2) and "no instrumentation manifest" in r.stderr, r)


def usage():
    with tempfile.TemporaryDirectory(prefix="procfleet-etl-") as room:
        path = recording("tx-winrm")
        text = os.path.join(room, "none.xml")
        with open(text, "w", encoding="utf-8") as f:
            f.write("<a/>")
        for what, word in ((text, "no instrumentation manifest"), (os.path.join(room, "nowhere"), "not found")):
            r = subprocess.run([ETL, "events", path, "--manifests", what], capture_output=True, text=True, timeout=60, check=False)
            ensure("%s is refused by name" % os.path.basename(what), r.returncode in (1, 2) and word in r.stderr, r)
        # In a directory other files are passed over; UTF-16 is XML, too.
        with open(os.path.join(MANIFESTS, "win7-Microsoft-Windows-WinRM.xml"), encoding="utf-8") as f:
            wide = '<?xml version="1.0" encoding="utf-16"?>\n' + f.read().partition("?>")[2]
        with open(os.path.join(room, "wide.man"), "w", encoding="utf-16") as f:
            f.write(wide if wide.strip() else "")
        ours = [r["fields"] for r in events(path, "--manifests", room) if "fields" in r]
        check("a directory gives what the tables give", ours, [r["fields"] for r in events(path) if "fields" in r])


def main():
    http, network = (os.path.join(EXPECTED, "manifest-tx-%s" % n) for n in ("HTTP_Server", "KernelNetwork"))
    for name in ("powershell", "tx-winrm"):
        against(os.path.join(EXPECTED, "manifest-%s.json" % name))
    against(os.path.join(EXPECTED, "manifest-powershell.json"), "--manifests", MANIFESTS)
    against(http + ".json")
    against(http + ".man.json", "--manifests", os.path.join(MANIFESTS, "HTTP_Server.man"))
    against(network + ".completed.json")
    against(network + ".json", "--manifests", os.path.join(MANIFESTS, "win7-Microsoft-Windows-Kernel-Network.xml"))
    for name, least in (("net.4.5.2.x64", 300), ("net.4.5.x86-win7", 500), ("gcevents", 80)):
        n = clr(name)
        ensure("%s: fields that are equal" % name, n >= least, n)
        print("%s: %d fields equal to TraceEvent's" % (name, n))
    raw_records()
    programs()
    usage()


if __name__ == "__main__":
    main()
