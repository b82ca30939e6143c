"""Turns an instrumentation manifest (XML) into a program with the resource WEVT_TEMPLATE, as a message compiler does: a PE file with nothing
else in it but, if wanted, the message table with the texts of maps."""

import struct
import xml.etree.ElementTree as ET

IN = ["", "UnicodeString", "AnsiString", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double", "Boolean",
      "Binary", "GUID", "Pointer", "FILETIME", "SYSTEMTIME", "SID", "HexInt32", "HexInt64"]
OUT = ["", "string", "dateTime", "byte", "unsignedByte", "short", "unsignedShort", "int", "unsignedInt", "long", "unsignedLong", "float",
       "double", "boolean", "GUID", "hexBinary", "HexInt8", "HexInt16", "HexInt32", "HexInt64", "PID", "TID", "Port", "IPv4", "IPv6",
       "SocketAddress", "CIMDateTime", "ETWTIME", "Xml", "ErrorCode", "Win32Error", "NTSTATUS", "HResult"]
STRUCT, LENGTH, LENGTH_OF, COUNT, COUNT_OF = 1, 2, 4, 8, 16
FIRST_MESSAGE = 0xD0000001


def plain(text):
    return (text or "").rpartition(":")[2]


def tag(node):
    return node.tag.rpartition("}")[2]


def index(names, text):
    folded = [n.lower() for n in names]
    return folded.index(plain(text).lower()) if plain(text).lower() in folded else 0


class Resource:
    def __init__(self):
        self.raw, self.texts, self.messages = bytearray(), {}, []

    def put(self, data):
        at = len(self.raw)
        self.raw += data
        return at

    def text(self, text):
        if text not in self.texts:
            data = text.encode("utf-16-le") + b"\0\0"
            self.texts[text] = self.put(struct.pack("<I", 4 + len(data)) + data)
        return self.texts[text]

    def message(self, text):
        self.messages.append(text)
        return FIRST_MESSAGE + len(self.messages) - 1


def item(r, node, names, maps, members=None):
    """Of a template; `members`: the first, and how many, of a struct."""
    flags = count = length = 0
    if node.get("length"):
        flags, length = (LENGTH, int(node.get("length"))) if node.get("length").isdigit() else (LENGTH_OF, names.index(node.get("length")))
    if node.get("count"):
        flags, count = (flags | COUNT, int(node.get("count"))) if node.get("count").isdigit() else (flags | COUNT_OF, names.index(node.get("count")))
    kind = struct.pack("<HH", *members) if members else struct.pack("<BBH", index(IN, node.get("inType")), index(OUT, node.get("outType")), 0)
    return struct.pack("<I4sIHHI", flags | (STRUCT if members else 0), kind, maps.get(node.get("map"), 0), count, length, r.text(node.get("name")))


def template(r, nodes, maps):
    """Bytes of a template that will stand at the end; its texts are there already. Members of structs stand behind all others."""
    names, items, behind = [n.get("name") for n in nodes], [], []
    for node in nodes:
        members, first = [m for m in node if tag(m) == "data"] if tag(node) == "struct" else [], len(nodes) + len(behind)
        items.append(item(r, node, names, maps, (first, len(members)) if members else None))
        known = names + [""] * len(behind) + [m.get("name") for m in members]  # numbers are of all items
        behind += [item(r, m, known, maps) for m in members]
    at = len(r.raw) + 40
    items += behind
    return struct.pack("<4sIIIII16x", b"TEMP", 40 + 20 * len(items), len(nodes), len(items), at, 1) + b"".join(items)


def put_maps(r, provider, strings):
    """Where each map is, by its name; where their list is, 0: none."""
    maps, nodes = {}, [n for n in provider.iter() if tag(n) in ("valueMap", "bitMap")]
    for n in nodes:
        values = [(int(m.get("value"), 0), r.message(strings[m.get("message")[len("$(string."):-1]])) for m in n if tag(m) == "map"]
        name = r.text(n.get("name"))
        head = struct.pack("<4sIIII", b"BMAP" if tag(n) == "bitMap" else b"VMAP", 20 + 8 * len(values), name, tag(n) == "bitMap", len(values))
        maps[n.get("name")] = r.put(head + b"".join(struct.pack("<II", *v) for v in values))
    return maps, r.put(struct.pack("<4sII%dI" % len(nodes), b"MAPS", 12 + 4 * len(nodes), len(nodes), *maps.values())) if nodes else 0


def resource(xml):
    r, root = Resource(), ET.parse(xml)
    strings = {n.get("id"): n.get("value") for n in root.iter() if tag(n) == "string"}
    providers = [n for n in root.iter() if tag(n) == "provider" and n.get("guid")]
    r.put(struct.pack("<4sIHHI", b"CRIM", 0, 3, 1, len(providers)) + bytes(20 * len(providers)))
    for i, provider in enumerate(providers):
        tasks, opcodes, at = {}, {}, {}
        maps, map_list = put_maps(r, provider, strings)
        templates = {n.get("tid"): [d for d in n if tag(d) in ("data", "struct")] for n in provider.iter() if tag(n) == "template"}
        for text in [n.get("task") or "" for n in provider.iter() if tag(n) == "event"]:
            tasks[text] = r.put(struct.pack("<II16xI", 0, 0, r.text(text)))
        for text in [plain(n.get("opcode")) for n in provider.iter() if tag(n) == "event"]:
            opcodes[text] = r.put(struct.pack("<III", 0, 0, r.text(text)))
        for data in templates.values():
            for d in data:
                for n in d.iter():
                    r.text(n.get("name") or "")
        table = r.put(struct.pack("<4sII", b"TTBL", 0, len(templates)))
        for tid, data in templates.items():
            at[tid] = r.put(template(r, data, maps))
        struct.pack_into("<I", r.raw, table + 4, len(r.raw) - table)
        events = [n for n in provider.iter() if tag(n) == "event"]
        list_at = r.put(struct.pack("<4sIII", b"EVNT", 16 + 48 * len(events), len(events), 0))
        for n in events:
            r.put(struct.pack("<HBBBBHQIIIIIIII", int(n.get("value"), 0), int(n.get("version") or "0", 0), 0, 0, 0, 0, 0, 0xFFFFFFFF,
                              at.get(n.get("template"), 0), opcodes[plain(n.get("opcode"))], 0, tasks[n.get("task") or ""], 0, 0, 0))
        parts = [(7, table), (4, list_at)] + ([(6, map_list)] if map_list else [])
        wevt = r.put(struct.pack("<4sIII", b"WEVT", 16 + 8 * len(parts), 0xFFFFFFFF, len(parts)) + b"".join(struct.pack("<II", *p) for p in parts) + bytes(4))
        a, b, c, d, e = provider.get("guid").strip("{}").split("-")
        struct.pack_into("<IHH8sI", r.raw, 16 + 20 * i, int(a, 16), int(b, 16), int(c, 16), bytes.fromhex(d + e), wevt)
    struct.pack_into("<I", r.raw, 4, len(r.raw))
    return bytes(r.raw), message_table(r.messages)


def message_table(texts):
    """Two blocks, as ids of several kinds make them."""
    half = len(texts) // 2
    blocks, raw = [(0, half), (half, len(texts))] if half else [(0, len(texts))], b""
    at, heads = 4 + 12 * len(blocks), b""
    for first, end in blocks:
        heads += struct.pack("<III", FIRST_MESSAGE + first, FIRST_MESSAGE + end - 1, at + len(raw))
        for text in texts[first:end]:
            data = (text + "\r\n").encode("utf-16-le") + b"\0\0"
            raw += struct.pack("<HH", 4 + len(data), 1) + data
    return struct.pack("<I", len(blocks)) + heads + raw


def write(path, xml, messages=None):
    """messages  another file that gets the message table, as a language's .mui; else the program has it itself."""
    data, texts = resource(xml)
    program(path, [("WEVT_TEMPLATE", data)] + ([] if messages else [(11, texts)]))
    if messages:
        program(messages, [(11, texts)])
    return path


def program(path, resources):
    """A PE file with resources by type, names before numbers; each has one number and language."""
    base, n = 0x1000, len(resources)
    named = sum(isinstance(t, str) for t, _ in resources)
    at, tree = 16 + 8 * n, struct.pack("<IIHHHH", 0, 0, 0, 0, named, n - named)
    levels, names, blobs = b"", b"", b""
    names_at = at + n * (24 + 24 + 16)
    blobs_at = names_at + sum(2 + 2 * len(t) for t, _ in resources if isinstance(t, str))
    blobs_at += -blobs_at % 16
    for i, (kind, data) in enumerate(resources):
        here = at + i * 64
        if isinstance(kind, str):
            tree += struct.pack("<II", 0x80000000 | (names_at + len(names)), 0x80000000 | here)
            names += struct.pack("<H", len(kind)) + kind.encode("utf-16-le")
        else:
            tree += struct.pack("<II", kind, 0x80000000 | here)
        levels += struct.pack("<IIHHHHII", 0, 0, 0, 0, 0, 1, 1, 0x80000000 | (here + 24)) + struct.pack("<IIHHHHII", 0, 0, 0, 0, 0, 1, 1033, here + 48)
        levels += struct.pack("<IIII", base + blobs_at + len(blobs), len(data), 0, 0)
        blobs += data + b"\0" * (-len(data) % 8)
    section = (tree + levels + names).ljust(blobs_at, b"\0") + blobs
    optional = struct.pack("<H", 0x20B).ljust(108, b"\0") + struct.pack("<I", 16) + struct.pack("<IIIIII", 0, 0, 0, 0, base, len(section))
    optional = optional.ljust(240, b"\0")
    head = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, len(optional), 0x2022)
    head += optional + struct.pack("<8sIIIIIIHHI", b".rsrc", len(section), base, len(section), 512, 0, 0, 0, 0, 0x40000040)
    with open(path, "wb") as f:
        f.write(head.ljust(512, b"\0") + section)
