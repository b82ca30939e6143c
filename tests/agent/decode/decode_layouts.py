"""Every layout that the decoder knows against the layouts of every Windows build (layouts.json of the corpus): fields in order,
their widths and names, versions. A difference is repaired, or explained below by a line with its reason; a line that explains
nothing any more fails, too."""

import fnmatch
import json
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
AGENT = os.path.join(os.environ.get("PROCFLEET_BIN", os.path.join(ROOT, "build", "release", "bin")), "procfleet-agent")
CORPUS = os.environ.get("PROCFLEET_CORPUS", os.path.join(ROOT, "..", "shared", "corpus"))
NEWEST = 255  # versions are a byte

# Rows of layouts.json that stand for a class or provider which no table reads.
NOT_READ = "its records are shown as header and bytes, or by the schema that a recording brings along"
PROVIDERS_NOT_READ = {"Microsoft-Windows-DXGI", "Microsoft-Windows-Dwm-Core", "Microsoft-Windows-DxgKrnl"}

# Names that are kept where classes or versions call the same field otherwise: class, ours, theirs, why.
NAMES = [
    ("Image", "BaseAddress", "ImageBase", "the name of version 0 serves all versions"),
    ("Image", "ModuleSize", "ImageSize", "the name of version 0 serves all versions"),
    ("Image", "ImageFileName", "FileName", "the name of version 0 serves all versions"),
    ("Image", "BaseAddress", "HypercallPageVa", "one layout for both addresses of the kernel"),
    ("EventTrace", "GuidSig", "Guid", "called as the same field of ImageID is"),
    ("Thread", "OldThreadWaitMode", "ThreadFlags", "version 3 was renamed without a new number in Windows 10 1709"),
    ("Thread", "TThreadId", "ThreadId", "the name of the other records of threads"),
    ("*-Kernel-Process", "Mitigations", "SecurityMitigations", "the name of the record's own field group"),
    ("*-Kernel-Process", "ContainerID", "JobID", "Windows 10 1507 and 1511 called the two so"),
    ("Microsoft-Windows-TCPIP", "OldTcbKillRate", "OldTcbAbortionRate", "builds up to 18363 called it so"),
    ("Microsoft-Windows-TCPIP", "NewTcbKillRate", "NewTcbAbortionRate", "builds up to 18363 called it so"),
    ("Microsoft-Windows-TCPIP", "TcbKillRate", "TcbAbortionRate", "builds up to 18363 called it so"),
    ("Microsoft-Windows-PktMon", "PktCount", "PktNumber", "builds up to 18363 called it so"),
    ("*-Kernel-Process", "JobID", "JobHandle", "Windows 10 1507 and 1511 called the two so"),
]

# Layouts that differ: class, opcode or id (None: any), versions, why.
DIFFERENT = [
    ("SystemConfig", 22, (4, 5), "the upper and the lower filters are one list of texts: how many are upper ones is a field"),
    ("Thread", (1, 2, 3, 4), (3,), "newer systems write version 3 with the name of version 4; the length tells"),
    ("EventTrace", 0, (0, 1, 2), "TIME_ZONE_INFORMATION (172 bytes) and its padding are told field by field"),
    ("EventTrace", 80, (2,), "later classes make the two GUIDs texts; every recording has 48 bytes, which are GUIDs"),
    ("RT_LostEvent", (32, 33, 34), (0,), "described without fields; should bytes stand there, they are shown"),
    ("TcpIp", (10, 11, 12, 13, 14, 15, 16), (1,), "the documented class ends with the ports; sources disagree on the rest"),
    ("*-Kernel-Registry", (4, 5, 7, 8, 11), (0,), "captured data are shown as the rest, whatever follows them"),
    ("*-DotNETRuntime", 82, (0,), "the frames are as many as the payload holds"),
    ("PerfInfo", 34, (0,), "what pads the text is no value"),
    ("Thread", 67, (2,), "u16, u16 became one u32 in Windows 10 1607: the same four bytes"),
    ("PageFault", 100, (2, 3), "behind the described fields stand the ranges, as pairs of address and size"),
    ("Microsoft-Windows-Kernel-Network", (10, 12, 13, 15, 16, 18, 26, 28, 29, 31, 32, 34, 42, 58), (0,),
     "the manifest's connid has four bytes, in recordings of 64-bit systems it is as wide as a pointer"),
    ("Microsoft-Windows-TCPIP", (1145, 1146, 1147, 1226, 1326), (0,), "grown without a new number: the newest build's is read"),
    ("PerfInfo", 122, (2,), "16 or 17 registers with one number of version: a list of as many as there are"),
]

# Records of classes that are read for which there is no table: class, opcodes or ids, versions, why.
MISSING = [
    ("Microsoft-Windows-DXGI", tuple(i for i in range(1, 1000) if i not in (43, 55, 56)), (0, 1, 2), "only its presents are read"),
]

# Tables whose records layouts.json does not have: class, opcodes or ids, first versions, why.
LEFT_OUT = "layouts.json does not have every record; here the class's other versions or the payload vectors are the witness"
DUMP = "described by the classes of Windows 11 26H1 (jdu2600/Windows10EtwEvents); pointers and sizes by their like"
UNLISTED = [
    ("Microsoft-Windows-DNS-Client", (3006, 3018), (0,), LEFT_OUT),
    ("DiskIo", (14, 15, 55, 56, 57, 58, 59, 60), (2, 3), LEFT_OUT),
    ("FileIo", (65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 77), (3,), LEFT_OUT),
    ("Image", (2, 3, 4), (0, 1), LEFT_OUT),
    ("Process", (1, 2, 3, 4, 39), (0, 1, 4, 5), LEFT_OUT),
    ("PageFault", (10, 11, 12, 13, 14, 15, 32, 98, 99), (0,), LEFT_OUT),
    ("PerfInfo", (50, 51, 52, 66, 67, 68, 69, 70, 95, 104, 105, 107), (2,), LEFT_OUT),
    ("PerfInfo", 72, (3,), LEFT_OUT),
    ("Registry", tuple(range(16, 30)), (0, 2), LEFT_OUT),
    ("StackWalk", (34, 35, 36, 37, 38), (0,), LEFT_OUT),
    ("SystemConfig", (18, 21, 24, 25, 26, 27, 31), (0, 2, 3), LEFT_OUT),
    ("Thread", (48, 49, 51, 52, 53, 61, 66, 68), (2, 3), LEFT_OUT),
    ("*-Kernel-Process", (1, 2, 3, 4, 15), (1, 2, 3), LEFT_OUT),
    ("*-Kernel-File", tuple(range(12, 35)), (0, 1), LEFT_OUT),
    ("*-Kernel-Registry", (3, 6, 9, 12, 15), (0,), LEFT_OUT),
    ("PageFault", (100, 127, 134), (2, 4), DUMP),
    ("PerfInfo", (75, 76), (3,), DUMP),
    ("ThreadPool", tuple(range(32, 41)), (2, 3), DUMP),
    ("CritSec", (34, 35), (0,), DUMP),
    ("LBR", 32, (2,), DUMP),
    ("Heap", (32, 33, 34, 36, 37, 38, 42), (2, 3), DUMP),
    ("Object", (32, 33, 34, 36, 37, 38, 39), (2, 3), DUMP),
    ("FileIo", tuple(range(96, 102)), (3,), DUMP),
    ("Registry", (36, 37, 38, 39, 40, 48), (2,), DUMP),
    ("Microsoft-Windows-DotNETRuntime*", None, None, "the manifest of the CLR's own providers (PerfView) is the witness"),
    ("Microsoft-Windows-DXGI", 42, (0,), LEFT_OUT),
    ("Microsoft-Windows-D3D9", None, None, "no manifest of it is there; as programs that count frames read it (PresentMon)"),
    ("Microsoft-Windows-HttpService", None, None, "the manifest of Windows 7 is the witness"),
    ("Microsoft-Windows-Kernel-Network", None, None, "its manifest is the witness"),
    ("Microsoft-Windows-PowerShell", None, None, "its manifest is the witness"),
    ("Microsoft-Windows-WinRM", None, None, "its manifest is the witness"),
    ("Microsoft-Windows-Kernel-Disk", None, None, DUMP),
    ("Microsoft-Windows-RPC", None, None, DUMP),
    ("ImageID", (0, 32, 36, 37, 38, 40, 64), (0,), "written by the tool that merges recordings; recordings have them"),
    ("SysConfig", tuple(range(32, 38)), (0,), "written by the tool that merges recordings; recordings have them"),
]


def versions_of(row):
    last = NEWEST if row["last_version"] is None else row["last_version"]
    return row["first_version"], last


def number_of(row):
    return row["opcode"] if "opcode" in row else row["id"]


def shape(field):
    """What must be equal of a field: how many bytes it takes, however it is shown."""
    if field["width"] == "string":
        return "wide" if field["type"].startswith("w") else "narrow"
    if field["width"] == "sid":
        return field["type"]
    return field["width"]


def fields_of(row):
    """Name and shape of each field, and what alignment leaves between them; at the payload's end that has no meaning."""
    padded = {text.split(" before ")[1] for text in row.get("padding_x64") or []}
    fields = []
    for f in row["fields"]:
        if f["name"] in padded:
            fields.append(("", "padding"))
        if f["type"] not in ("begin", "end"):
            fields.append((f["name"], "padding" if not f["name"] else shape(f)))
    while fields and fields[-1] == ("", "padding"):
        fields.pop()
    return fields


class Compare:
    def __init__(self, ours, theirs):
        self.theirs = theirs
        self.ours = {}
        for row in ours:
            self.ours.setdefault((row["guid"], number_of(row)), []).append(row)
        self.guids = {row["guid"] for row in ours}
        self.used = set()
        self.hit = set()
        self.problems = []
        self.equal = 0

    def explained(self, table, kind, row, version=None):
        """Whether a line of the table is about this row; it is noted as used."""
        name = row.get("class") or row.get("provider")
        for i, line in enumerate(table):
            numbers = line[1] if isinstance(line[1], tuple) else (line[1],)
            if fnmatch.fnmatch(name, line[0]) and (line[1] is None or (
                    number_of(row) in numbers and (version is None or version in line[2]))):
                self.used.add((kind, i))
                return True
        return False

    def find(self, row, version):
        for ours in self.ours.get((row["guid"], number_of(row)), []):
            first, last = versions_of(ours)
            if first <= version <= last:
                return ours
        return None

    def same_name(self, row, ours, theirs):
        if ours.lower() == theirs.lower():
            return True
        for i, (name, a, b, _) in enumerate(NAMES):
            if (a, b) == (ours, theirs) and fnmatch.fnmatch(row.get("class") or row["provider"], name):
                self.used.add(("name", i))
                return True
        return False

    def row(self, theirs):
        version = theirs["version"] if theirs["version"] is not None else 2  # kernel structures: of systems since Vista
        what = "%s %d version %d %s (%s, builds %s to %s)" % (
            theirs.get("class") or theirs["provider"], number_of(theirs), version, theirs.get("name"), theirs["source"],
            theirs.get("first_build"), theirs.get("last_build"))
        ours = self.find(theirs, version)
        if not ours:
            if not self.explained(MISSING, "missing", theirs, version):
                self.problems.append("%s: no table" % what)
            return
        self.hit.add(id(ours))
        a, b = fields_of(ours), fields_of(theirs)
        if [s for _, s in a] == [s for _, s in b]:
            wrong = [(x, y) for (x, _), (y, _) in zip(a, b) if not self.same_name(theirs, x, y)]
            if not wrong:
                self.equal += 1
            elif not self.explained(DIFFERENT, "different", theirs, version):
                self.problems.append("%s: names %s" % (what, wrong))
        elif not self.explained(DIFFERENT, "different", theirs, version):
            self.problems.append("%s: widths\n  ours   %s\n  theirs %s" % (what, a, b))

    def run(self):
        for theirs in self.theirs:
            if theirs["guid"] in self.guids:
                self.row(theirs)
            elif (theirs.get("class") or theirs["provider"]) not in PROVIDERS_NOT_READ:
                self.problems.append("%s is neither read nor listed as not read" % (theirs.get("class") or theirs["provider"]))
        for rows in self.ours.values():
            for ours in rows:
                if any(id(o) in self.hit and versions_of(o)[0] <= ours["first_version"] <= versions_of(o)[1] for o in rows):
                    continue  # a class that is charged, and the schema of the same event
                if id(ours) not in self.hit and not self.explained(UNLISTED, "unlisted", ours, ours["first_version"]):
                    self.problems.append("%s %d version %d %s: not in layouts.json" % (
                        ours.get("class") or ours["provider"], number_of(ours), ours["first_version"], ours["name"]))
        return self

    def stale(self):
        tables = (("name", NAMES), ("different", DIFFERENT), ("missing", MISSING), ("unlisted", UNLISTED))
        return ["%s: %s explains nothing" % (kind, line) for kind, table in tables for i, line in enumerate(table)
                if (kind, i) not in self.used]


def faults(row):
    """The row with one fault each: a changed width, a field that is missing, two fields that changed places."""
    wider = {1: 2, 2: 4, 4: 8, 8: 4, 16: 8, "pointer": 4, "string": 4, "sid": 4, "rest": 4}
    for i, field in enumerate(row["fields"]):
        if field["type"] in ("begin", "end", "align8", "align", "skip[1]"):
            continue
        before, after = row["fields"][:i], row["fields"][i + 1:]
        yield {**row, "fields": before + [{**field, "width": wider.get(field["width"], 4), "type": "u8"}] + after}
        if after and after[0]["name"]:
            yield {**row, "fields": before + after}
            if after[0]["name"].lower() != field["name"].lower():
                yield {**row, "fields": before + [after[0], field] + after[1:]}
    yield {**row, "fields": row["fields"] + [{"name": "More", "type": "u32", "width": 4}]}


def selftest(ours, theirs, explained):
    """Each fault in each table that a row of layouts.json is for, one at a time, must be noticed."""
    by_key = {}
    for row in theirs:
        by_key.setdefault((row["guid"], number_of(row)), []).append(row)
    tried = 0
    for row in ours:
        first, last = versions_of(row)
        about = [t for t in by_key.get((row["guid"], number_of(row)), [])
                 if first <= (t["version"] if t["version"] is not None else 2) <= last]
        about = [t for t in about if not explained(t)]
        if not about:
            continue
        for fault in faults(row):
            tried += 1
            check = Compare([fault], about)
            for t in about:
                check.row(t)
            if not check.problems:
                print("FAILED: this fault is not noticed: %s" % fault)
                sys.exit(1)
        check = Compare([{**row, "first_version": NEWEST, "last_version": None}], about)
        for t in about:
            check.row(t)
        if not check.problems:
            print("FAILED: a missing table is not noticed: %s" % row)
            sys.exit(1)
    return tried


def main():
    path = os.path.join(CORPUS, "layouts.json")
    if not os.path.exists(path):
        print("skipped: corpus not found (PROCFLEET_CORPUS names another place)")
        sys.exit(77)
    with open(path, encoding="utf-8") as f:
        theirs = json.load(f)["rows"]
    out = subprocess.run([AGENT, "etl", "layouts", "--format", "json"], stdout=subprocess.PIPE, check=True)
    ours = json.loads(out.stdout)
    compare = Compare(ours, theirs).run()
    problems = compare.problems + compare.stale()
    for problem in problems:
        print(problem)
    if problems:
        print("FAILED: %d differences" % len(problems))
        sys.exit(1)
    probe = Compare([], [])
    tried = selftest(ours, theirs, lambda t: probe.explained(DIFFERENT, "different", t, 2 if t["version"] is None else t["version"]))
    if tried < 1000:
        print("FAILED: only %d faults were tried" % tried)
        sys.exit(1)
    print("%d tables, %d rows of layouts.json are equal to them; each of %d faults was noticed" % (
        len(ours), compare.equal, tried))


if __name__ == "__main__":
    main()
