"""What an .exe must be before it leaves the house: check_pe.py FILE MAX_BYTES. Reads the headers itself.

64 bits, for Windows 10 on; relocatable, high-entropy, data never executed, no page both writable and executable; imports only
from DLLs that every Windows has in System32; a version resource, and a manifest that asks for no rights and for long paths; the
stack protector; no symbols; not larger than MAX_BYTES.
"""
import pathlib
import struct
import sys

SYSTEM_DLLS = {"advapi32.dll", "bcrypt.dll", "kernel32.dll", "msvcrt.dll", "ntdll.dll", "ws2_32.dll"}
FLAGS = {"HIGH_ENTROPY_VA": 0x20, "DYNAMIC_BASE": 0x40, "NX_COMPAT": 0x100}
WRITE, EXECUTE = 0x80000000, 0x20000000
IMPORTS, RESOURCES, RELOCATIONS, TLS = 1, 2, 5, 9
RT_VERSION, RT_MANIFEST = 16, 24
MANIFEST = (b'level="asInvoker"', b"{8e0f7a12-bfb3-4fe8-b9a5-48fd50a15a9a}", b">true</longPathAware>")


class Image:
    def __init__(self, data):
        self.data = data
        pe = self.u32(0x3C)
        if data[:2] != b"MZ" or data[pe:pe + 4] != b"PE\0\0":
            raise SystemExit("FAILED: not a PE file")
        (self.machine, n_sections, _, _, self.n_symbols, optional_size, self.marks) = struct.unpack_from(
            "<HHIIIHH", data, pe + 4)
        self.optional = pe + 24
        self.sections = []
        for i in range(n_sections):
            at = self.optional + optional_size + 40 * i
            name, size, address, raw_size, raw = struct.unpack_from("<8sIIII", data, at)
            self.sections.append((name.rstrip(b"\0").decode(), address, max(size, raw_size), raw, self.u32(at + 36)))

    def u16(self, at):
        return struct.unpack_from("<H", self.data, at)[0]

    def u32(self, at):
        return struct.unpack_from("<I", self.data, at)[0]

    def directory(self, index):
        return struct.unpack_from("<II", self.data, self.optional + 112 + 8 * index)

    def place(self, address):
        for _, start, size, raw, _ in self.sections:
            if start <= address < start + size:
                return raw + address - start
        raise SystemExit(f"FAILED: address {address:#x} is in no section")

    def text(self, address):
        at = self.place(address)
        return self.data[at:self.data.index(b"\0", at)].decode()

    def dlls(self):
        at = self.place(self.directory(IMPORTS)[0])
        while self.u32(at + 12):
            yield self.text(self.u32(at + 12)).lower()
            at += 20

    def resource_types(self):
        address, size = self.directory(RESOURCES)
        if not size:
            return []
        at = self.place(address)
        n = self.u16(at + 12) + self.u16(at + 14)
        return [self.u32(at + 16 + 8 * i) for i in range(n)]


def problems(image, size, max_bytes):
    if size > max_bytes:
        yield f"{size} bytes, more than {max_bytes}"
    if (image.machine, image.u16(image.optional)) != (0x8664, 0x20B):
        yield "not for x86-64"
    for what, at in (("system", 40), ("subsystem", 48)):
        version = image.u16(image.optional + at), image.u16(image.optional + at + 2)
        if version != (10, 0):
            yield f"made for {what} version {version[0]}.{version[1]}, not 10.0"
    flags = image.u16(image.optional + 70)
    for name, bit in FLAGS.items():
        if not flags & bit:
            yield f"{name} is not set"
    if image.marks & 1 or not image.directory(RELOCATIONS)[1]:
        yield "cannot be relocated: DYNAMIC_BASE is void"
    if image.n_symbols:
        yield "symbols were not stripped"
    for name, _, _, _, marks in image.sections:
        if marks & WRITE and marks & EXECUTE:
            yield f"section {name} is writable and executable"
        if name.startswith(".debug"):
            yield f"section {name} belongs beside the program"
    for dll in sorted(set(image.dlls()) - SYSTEM_DLLS):
        yield f"imports {dll}"
    if RT_VERSION not in image.resource_types():
        yield "has no version resource"
    if RT_MANIFEST not in image.resource_types() or not all(text in image.data for text in MANIFEST):
        yield "has no manifest, or not the one"
    if b"stack smashing detected" not in image.data:
        yield "was built without the stack protector"


def main():
    path, max_bytes = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    data = path.read_bytes()
    found = list(problems(Image(data), len(data), max_bytes))
    for problem in found:
        print(f"FAILED: {path.name}: {problem}")
    if not found:
        print(f"ok: {path.name}: {len(data)} bytes of {max_bytes}")
    raise SystemExit(1 if found else 0)


main()
