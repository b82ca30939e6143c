"""A reader of the collector's log of its own (format: collector/store/wal.c), checksums not looked at."""

import glob
import os
import struct


def logged(data_dir):
    """(stream, seq) of every batch in the log, in order."""
    found = []
    for path in sorted(glob.glob(os.path.join(data_dir, "**", "wal-*.log"), recursive=True)):
        data, at = open(path, "rb").read(), 40
        while at + 80 <= len(data):
            magic, kind, name_n, n, flags = struct.unpack_from("<4sHHII", data, at)
            size = 80 + name_n + n + (16 if flags & 1 else 0)
            if magic != b"PFWR" or at + size > len(data):
                break
            if kind == 1:
                found.append(struct.unpack_from("<QQ", data, at + 32))
            at += size
    return found
