"""Turns an instrumentation manifest (XML) into a program with the resource WEVT_TEMPLATE, as a message compiler does: a PE file with nothing
else in it. Maps are not carried over."""

import struct
import xml.etree.ElementTree as ET

IN = ["", "UnicodeString", "AnsiString", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double", "Boolean",
      "Binary", "GUID", "Pointer", "FILETIME", "SYSTEMTIME", "SID", "HexInt32", "HexInt64"]
OUT = ["", "string", "dateTime", "byte", "unsignedByte", "short", "unsignedShort", "int", "unsignedInt", "long", "unsignedLong", "float",
       "double", "boolean", "GUID", "hexBinary", "HexInt8", "HexInt16", "HexInt32", "HexInt64", "PID", "TID", "Port", "IPv4", "IPv6",
       "SocketAddress", "CIMDateTime", "ETWTIME", "Xml", "ErrorCode", "Win32Error", "NTSTATUS", "HResult"]


def plain(text):
    return (text or "").rpartition(":")[2]


def index(names, text):
    folded = [n.lower() for n in names]
    return folded.index(plain(text).lower()) if plain(text).lower() in folded else 0


class Resource:
    def __init__(self):
        self.raw, self.texts = bytearray(), {}

    def put(self, data):
        at = len(self.raw)
        self.raw += data
        return at

    def text(self, text):
        if text not in self.texts:
            data = text.encode("utf-16-le") + b"\0\0"
            self.texts[text] = self.put(struct.pack("<I", 4 + len(data)) + data)
        return self.texts[text]


def template(r, node, names):
    """Bytes of a template that will stand at the end; its texts are there already."""
    items = []
    for data in node:
        flags = count = length = 0
        if data.get("length"):
            flags, length = (0, int(data.get("length"))) if data.get("length").isdigit() else (2, names.index(data.get("length")))
        if data.get("count"):
            flags, count = (flags, int(data.get("count"))) if data.get("count").isdigit() else (flags | 4, names.index(data.get("count")))
        items.append(struct.pack("<IBBHIHHI", flags, index(IN, data.get("inType")), index(OUT, data.get("outType")), 0, 0, count, length,
                                 r.text(data.get("name"))))
    at = len(r.raw) + 40
    size = 40 + 20 * len(items)
    return struct.pack("<4sIIIII16x", b"TEMP", size, len(items), len(items), at, 1) + b"".join(items)


def resource(xml):
    r, ns = Resource(), lambda node: node.tag.rpartition("}")[2]
    providers = [n for n in ET.parse(xml).iter() if ns(n) == "provider" and n.get("guid")]
    r.put(struct.pack("<4sIHHI", b"CRIM", 0, 3, 1, len(providers)) + bytes(20 * len(providers)))
    for i, provider in enumerate(providers):
        templates, tasks, opcodes, at = {}, {}, {}, {}
        for n in provider.iter():
            if ns(n) == "template":
                templates[n.get("tid")] = [d for d in n if ns(d) == "data"]
        for text in [n.get("task") or "" for n in provider.iter() if ns(n) == "event"]:
            tasks[text] = r.put(struct.pack("<II16xI", 0, 0, r.text(text)))
        for text in [plain(n.get("opcode")) for n in provider.iter() if ns(n) == "event"]:
            opcodes[text] = r.put(struct.pack("<III", 0, 0, r.text(text)))
        for data in templates.values():
            for d in data:
                r.text(d.get("name"))
        table = r.put(struct.pack("<4sII", b"TTBL", 0, len(templates)))
        for tid, data in templates.items():
            at[tid] = r.put(template(r, data, [d.get("name") for d in data]))
        struct.pack_into("<I", r.raw, table + 4, len(r.raw) - table)
        events = [n for n in provider.iter() if ns(n) == "event"]
        list_at = r.put(struct.pack("<4sIII", b"EVNT", 16 + 48 * len(events), len(events), 0))
        for n in events:
            r.put(struct.pack("<HBBBBHQIIIIIIII", int(n.get("value"), 0), int(n.get("version") or "0", 0), 0, 0, 0, 0, 0, 0xFFFFFFFF,
                              at.get(n.get("template"), 0), opcodes[plain(n.get("opcode"))], 0, tasks[n.get("task") or ""], 0, 0, 0))
        wevt = r.put(struct.pack("<4sIIII", b"WEVT", 36, 0xFFFFFFFF, 2, 0) + struct.pack("<IIII", table, 7, list_at, 1))
        a, b, c, d, e = provider.get("guid").strip("{}").split("-")
        struct.pack_into("<IHH8sI", r.raw, 16 + 20 * i, int(a, 16), int(b, 16), int(c, 16), bytes.fromhex(d + e), wevt)
    struct.pack_into("<I", r.raw, 4, len(r.raw))
    return bytes(r.raw)


def write(path, xml):
    data, base = resource(xml), 0x1000
    name = "WEVT_TEMPLATE".encode("utf-16-le")
    def level(named, ids, entry):
        return struct.pack("<IIHHHH", 0, 0, 0, 0, named, ids) + struct.pack("<II", *entry)
    tree = level(1, 0, (0x80000000 | 96, 0x80000000 | 24)) + level(0, 1, (1, 0x80000000 | 48)) + level(0, 1, (1033, 72))
    tree += struct.pack("<IIII", base + 128, len(data), 0, 0)
    tree = tree.ljust(96, b"\0") + struct.pack("<H", len(name) // 2) + name
    section = tree.ljust(128, b"\0") + data
    optional = struct.pack("<H", 0x20B).ljust(108, b"\0") + struct.pack("<I", 16) + struct.pack("<IIIIII", 0, 0, 0, 0, base, len(section))
    optional = optional.ljust(240, b"\0")
    head = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, len(optional), 0x2022)
    head += optional + struct.pack("<8sIIIIIIHHI", b".rsrc", len(section), base, len(section), 512, 0, 0, 0, 0, 0x40000040)
    with open(path, "wb") as f:
        f.write(head.ljust(512, b"\0") + section)
    return path
