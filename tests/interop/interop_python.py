"""A client written from PROTOCOL.md alone asks GetServerInfo and receives live events over mutual TLS."""

import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import sp  # noqa: E402
from fleet import Fleet, check, ensure  # noqa: E402


def fnv1a(name):
    h = 0x811C9DC5
    for byte in name.encode():
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return h or 1


def server_info(fleet):
    connection = sp.Connection("127.0.0.1:" + fleet.ports["query"], sp.SP_REQ, fleet.tls("operator"))
    check("the query port speaks REP", connection.peer, sp.SP_REP)
    code, message, payload = sp.call(connection, "procfleet.v1.Query/GetServerInfo")
    check("GetServerInfo answers OK", (code, message), (0, ""))
    info = sp.fields(payload)
    ensure("the collector tells its version", info[1][0].decode()[0].isdigit(), info)
    ensure("the collector tells its clock", struct.unpack("<q", info[2][0])[0] > 1700000000 * 10**9)
    methods = {}
    for m in info[10]:
        f = sp.fields(m)
        methods[f[1][0].decode()] = struct.unpack("<I", f[2][0])[0]
    ensure("Top is among the methods", "procfleet.v1.Query/Top" in methods, methods)
    check("method ids are FNV-1a of the names", methods, {name: fnv1a(name) for name in methods})
    code, message, _ = sp.call(connection, "procfleet.v1.Query/NoSuchMethod")
    check("an unknown method is UNIMPLEMENTED", code, 12)
    connection.close()


def live_events(fleet):
    connection = sp.Connection("127.0.0.1:" + fleet.ports["events"], sp.SP_SUB, fleet.tls("subscriber"))
    check("the events port speaks PUB", connection.peer, sp.SP_PUB)
    connection.socket.settimeout(60)
    seen, last = set(), {}
    while not {"event/live", "sample/live"} <= seen:
        subprocess.run(["true"], check=True)  # something to report
        topic, epoch, seq, payload = sp.split_update(connection.receive())
        update = sp.fields(payload)
        check("an update names its host", update[2][0], topic.split("/", 1)[1].encode())
        if topic in last:
            check("sequences of a topic have no hole", (epoch, seq), (last[topic][0], last[topic][1] + 1))
        last[topic] = (epoch, seq)
        seen.add(topic)
    connection.close()


with Fleet() as fleet:
    fleet.start_collector()
    server_info(fleet)
    fleet.start_agent("live", batch__max_age="500ms")
    live_events(fleet)
