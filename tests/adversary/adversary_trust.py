"""Certificates that should not pass, made with openssl and the authority's own key where that is needed; certificates that did
pass and were revoked; tokens used twice; and collectors that are none. Each is refused, with one log line or one sentence that
says why, and everyone else goes on."""

import os
import re
import socket
import ssl
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "interop")]

import sp  # noqa: E402
from fleet import Fleet, check, ensure  # noqa: E402
from forger import AGENT, FUTURE, HOST, PAST, Forger, needed  # noqa: E402

def refusals(fleet):
    return [line for line in fleet.log("collector.log").splitlines() if " refused " in line]


def knock(fleet, listener, tls):
    try:
        c = sp.Connection("127.0.0.1:" + fleet.ports[listener], sp.SP_REQ, tls, timeout=5)
        sp.call(c, "procfleet.v1.Query/GetServerInfo", timeout_ms=3000)
        c.close()
        return "served"
    except OSError:
        return "refused"


told = []  # when


def refused_once(fleet, what, pattern, attempt):
    if len(told) % 8 == 7:  # the log takes ten lines of a kind in ten seconds
        time.sleep(max(0, told[-7] + 10.5 - time.monotonic()))
    told.append(time.monotonic())
    before = len(refusals(fleet))
    check("%s is refused" % what, attempt(), "refused")
    fleet.wait_for("a log line about %s" % what, lambda: len(refusals(fleet)) > before, 10)
    new = refusals(fleet)[before:]
    check("%s leaves one line" % what, len(new), 1)
    ensure("and it says why", re.search(pattern, new[0]), new[0])


def forged_certificates(fleet):
    real = Forger(fleet, "forger", fleet.path("pki", "ca.pem"), fleet.path("pki", "ca.key"))
    agent = fleet.issue("agent", "agent-one")
    subordinate = Forger(fleet, "subordinate", agent["cert"], agent["key"])
    fleet.run("procfleet-collector", "pki", "init", "--dir", fleet.path("strange"), "--name", "a stranger")
    stranger = Forger(fleet, "stranger", fleet.path("strange", "ca.pem"), fleet.path("strange", "ca.key"))
    rows = [
        ("an expired certificate", "expired", real.make("expired", valid=PAST)),
        ("one of the future", "not yet valid", real.make("future", valid=FUTURE)),
        ("one for servers", "wrong use", real.make("server", use="serverAuth")),
        ("the collector's own", "wrong use", fleet.tls("collector")),
        ("one without a use", "wrong use", real.make("useless", use=None)),
        ("one for both", "name=forged reason=\"wrong use\"", real.make("both", use="clientAuth,serverAuth")),
        ("one for anything too", "wrong use", real.make("any", use="clientAuth,anyExtendedKeyUsage")),
        ("one for anything", "wrong use", real.make("anything", use="anyExtendedKeyUsage")),
        ("one for mail too", "wrong use", real.make("mail", use="clientAuth,emailProtection")),
        ("a stranger's", 'claimed="agent-one" reason="unknown authority"', stranger.make("alone", subject="/CN=agent-one")),
        ("a stranger's with its authority", 'claimed="agent-one" reason="unknown authority"',
         stranger.make("chain", subject="/CN=agent-one", chain=True)),
        ("a stranger's without a role", 'claimed="x" reason="unknown authority"',
         stranger.make("roleless", subject="/CN=x", names=None, chain=True)),
        ("a stranger's with a line of the log for a name", r'claimed="a\\u000areason=\\"fine\\"" reason="unknown authority"',
         stranger.make("lines", subject='/CN=a\nreason="fine"', chain=True)),
        ("an agent's without a host", "host identity", real.make("hostless", names="URI:urn:procfleet:role:agent")),
        ("one without a role", "wrong role", real.make("roleless", names="URI:" + HOST)),
        ("a role that does not exist", "wrong role", real.make("emperor", names="URI:%s,URI:urn:procfleet:role:emperor" % HOST)),
        ("one of two hosts", "names not understood", real.make("two", names=AGENT + ",URI:" + HOST[:-1] + "2")),
        ("a host that is none", "names not understood", real.make("nobody", names="URI:urn:procfleet:host:me,URI:urn:procfleet:role:agent")),
        ("one without a name", "names not understood", real.make("nameless", subject="/O=forged")),
        ("a name nobody may have", "names not understood", real.make("path", subject="/CN=a b;c")),
        ("an RSA key", "refused", real.make("rsa", algorithm=("rsa:2048",))),
        ("one signed by an agent", "unknown authority", subordinate.make("sub", chain=True)),
    ]
    for what, pattern, tls in rows:
        refused_once(fleet, what, pattern, lambda: knock(fleet, "ingest", tls))
    fine = real.make("fine")
    check("what is right is let in, whoever made it", knock(fleet, "ingest", fine), "served")


class Resuming:
    """A client that keeps its TLS session."""

    def __init__(self, fleet, tls):
        self.fleet, self.context, self.session = fleet, sp.tls_context(**tls), None

    def connect(self):
        raw = socket.create_connection(("127.0.0.1", int(self.fleet.ports["query"])), timeout=20)
        s = self.context.wrap_socket(raw, server_hostname="procfleet-collector", session=self.session)
        s.sendall(b"\0SP\0\0\x30\0\0")
        c = sp.Connection.__new__(sp.Connection)
        c.socket = s
        c.exactly(8)
        check("it is served", sp.call(c, "procfleet.v1.Query/GetServerInfo")[0], 0)
        self.session = s.session
        return c, s.session_reused


def revocation(fleet):
    fleet.issue("query", "leaver")
    fleet.issue("query", "stayer")
    leaver, stayer = Resuming(fleet, fleet.tls("leaver")), Resuming(fleet, fleet.tls("stayer"))
    leaver.connect()[0].close()
    live, resumed = leaver.connect()
    ensure("a session is taken up again", resumed)
    other, _ = stayer.connect()
    begun = time.monotonic()
    before = len(refusals(fleet))
    fleet.run("procfleet-collector", "pki", "revoke", "leaver", "--dir", fleet.path("pki"), "--reason", "left")
    told = time.monotonic()
    try:
        live.socket.settimeout(10)
        ended = live.socket.recv(1) == b""
    except ConnectionError:
        ended = True
    except socket.timeout:
        ended = False
    took = time.monotonic() - told
    ensure("a connection that stands is ended within a second or so: %.2f s" % took, ended and took < 1.5)
    fleet.wait_for("the line about it", lambda: len(refusals(fleet)) > before, 10)
    check("it is logged once", len(refusals(fleet)) - before, 1)
    ensure("with the reason", re.search("revoked", refusals(fleet)[-1]), refusals(fleet)[-1])

    def again(resume):
        if not resume:
            leaver.session = None
        try:
            leaver.connect()
            return "served"
        except (OSError, SystemExit):
            return "refused"

    refused_once(fleet, "the revoked one's session", "revoked", lambda: again(True))
    refused_once(fleet, "the revoked one, from the start", "revoked", lambda: again(False))
    check("another's connection stands", sp.call(other, "procfleet.v1.Query/GetServerInfo")[0], 0)
    fleet.stop(fleet.collector)
    fleet.start_collector()
    _, resumed = stayer.connect()
    ensure("a restart forgets no session", resumed)
    refused_once(fleet, "the revoked one after a restart", "revoked", lambda: again(False))


def tokens(fleet):
    _, token, _ = fleet.run("procfleet-collector", "pki", "token", "create", "--dir", fleet.path("pki"))

    def enroll(name, token):
        os.makedirs(fleet.path("new", name), exist_ok=True)
        return fleet.run("procfleet-agent", "enroll", "--token", token.strip(), "--collector", "127.0.0.1:" + fleet.ports["enroll"],
                         "--set", "identity.name=" + name, "--set", "state_dir=" + fleet.path("new", name),
                         "--set", "tls.ca=" + fleet.path("new", name, "ca.pem"), "--set", "tls.cert=" + fleet.path("new", name, "cert.pem"),
                         "--set", "tls.key=" + fleet.path("new", name, "key.pem"), expect=None)

    for name in ("operator", "OPERATOR", "Agent-One", "-rf", "..", "4b1f7c9e-30d8-4c0f-9d35-7b0d5e5a6c11", "deadbeef"):
        code, _, err = enroll(name, token)
        check("nobody enrols as %s" % name, code, 4)
        ensure("and the claim stands in quotes", 'claimed="%s"' % name in refusals(fleet)[-1], refusals(fleet)[-1])
    code, _, err = enroll("first", token)
    ensure("a token enrols a host", code == 0, err)
    before = len(refusals(fleet))
    code, _, err = enroll("second", token)
    ensure("and no other one: %d %s" % (code, err.strip().splitlines()[-1]), code == 4 and "the token was used on" in err)
    check("it is logged once", len(refusals(fleet)) - before, 1)
    ensure("with the reason", "the token was used on" in refusals(fleet)[-1], refusals(fleet)[-1])


class Impostor:
    """Somebody who listens with a certificate that is not a collector's."""

    def __init__(self, tls):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(tls["cert"], tls["key"])
        self.context.load_verify_locations(tls["ca"])
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.got = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                raw, _ = self.listener.accept()
                with self.context.wrap_socket(raw, server_side=True) as s:
                    self.got.append(s.recv(4096))
            except ssl.SSLError:
                pass
            except OSError:
                return


def impostors(fleet):
    real = Forger(fleet, "server-forger", fleet.path("pki", "ca.pem"), fleet.path("pki", "ca.key"))
    fleet.run("procfleet-collector", "pki", "init", "--dir", fleet.path("other"), "--name", "another authority")
    foreign = fleet.issue("collector", "collector", "other", fleet.path("foreign"))
    rows = [
        ("a collector without the name", "server name", real.make("unnamed", names="DNS:elsewhere", use="serverAuth")),
        ("an expired collector", "expired", real.make("old", names="DNS:procfleet-collector", use="serverAuth", valid=PAST)),
        ("an agent as collector", "wrong use", fleet.tls("agent-one")),
        ("one for both as collector", "wrong use", real.make("both", names="DNS:procfleet-collector", use="serverAuth,clientAuth")),
        ("one for anything as collector", "wrong use",
         real.make("any", names="DNS:procfleet-collector", use="serverAuth,anyExtendedKeyUsage")),
        ("another authority's collector", "unknown authority", foreign),
    ]
    query = fleet.tls("operator")
    for what, pattern, tls in rows:
        trap = Impostor(dict(tls, ca=fleet.path("pki", "ca.pem")))
        code, _, err = fleet.run("procfleet", "hosts", "--collector", trap.address, "--ca", query["ca"], "--cert", query["cert"],
                                 "--key", query["key"], expect=None)
        ensure("%s gets nothing from the command line: %d %s" % (what, code, err.strip()), code != 0 and re.search(pattern, err))
        agent = fleet.start_agent("trapped", collector__addresses=trap.address)
        fleet.wait_for("the agent to say so", lambda: re.search(pattern, fleet.log("agent-trapped.log")), 30)
        agent.kill()
        agent.wait()
        os.remove(fleet.path("agent-trapped.log"))
        check("nor from an agent", [g for g in trap.got if g], [])
        trap.listener.close()


needed()
with Fleet() as fleet:
    fleet.start_collector()
    forged_certificates(fleet)
    revocation(fleet)
    tokens(fleet)
    impostors(fleet)
    check("the collector lives", fleet.collector.poll(), None)
    check("the collector ends as told", fleet.stop(fleet.collector), 0)
sys.exit(0)
