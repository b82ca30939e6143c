"""Whoever does not belong is refused on every listener of the real collector with one log line that says why, and everyone
else goes on."""

import os
import re
import socket
import ssl
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "interop")]

import sp  # noqa: E402
from fleet import Fleet, check, ensure  # noqa: E402

LISTENERS = {"ingest": sp.SP_REQ, "query": sp.SP_REQ, "events": sp.SP_SUB}
RIGHT = {"ingest": "agent-one", "query": "operator", "events": "subscriber"}
WRONG_ROLE = {"ingest": "operator", "query": "agent-one", "events": "agent-one"}


def refusals(fleet):
    return [line for line in fleet.log("collector.log").splitlines() if re.search(r" refused", line)]


def knock(fleet, listener, tls):
    """Connects as somebody and sees whether a message could be exchanged: 'refused' or 'served'."""
    try:
        c = sp.Connection("127.0.0.1:" + fleet.ports[listener], LISTENERS[listener], tls, timeout=5)
        if listener != "events":
            sp.call(c, "procfleet.v1.Query/GetServerInfo", timeout_ms=3000)
        else:
            c.socket.settimeout(2)
            try:
                c.receive()
            except socket.timeout:
                pass
        c.close()
        return "served"
    except (ssl.SSLError, ConnectionError, OSError):
        return "refused"


def garbage(fleet, listener):
    with socket.create_connection(("127.0.0.1", int(fleet.ports[listener])), timeout=5) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n" * 64)
        try:
            while s.recv(4096):
                pass
        except OSError:
            pass
    return "refused"


def refused_once(fleet, what, pattern, attempt):
    before = len(refusals(fleet))
    check("%s is refused" % what, attempt(), "refused")
    fleet.wait_for("a log line about %s" % what, lambda: len(refusals(fleet)) > before, 10)
    new = refusals(fleet)[before:]
    check("%s leaves one line" % what, len(new), 1)
    ensure("and it says why", re.search(pattern, new[0]), new[0])


def everyone_else_goes_on(fleet):
    for listener, who in RIGHT.items():
        check("%s still serves" % listener, knock(fleet, listener, fleet.tls(who)), "served")


def impostor(fleet):
    """An agent's certificate poses as the collector: the agent must not believe it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls = fleet.tls("agent-one")
    context.load_cert_chain(tls["cert"], tls["key"])
    context.load_verify_locations(tls["ca"])
    context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))
    got = []

    def serve():
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(raw, server_side=True) as s:
                    got.append(s.recv(4096))
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    agent = fleet.start_agent("agent-two", collector__addresses="127.0.0.1:%d" % listener.getsockname()[1])
    fleet.wait_for("the agent to refuse the impostor",
                   lambda: re.search(r"refused|not trusted|server use", fleet.log("agent-agent-two.log")), 30)
    check("the impostor got no data", [g for g in got if g], [])
    agent.kill()
    agent.wait()
    listener.close()


with Fleet() as fleet:
    fleet.start_collector()
    for name in ("agent-one", "agent-two"):
        fleet.issue("agent", name)
    fleet.run("procfleet-collector", "pki", "init", "--dir", fleet.path("other"), "--name", "another authority")
    foreign = {}
    for role, name in (("agent", "agent-one"), ("query", "operator"), ("subscribe", "subscriber")):
        tls = fleet.issue(role, name, "other", fleet.path("foreign", name))
        foreign[name] = dict(tls, ca=fleet.path("pki", "ca.pem"))
    everyone_else_goes_on(fleet)
    for listener in LISTENERS:
        ca = {"ca": fleet.path("pki", "ca.pem")}
        refused_once(fleet, "%s: no certificate" % listener, "no certificate", lambda: knock(fleet, listener, ca))
        refused_once(fleet, "%s: another authority" % listener, "authority",
                     lambda: knock(fleet, listener, foreign[RIGHT[listener]]))
        refused_once(fleet, "%s: wrong role" % listener, "role", lambda: knock(fleet, listener, fleet.tls(WRONG_ROLE[listener])))
        refused_once(fleet, "%s: garbage" % listener, "TLS", lambda: garbage(fleet, listener))
        everyone_else_goes_on(fleet)
    impostor(fleet)
    everyone_else_goes_on(fleet)
    check("the collector lives", fleet.collector.poll(), None)
sys.exit(0)
