"""Recordings made up for tests: one buffer of records of one CPU, clock of 10 MHz, 64 bits."""

import struct

FREQUENCY = 10_000_000
START = 132_000_000_000_000_000  # FILETIME


def wide(text):
    return text.encode("utf-16-le") + b"\0\0"


def system(ms, group, opcode, payload, version=2, pid=4, tid=8):
    """A record of the kernel with process and thread."""
    size = 0x20 + len(payload)
    return struct.pack("<HBBHBBIIqII", version, 2, 0xC0, size, opcode, group, tid, pid, int(ms * FREQUENCY / 1000), 0, 0) + payload


def item(kind, data, more):
    """An extended item of a record."""
    size = (8 + len(data) + 7) // 8 * 8
    return (struct.pack("<HHHH", size, kind, 1 if more else 0, len(data)) + data).ljust(size, b"\0")


def event(ms, guid, number, payload, version=0, pid=4, tid=8, opcode=0, keyword=0, items=b""):
    """One of a provider; guid as text; extended items stand before its payload."""
    payload = items + payload
    size = 0x50 + len(payload)
    a, b, c, d, e = guid.split("-")
    raw = struct.pack("<IHH", int(a, 16), int(b, 16), int(c, 16)) + bytes.fromhex(d + e)
    return (struct.pack("<HBBHHIIq", size, 19, 0xC0, 1 if items else 0, 0, tid, pid, int(ms * FREQUENCY / 1000)) + raw +
            struct.pack("<HBBBBHQQ16x", number, version, 0, 4, opcode, 0, keyword, 0) + payload)


def process(ms, opcode, pid, parent, image, command="", status=259, by=4):
    """Process start 1, end 2, rundown 3 and 4; version 4."""
    payload = struct.pack("<QIIIiQII", pid << 8, pid, parent, 0, status, 0, 0, 0)[:44] + image.encode() + b"\0" + wide(command) + wide("") * 2
    return system(ms, 3, opcode, payload, version=4, pid=by)


def classic(ms, guid, opcode, payload, version=2, pid=4, tid=8):
    """One of a class, by its GUID as text, with a whole header."""
    a, b, c, d, e = guid.split("-")
    raw = struct.pack("<IHH", int(a, 16), int(b, 16), int(c, 16)) + bytes.fromhex(d + e)
    return struct.pack("<HBBBBHIIq", 0x30 + len(payload), 20, 0xC0, opcode, 0, version, tid, pid, int(ms * FREQUENCY / 1000)) + raw + bytes(8) + payload


def thread(ms, opcode, pid, tid):
    """Thread start 1, end 2, rundown 3 and 4; version 1."""
    return system(ms, 5, opcode, struct.pack("<II49x", pid, tid), version=1)


def image(ms, pid, base, size, path, opcode=10):
    """Image load 10, unload 2, rundown 3 and 4; version 2."""
    payload = struct.pack("<QQIIIIQ16x", base, size, pid, 0, 1, 0, base) + wide(path)
    return system(ms, 3 if opcode == 10 else 0x14, opcode, payload, version=2)


def sample(ms, tid, ip, flags=0):
    return system(ms, 0xF, 46, struct.pack("<QIHBB", ip, tid, 1, flags, 0), version=2)


def stack(ms, of_ms, pid, tid, frames, opcode=32, key=None):
    """The stack of the event of a moment; 37, 38 with a key, 35, 36 the frames of one."""
    payload = b"" if opcode in (35, 36) else struct.pack("<qII", int(of_ms * FREQUENCY / 1000), pid, tid)
    payload += b"" if key is None else struct.pack("<Q", key)
    return system(ms, 0x18, opcode, payload + struct.pack("<%dQ" % len(frames), *frames), version=2)


def buffer(records, kind):
    body = b"".join(r + b"\0" * (-len(r) % 8) for r in records)
    size = (0x48 + len(body) + 0xFFF) & ~0xFFF
    head = struct.pack("<IIIiqqQHHIIHH16x", size, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0x48 + len(body), 1, kind)
    return (head + body).ljust(size, b"\xff")


def write(path, records):
    """The records in order of time, behind the header."""
    head = struct.pack("<IBBBBIIqIIIIIIIIQQ", 65536, 10, 0, 1, 5, 19041, 1, START + FREQUENCY * 3600, 156250, 0, 0, 2, 1, 8, 0, 1000, 0, 0)
    head += b"\0" * 0xAC
    head += b"\0" * (-len(head) % 8)
    head += struct.pack("<qqqII", START - FREQUENCY * 60, FREQUENCY, START, 1, 0) + wide("made") + wide("made.etl")
    with open(path, "wb") as f:
        f.write(buffer([system(0, 0, 0, head)], 4) + buffer(records, 0))
    return path
