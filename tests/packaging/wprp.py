"""The profiles for Windows Performance Recorder: complete, in both modes, and of nothing that procfleet-etl does not read.

Each keyword of the kernel is one of the flags that the agent knows (agent/conf/etw_conf.h) or a name of files; each provider is
one that procfleet-etl has a table or a name for; .NET is asked for at least what the agent asks live."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as tree

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
KEYWORDS = {  # of the recorder: flags of the agent
    "ProcessThread": ("PROCESS", "THREAD"), "Loader": ("IMAGE",), "ProcessCounter": ("PROCESS_COUNTERS",), "CSwitch": ("CSWITCH",),
    "ReadyThread": ("DISPATCHER",), "SampledProfile": ("PROFILE",), "DPC": ("DPC",), "Interrupt": ("INTERRUPT",),
    "DiskIO": ("DISK_IO",), "DiskIOInit": ("DISK_INIT",), "HardFaults": ("HARD_FAULTS",), "FileIO": ("FILE_IO",),
    "FileIOInit": ("FILE_IO_INIT",), "Registry": ("REGISTRY",), "NetworkTrace": ("NETWORK",), "Filename": ()}
STACKS = {"CSwitch", "ReadyThread", "SampledProfile", "HardFault", "DiskReadInit", "FileCreate", "FileRead", "FileWrite"}
PROFILES = ["cpu", "disk", "dotnet", "file", "general", "network"]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def check(what, right, detail=""):
    print("%s: %s%s" % ("ok" if right else "FAILED", what, "" if right else "\n  %s" % (detail,)))
    if not right:
        sys.exit(1)


def refers(root):
    """Every id that is named is there, once."""
    ids = [e.get("Id") for e in root.iter() if e.get("Id")]
    check("each id is there once", len(ids) == len(set(ids)), ids)
    named = {e.get("Value") for e in root.iter() if e.tag.endswith("Id")} | {e.get("Base") for e in root.iter() if e.get("Base")}
    check("what is named is there", named <= set(ids), named - set(ids))
    kinds = {e.get("Id"): e.tag for e in root.iter() if e.get("Id")}
    for e in root.iter():
        if e.tag.endswith("Id"):
            check("%s is a %s" % (e.get("Value"), e.tag[:-2]), kinds[e.get("Value")] == e.tag[:-2])


def profiles(root):
    found = sorted((p.get("Name"), p.get("LoggingMode")) for p in root.iter("Profile"))
    check("each profile is there for a file and for memory", found == sorted(
        ("procfleet_" + n, mode) for n in PROFILES for mode in ("File", "Memory")), found)
    for p in root.iter("Profile"):
        check("%s is called as the recorder wants it" % p.get("Id"), p.get("Id") == "%s.%s.%s" % (
            p.get("Name"), p.get("DetailLevel"), p.get("LoggingMode")) and p.get("Description"))
    told = set(re.findall(r"procfleet_(\w+)", read("docs", "wpr.md"))) - {"wpr"}
    check("the document names each", told == set(PROFILES), told)


def kernel(root):
    flags = set(re.findall(r"ETW_FLAG_(\w+) = 0x", read("agent", "conf", "etw_conf.h")))
    for provider in root.iter("SystemProvider"):
        asked = {k.get("Value") for k in provider.iter("Keyword")}
        check("%s asks for what is known" % provider.get("Id"), asked <= set(KEYWORDS), asked - set(KEYWORDS))
        check("of processes, threads, images and counters at least", {"ProcessThread", "Loader", "ProcessCounter"} <= asked, asked)
        wanted = {f for k in asked for f in KEYWORDS[k]}
        check("each is a flag that the agent has", wanted <= flags, wanted - flags)
        stacks = {s.get("Value") for s in provider.iter("Stack")}
        check("stacks are of what is recorded", stacks <= STACKS, stacks - STACKS)


def providers(root):
    known = read("agent", "etl", "schema", "etl_providers.txt").lower()
    for p in root.iter("EventProvider"):
        check("%s is a GUID" % p.get("Id"), re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", p.get("Name")))
        check("procfleet-etl knows its name", p.get("Name") in known or p.get("Name") in read("agent", "source", "etw_guid.h"), p.get("Name"))
    clr = next(p for p in root.iter("EventProvider") if p.get("Id") == "clr")
    live = int(re.search(r"UINT64_C\((0x[0-9a-f]+)\) /\* GC", read("agent", "conf", "etw_conf.c")).group(1), 16)
    asked = int(clr.find("Keywords/Keyword").get("Value"), 16)
    check(".NET is asked for what the agent asks live", asked & live == live, (hex(asked), hex(live)))


def recorded(root):
    """procfleet-agent record has the same profiles."""
    names = {"PROCESS_COUNTERS": "counters", "DISPATCHER": "ready", "DISK_IO": "disk", "FILE_IO": "file", "FILE_IO_INIT": "file_init"}
    kernels = {p.get("Id")[:-len("_kernel")]: p for p in root.iter("SystemProvider")}
    guids = {p.get("Id"): (p.get("Name"), p.get("Level"), p.find("Keywords/Keyword")) for p in root.iter("EventProvider")}
    for profile in PROFILES:
        out = subprocess.run([os.path.join(os.environ["PROCFLEET_BIN"], "procfleet-etl"), "record", "--dry-run", "--profile", profile],
                             check=True, capture_output=True, text=True, timeout=30).stdout
        asked = [k.get("Value") for k in kernels[profile].iter("Keyword")]
        flags = {names.get(f, f.lower()) for k in asked for f in KEYWORDS[k]} | ({"0x200"} if "Filename" in asked else set())
        check("%s: the same flags" % profile, set(re.search(r"^kernel +(.*)$", out, re.M)[1].split(",")) == flags, (out, flags))
        check("%s: the same stacks" % profile, set(re.findall(r"^stack +(\w+)", out, re.M)) == {
            s.get("Value") for s in kernels[profile].iter("Stack")}, out)
        of = next(p for p in root.iter("Profile") if p.get("Id") == "procfleet_%s.Verbose.File" % profile)
        wanted = [p.get("Value") for p in of.iter("EventProviderId")]
        check("%s: what the agent and its marks say" % profile, wanted.count("procfleet") == 1, wanted)
        wanted.remove("procfleet")  # the recorder asks for it whatever the profile
        check("%s: the rundown of .NET at the end" % profile, ("clr_rundown" in wanted) == ("at end" in out), out)
        told = {m[0]: (m[1], int(m[2], 16)) for m in re.findall(r"^provider +(\S+) level (\d) keywords (\S+)", out, re.M)}
        check("%s: the same providers" % profile, told == {
            guids[i][0]: (guids[i][1], int(guids[i][2].get("Value"), 16) if guids[i][2] is not None else 0) for i in wanted
            if i != "clr_rundown"}, (told, wanted))


def main():
    root = tree.fromstring(read("packaging", "windows", "procfleet.wprp").encode())
    check("it is a recorder's file", root.tag == "WindowsPerformanceRecorder" and root.get("Version") == "1.0", root.tag)
    refers(root)
    profiles(root)
    kernel(root)
    providers(root)
    recorded(root)


main()
sys.exit(0)
