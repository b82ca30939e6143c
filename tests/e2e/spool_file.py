"""A reader of the agent's spool of its own (docs/formats.md), checksums not looked at."""

import glob
import os
import struct


def segments(spool):
    return sorted(glob.glob(os.path.join(spool, "spool-*.seg")))


def begin(path):
    """Where the records begin: version 1 has one copy of the header."""
    return 56 if struct.unpack_from("<I", open(path, "rb").read(12).ljust(12, b"\0"), 8)[0] < 2 else 112


def records(path):
    """(stream, seq, offset, length) of every whole record."""
    data, at, found = open(path, "rb").read(), begin(path), []
    while at + 48 <= len(data):
        stream = struct.unpack_from("<Q", data, 24)[0]
        magic, n, seq = struct.unpack_from("<4sIQ", data, at)
        if magic != b"PFSR" or at + 48 + n > len(data):
            break
        found.append((stream, seq, at, 48 + n))
        at += 48 + n
    return found
