"""A reader of the collector's log of its own (format: collector/store/wal/wal.c), checksums not looked at."""

import glob
import os
import struct


def records(data_dir):
    """(kind, stream, seq, content) of every record, in order."""
    for path in sorted(glob.glob(os.path.join(data_dir, "**", "wal-*.log"), recursive=True)):
        data = open(path, "rb").read()
        if len(data) < 80:
            continue
        fixed, at = (80, 80) if struct.unpack_from("<I", data, 8)[0] >= 3 else (72, 40)
        while at + fixed + 8 <= len(data):
            magic, kind, name_n, n, flags = struct.unpack_from("<4sHHII", data, at)
            size = fixed + 8 + name_n + n + (16 if flags & 1 else 0)
            if magic != b"PFWR" or at + size > len(data):
                break
            yield (kind, *struct.unpack_from("<QQ", data, at + 32), data[at + fixed + name_n:at + fixed + name_n + n])
            at += size


def logged(data_dir):
    """(stream, seq) of every batch in the log, in order."""
    return [(stream, seq) for kind, stream, seq, _ in records(data_dir) if kind == 1]


def known(data_dir):
    """The same as a set, with what was sealed and has left the log since: each file begins with the ranges of what came before."""
    found = set(logged(data_dir))
    for kind, stream, _, ranges in records(data_dir):
        if kind == 2:
            for first, last in struct.iter_unpack("<QQ", ranges):
                assert last - first < 1 << 24, "these are no ranges of sequence numbers"
                found.update((stream, seq) for seq in range(first, last + 1))
    return found
