"""The authority at work: hosts enrol with tokens, tokens work once whatever happens, certificates are renewed, and who is
revoked is gone within a second, also from connections that stand."""

import json
import os
import random
import socket
import ssl
import struct
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "interop"))

import sp  # noqa: E402
from fleet import ROOT, Fleet, check, ensure  # noqa: E402

OK, INVALID, DENIED, EXHAUSTED, UNAUTHENTICATED = 0, 3, 7, 8, 16
ENROLL, EXPIRED = "procfleet.v1.Enroll/Enroll", "procfleet.v1.Enroll/RenewExpired"
RENEW, HELLO = "procfleet.v1.Ingest/Renew", "procfleet.v1.Ingest/Hello"
CSR = open(os.path.join(ROOT, "tests", "common", "fixtures", "request-greedy.der"), "rb").read()


def pki(fleet, *args, expect=0):
    return fleet.run("procfleet-collector", "pki", *args, "--dir", fleet.path("pki"), expect=expect)


def listed(fleet, *args):
    return json.loads(pki(fleet, *args, "--format", "json")[1])


def token(fleet, *args):
    return pki(fleet, "token", "create", *args)[1].strip()


class Stranger:
    """A client without a certificate on the enroll listener."""

    def __init__(self, fleet):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(fleet.path("pki", "ca.pem"))
        raw = socket.create_connection(("127.0.0.1", int(fleet.ports["enroll"])), timeout=20)
        self.connection = sp.Connection.__new__(sp.Connection)
        self.connection.socket = context.wrap_socket(raw, server_hostname="procfleet-collector")
        self.connection.socket.sendall(struct.pack(">BBBBHH", 0, 0x53, 0x50, 0, sp.SP_REQ, 0))
        self.connection.exactly(8)

    def enroll(self, text, name, csr=CSR):
        return sp.call(self.connection, ENROLL, sp.field_bytes(1, text.encode()) + sp.field_bytes(2, csr) +
                       sp.field_bytes(3, name.encode()))

    def close(self):
        self.connection.close()


def attempt(fleet, text, name, csr=CSR):
    """One attempt to enrol by hand: the reply's code and message."""
    s = Stranger(fleet)
    code, message, _ = s.enroll(text, name, csr)
    s.close()
    return code, message


def settings(fleet, name):
    out = ["--set", "state_dir=" + fleet.path("agents", name), "--set", "identity.name=" + name,
           "--set", "collector.addresses=127.0.0.1:" + fleet.ports["ingest"]]
    for key, ending in (("ca", "ca.pem"), ("cert", "own.pem"), ("key", "own.key")):
        out += ["--set", "tls.%s=%s" % (key, fleet.path("agents", name, "tls", ending))]
    return out


def enroll(fleet, name, text, *more, expect=0):
    """The real agent enrols."""
    os.makedirs(fleet.path("agents", name), exist_ok=True)
    with open(fleet.path("token"), "w") as f:
        f.write(text + "\n")
    return fleet.run("procfleet-agent", "enroll", "--collector", "127.0.0.1:" + fleet.ports["enroll"], "--token-file",
                     fleet.path("token"), *settings(fleet, name), *more, expect=expect)[2]


def hosts_enrol(fleet):
    enroll(fleet, "web-01", token(fleet, "--name", "web-*"))
    agent = fleet.start("procfleet-agent", "run", *settings(fleet, "web-01"), log="agent-web-01.log")
    fleet.wait_for("data of an enrolled host", lambda: fleet.hosts().get("web-01"))
    row = [c for c in listed(fleet, "list") if c["name"] == "web-01"]
    check("it is in the book once", len(row), 1)
    check("as a valid agent", (row[0]["role"], row[0]["state"]), ("agent", "valid"))
    check("for the life that is set", row[0]["days_left"], 89)
    ensure("the token is spent", any(t["state"] == "used" and t["used_by"] == "web-01"
                                     for t in listed(fleet, "token", "list", "--all")))
    return agent, row[0]["host"]


def tokens_are_refused(fleet):
    used = token(fleet)
    check("a token enrols", attempt(fleet, used, "db-01")[0], OK)
    withdrawn = token(fleet)
    pki(fleet, "token", "withdraw", withdrawn[4:20])
    fleet.run("procfleet-collector", "pki", "init", "--dir", fleet.path("foreign"))
    _, foreign, _ = fleet.run("procfleet-collector", "pki", "token", "create", "--dir", fleet.path("foreign"))
    other = token(fleet)
    changed = other[:30] + ("0" if other[30] != "0" else "1") + other[31:]
    rows = [
        ("a replayed token", used, "db-02", DENIED, "db-01"),
        ("a withdrawn token", withdrawn, "db-02", DENIED, "withdrawn"),
        ("a token for other names", token(fleet, "--name", "web-*"), "db-02", DENIED, "web-*"),
        ("a token of another authority", foreign.strip(), "db-02", UNAUTHENTICATED, "another authority"),
        ("a mistyped token", changed, "db-02", INVALID, "no token"),
        ("half a token", other[:60], "db-02", INVALID, "no token"),
        ("a name that cannot be", other, "db 02", INVALID, "name"),
        ("a name that is taken", other, "db-01", DENIED, "--replace db-01"),
    ]
    for what, text, name, code, words in rows:
        got, message = attempt(fleet, text, name)
        check(what + " is refused", got, code)
        ensure("and it says why: " + message, words in message)
    check("garbage instead of a request is refused", attempt(fleet, other, "db-02", b"garbage")[0], INVALID)
    check("none of it took the good token", attempt(fleet, other, "db-02")[0], OK)
    ensure("the agent tells the refusal", "refuses" in enroll(fleet, "db-09", used, expect=4))
    refused = [line for line in fleet.log("collector.log").splitlines() if "enroll refused" in line]
    ensure("each refusal is one line", 8 <= len(refused) <= len(rows) + 2)


def one_of_many_wins(fleet):
    text, codes = token(fleet), []
    strangers = [Stranger(fleet) for _ in range(8)]

    def run(i, s):
        codes.append(s.enroll(text, "many-%d" % i)[0])

    threads = [threading.Thread(target=run, args=a) for a in enumerate(strangers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for s in strangers:
        s.close()
    check("of eight at once one enrols", sorted(codes), [OK] + 7 * [DENIED])
    check("and the book knows one", len([c for c in listed(fleet, "list") if c["name"].startswith("many-")]), 1)


def a_host_set_up_anew_goes_on(fleet, agent, host):
    fleet.stop(agent)
    enroll(fleet, "web-01", token(fleet, "--replace", "web-01"), "--force")
    rows = [c for c in listed(fleet, "list", "--all") if c["name"] == "web-01"]
    check("it is the same host", {c["host"] for c in rows}, {host})
    check("the old certificate is revoked, the new one valid", [c["state"] for c in rows], ["revoked", "valid"])
    return fleet.start("procfleet-agent", "run", *settings(fleet, "web-01"), log="agent-web-01.log")


def tls_of(fleet, name):
    return {k: fleet.path("agents", name, "tls", v) for k, v in (("ca", "ca.pem"), ("cert", "own.pem"), ("key", "own.key"))}


def renewal(fleet, host):
    c = sp.Connection("127.0.0.1:" + fleet.ports["ingest"], sp.SP_REQ, tls_of(fleet, "web-01"))
    code, _, reply = sp.call(c, RENEW, sp.field_bytes(1, CSR))
    check("a valid certificate is renewed", code, OK)
    ensure("with the authority and the time", set(sp.fields(reply)) == {1, 2, 3})
    check("a request that is none is refused", sp.call(c, RENEW, sp.field_bytes(1, b"x"))[0], INVALID)
    codes = {sp.call(c, RENEW, sp.field_bytes(1, CSR))[0] for _ in range(12)}
    check("no host gets them without end", codes, {OK, EXHAUSTED})
    c.close()
    rows = [r for r in listed(fleet, "list", "--all") if r.get("host") == host]
    ensure("the older ones are replaced", [r["state"] for r in rows][-2:] == ["replaced", "valid"])
    s = Stranger(fleet)
    check("a certificate without proof is not renewed",
          sp.call(s.connection, EXPIRED, sp.field_bytes(1, CSR) + sp.field_bytes(2, sp.fields(reply)[1][0]) +
                  sp.field_bytes(3, b"0123"))[0], UNAUTHENTICATED)
    check("strangers renew nothing", sp.call(s.connection, RENEW, sp.field_bytes(1, CSR))[0], 12)
    s.close()


def closed_after(connection, since):
    """Seconds until the peer has closed the connection."""
    connection.socket.settimeout(10)
    try:
        while connection.socket.recv(4096):
            pass
    except ConnectionError:
        pass
    except OSError as e:
        return "still open: %s" % e
    return time.monotonic() - since


def revocation(fleet, agent):
    fleet.issue("agent", "stolen")
    fleet.issue("query", "leaver")
    fleet.issue("subscribe", "listener")
    places = [("ingest", "stolen", sp.SP_REQ), ("query", "leaver", sp.SP_REQ), ("events", "listener", sp.SP_SUB)]
    for listener, name, protocol in places:
        c = sp.Connection("127.0.0.1:" + fleet.ports[listener], protocol, fleet.tls(name))
        if listener == "query":
            check("it serves before", sp.call(c, "procfleet.v1.Query/GetServerInfo")[0], OK)
        pki(fleet, "revoke", name, "--reason", "left us")
        took = closed_after(c, time.monotonic())
        ensure("%s: a live connection is closed within a second: %s" % (listener, took),
               isinstance(took, float) and took < 1)
        c.close()
        try:
            c = sp.Connection("127.0.0.1:" + fleet.ports[listener], protocol, fleet.tls(name), timeout=5)
            back = closed_after(c, 0)
        except OSError as e:
            back = str(e)
        ensure("%s: and does not come back: %s" % (listener, back), "still open" not in str(back))
    ensure("the log says why", "revoked" in fleet.log("collector.log"))
    def last():
        return fleet.hosts()["web-01"]["last_time"]

    before = last()
    fleet.wait_for("data of those who were not revoked", lambda: last() > before)
    pki(fleet, "revoke", "web-01")
    fleet.wait_for("the agent to be refused", lambda: "refused" in fleet.log("agent-web-01.log"), 30)
    check("the agent keeps running", agent.poll(), None)
    check("what nobody knows is said", pki(fleet, "revoke", "nobody", expect=1)[0], 1)


def killed_in_the_middle(fleet):
    """Whenever the collector dies: the token is spent with one certificate, or good without one. The moment is sought at
    which it is taken: later when it was too early, earlier when it was too late."""
    spent, pause, rounds = 0, 0.01, 16
    for i in range(rounds):
        text, name, codes = token(fleet), "killed-%d" % i, []
        s = Stranger(fleet)

        def run():
            try:
                codes.append(s.enroll(text, name)[0])
            except (OSError, ConnectionError, ssl.SSLError):
                pass

        t = threading.Thread(target=run)
        t.start()
        time.sleep(pause)
        fleet.collector.kill()
        fleet.collector.wait()
        t.join()
        s.close()
        certs = [c for c in listed(fleet, "list") if c["name"] == name]
        state = {t["id"]: t["state"] for t in listed(fleet, "token", "list", "--all")}[text[4:20]]
        if len(certs) > 1 or (state == "used") != (len(certs) == 1) or (codes == [OK] and not certs):
            check("token and certificate agree", (state, len(certs), codes), "one of both or none")
        fleet.start_collector()
        again = attempt(fleet, text, name)[0]
        if again != (DENIED if certs else OK):
            check("the token works after the restart as the book says", (again, state), "")
        spent += len(certs)
        pause *= (0.6 if certs else 1.5) * (0.9 + 0.2 * random.random())
    ensure("of %d kills some came before the token was taken and some behind: %d" % (rounds, spent), 0 < spent < rounds)


def strangers_are_throttled(fleet):
    s, codes = Stranger(fleet), []
    for _ in range(80):
        codes.append(s.enroll("pf1-" + "0" * 120, "x")[0])
    s.close()
    check("many attempts have to wait", set(codes), {INVALID, EXHAUSTED})


def served_certificate(fleet):
    s = Stranger(fleet)
    der = s.connection.socket.getpeercert(True)
    s.close()
    return der


def a_new_certificate_is_taken_up(fleet):
    """The collector's own pair is replaced while it runs; nobody is disconnected."""
    c = sp.Connection("127.0.0.1:" + fleet.ports["query"], sp.SP_REQ, fleet.tls("operator"))
    before = served_certificate(fleet)
    new = fleet.issue("collector", "collector", "pki", fleet.path("tls", "new"), "--days", "5")  # the former name of --life 5d
    for kind in ("key", "cert"):
        os.replace(new[kind], fleet.tls("collector")[kind])
    fleet.wait_for("the new certificate", lambda: served_certificate(fleet) != before)
    ensure("the log says so", "trust reloaded" in fleet.log("collector.log"))
    fleet.wait_for("a line about its end", lambda: "trust expires what=certificate" in fleet.log("collector.log"))
    check("which comes soon", [c["name"] for c in listed(fleet, "list", "--expiring", "30d")], ["collector"])
    check("connections that stood go on", sp.call(c, "procfleet.v1.Query/GetServerInfo")[0], OK)
    c.close()


def the_book_may_be_new_damaged_or_absent(fleet):
    book = fleet.path("pki", "book.db")
    fleet.stop(fleet.collector)
    with open(book, "r+b") as f:
        whole = f.read()
        f.seek(100)
        f.write(b"#")
    tls = fleet.tls("collector")
    args = ["run", "--set", "data_dir=" + fleet.path("data"), "--set", "listen.ingest=127.0.0.1:0", "--set",
            "listen.query=127.0.0.1:0", "--set", "listen.events=", "--set", "listen.enroll=127.0.0.1:0", "--set",
            "listen.http="]
    for key in ("ca", "cert", "key"):
        args += ["--set", "tls.%s=%s" % (key, tls[key])]
    _, _, err = fleet.run("procfleet-collector", *args, "--set", "pki.dir=" + fleet.path("pki"), expect=1)
    ensure("a damaged book is named: " + err.strip(), "book.db is damaged" in err)
    ensure("also by the command line", "book.db is damaged" in pki(fleet, "list", expect=1)[2])
    _, _, err = fleet.run("procfleet-collector", *args, "--set", "pki.dir=" + fleet.path("nothing"), expect=1)
    ensure("a directory that is set must be there", "pki init" in err)
    os.remove(book)
    check("an authority from before the book gets one", [c["role"] for c in listed(fleet, "list")], ["authority"])
    with open(book, "wb") as f:
        f.write(whole)
    fleet.start_collector(pki__dir="")
    check("without an authority nobody enrols", fleet.ports["enroll"], "0")
    ensure("and the log says so", "trust none" in fleet.log("collector.log"))
    fleet.stop(fleet.collector)
    del fleet.ports["enroll"]
    fleet.start_collector()


with Fleet() as fleet:
    fleet.start_collector()
    agent, host = hosts_enrol(fleet)
    tokens_are_refused(fleet)
    one_of_many_wins(fleet)
    agent = a_host_set_up_anew_goes_on(fleet, agent, host)
    renewal(fleet, host)
    revocation(fleet, agent)
    strangers_are_throttled(fleet)
    a_new_certificate_is_taken_up(fleet)
    killed_in_the_middle(fleet)
    the_book_may_be_new_damaged_or_absent(fleet)
    check("the collector lives", fleet.collector.poll(), None)
sys.exit(0)
