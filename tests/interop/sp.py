"""A foreign client: the Python standard library and PROTOCOL.md, none of our code.

Speaks the SP framing of NNG (REQ/REP, PUB/SUB) over TLS, frames of procfleet, and as much protobuf as the answers need.
"""

import os
import socket
import ssl
import struct

SP_PUB, SP_SUB, SP_REQ, SP_REP = 0x20, 0x21, 0x30, 0x31
FRAME_MAGIC, FRAME_VERSION = 0xB7, 1


def tls_context(ca, cert=None, key=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # with TLS 1.3, where both sides have it
    context.load_verify_locations(ca)
    if cert:
        context.load_cert_chain(cert, key)
    return context


class Connection:
    """One SP connection over mutual TLS."""

    def __init__(self, address, protocol, tls, timeout=20, server_name="procfleet-collector"):
        host, port = address.rsplit(":", 1)
        raw = socket.create_connection((host, int(port)), timeout=timeout)
        self.socket = tls_context(**tls).wrap_socket(raw, server_hostname=server_name)
        self.socket.sendall(struct.pack(">BBBBHH", 0, 0x53, 0x50, 0, protocol, 0))
        greeting = self.exactly(8)
        assert greeting[:4] == b"\0SP\0", greeting
        self.peer = struct.unpack(">H", greeting[4:6])[0]

    def exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.socket.recv(n - len(data))
            if not part:
                raise ConnectionError("closed by the peer")
            data += part
        return data

    def send(self, body):
        self.socket.sendall(struct.pack(">Q", len(body)) + body)

    def receive(self):
        return self.exactly(struct.unpack(">Q", self.exactly(8))[0])

    def close(self):
        self.socket.close()


# -- protobuf, as far as needed --

def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def field_bytes(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def field_varint(number, value):
    return varint(number << 3) + varint(value)


def field_fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<q", value)


def packed_sint64(number, values):
    return field_bytes(number, b"".join(varint(v << 1 if v >= 0 else -v * 2 - 1) for v in values))


def fields(data):
    """{number: [values]}; varints as int, fixed as bytes, length-delimited as bytes."""
    out, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 5:
            value, at = data[at:at + 4], at + 4
        else:
            assert kind == 2, kind
            n, at = read_varint(data, at)
            value, at = data[at:at + n], at + n
            assert len(value) == n
        out.setdefault(tag >> 3, []).append(value)
    return out


# -- frames --

def call(connection, method, payload=b"", timeout_ms=10000):
    """Sends one request and gives (status code, message, payload)."""
    head, reply = call_header(connection, method, payload, timeout_ms)
    return head.get(2, [0])[0], head.get(3, [b""])[0].decode(), reply


def call_header(connection, method, payload=b"", timeout_ms=10000, encoding=0):
    """Sends one request and gives (fields of the reply's header, payload)."""
    call_id = os.urandom(16)
    header = (field_bytes(1, method.encode()) + field_bytes(3, call_id) + field_varint(4, timeout_ms) +
              (field_varint(5, encoding) if encoding else b"") + field_bytes(7, b"python"))
    request_id = struct.pack(">I", 0x80000000 | int.from_bytes(os.urandom(3), "big"))
    connection.send(request_id + struct.pack("<BBH", FRAME_MAGIC, FRAME_VERSION, len(header)) + header + payload)
    reply = connection.receive()
    assert reply[:4] == request_id, "the reply answers another request"
    magic, version, n = struct.unpack("<BBH", reply[4:8])
    assert (magic, version) == (FRAME_MAGIC, FRAME_VERSION)
    head = fields(reply[8:8 + n])
    assert head[1][0] == call_id, "the reply answers another call"
    return head, reply[8 + n:]


def split_update(message):
    """Topic, epoch, sequence and protobuf payload of one message of the event stream."""
    topic, _, rest = message.partition(b"\0")
    epoch, seq = struct.unpack("<QQ", rest[:16])
    return topic.decode(), epoch, seq, rest[16:]


# -- a batch, stored in a zstd frame without being compressed --

def zstd_stored(data):
    head = b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + struct.pack("<Q", len(data))  # one segment, size in 8 bytes
    blocks, at = b"", 0
    while True:
        part = data[at:at + 100000]
        at += len(part)
        blocks += struct.pack("<I", len(part) << 3 | (at == len(data)))[:3] + part
        if at == len(data):
            return head + blocks


def batch(host, boot, stream, seq, ticks):
    """A batch without processes; ticks are pairs of wall and monotonic time."""
    def differences(values):
        return [values[0]] + [b - a for a, b in zip(values, values[1:])]
    return zstd_stored(
        field_varint(1, 1) + field_bytes(2, host) + field_fixed64(3, stream) + field_varint(4, seq) +
        field_bytes(5, boot) + field_bytes(8, b"proc") +
        packed_sint64(10, differences([t[0] for t in ticks])) + packed_sint64(11, differences([t[1] for t in ticks])))
