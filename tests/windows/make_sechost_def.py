"""make_sechost_def.py OBJDUMP SECHOST OUT: the .def file of our sechost.dll, from Wine's.

Every export goes on to Wine's own file, kept as sechost_real.dll, but for the ten functions of event tracing.
"""

import re
import subprocess
import sys

OURS = {"StartTraceW": "start", "ControlTraceW": "control", "EnableTraceEx2": "enable", "TraceSetInformation": "set_info",
        "QueryAllTracesW": "list", "OpenTraceW": "open", "ProcessTrace": "process", "CloseTrace": "close",
        "TraceQueryInformation": "query_info", "EnumerateTraceGuidsEx": "guids"}
EVENTS = {"EventRegister": "register", "EventSetInformation": "set", "EventWriteTransfer": "write", "EventUnregister": "unregister"}

objdump, wine, out = sys.argv[1:]
text = subprocess.run([objdump, "-p", wine], check=True, stdout=subprocess.PIPE, text=True).stdout
table = text.partition("[Ordinal/Name Pointer] Table")[2].partition("\n\n")[0]
names = re.findall(r"^\s*\[\s*\d+\](?:\s+\+base\[\s*\d+\])?(?:\s+[0-9a-f]{4})?\s+(\w+)$", table, re.M)
if len(names) < 100 or not OURS.keys() <= set(names):
    sys.exit("%s does not export what is expected: %d names" % (wine, len(names)))
with open(out, "w", encoding="ascii") as f:
    f.write("LIBRARY sechost.dll\nEXPORTS\n")
    for name, ours in EVENTS.items():  # Wine's own are in advapi32, where they are looked for after this
        f.write("  %s = sechost_event_%s\n" % (name, ours))
    for name in [n for n in names if n not in EVENTS]:
        f.write("  %s = %s\n" % (name, "sechost_" + OURS[name] if name in OURS else "sechost_real." + name))
