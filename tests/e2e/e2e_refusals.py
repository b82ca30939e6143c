"""Whoever is turned away is told what to do, by whichever program he came with: each row is a reason and a program, with the exit
code, the words for the operator, and the collector's one line for each connection. What clients of others get is in adversary_trust, what
enrolment refuses in e2e_enroll."""

import os
import re
import sys
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "interop"))

import sp  # noqa: E402
from fleet import Fleet, check, ensure  # noqa: E402
from forger import PAST, Forger, needed  # noqa: E402

REFUSED = 4
OUTSIDE = None  # the collector heard nothing: the program saw it by itself
WE_LEFT = "the peer refused us|handshake not finished"  # the alert that says why may be overtaken by the end of the connection


def lines(fleet):
    return [line for line in fleet.log("collector.log").splitlines() if re.search(r" (refused|denied|spoofed) ", line)]


def connections(some):
    return [re.search("(peer|address)=([^ ]+)", line)[2] for line in some]


def all_lines(fleet):
    """Nothing comes later: the collector has ended, and another one, at other ports, has taken its place."""
    ensure("the collector ends as told", fleet.stop(fleet.collector) == 0)
    told = lines(fleet)
    fleet.ports.clear()
    fleet.start_collector()
    return told


class Tries:
    """What may be tried; each gives exit code and what was said."""

    def __init__(self, fleet):
        self.fleet, self.n = fleet, 0

    def cli(self, command, tls, *more):
        listener = "events" if command == "tail" else "query"
        address = ("--events" if command == "tail" else "--collector", "127.0.0.1:" + self.fleet.ports[listener])
        code, _, err = self.fleet.run("procfleet", command, *address, "--ca", tls["ca"], "--cert", tls["cert"], "--key", tls["key"],
                                      *more, expect=None)
        return code, err

    def agent(self, command, tls, *more):
        """The agent, as a new host with these certificates; its text is of standard output and standard error."""
        self.n += 1
        state = self.fleet.path("try-%d" % self.n)
        os.mkdir(state)
        args = [command, "--set", "state_dir=" + state, "--set", "collector.addresses=127.0.0.1:" + self.fleet.ports["ingest"],
                "--set", "collector.enroll_address=127.0.0.1:" + self.fleet.ports["enroll"]]
        for key in ("ca", "cert", "key"):
            args += ["--set", "tls.%s=%s" % (key, tls[key])]
        code, out, err = self.fleet.run("procfleet-agent", *args, *more, expect=None)
        return code, out + err

    def doctor(self, tls, *more):
        return self.agent("doctor", tls, *more)

    def enroll(self, token, name):
        return self.agent("enroll", {k: self.fleet.path("try-%d" % (self.n + 1), k) for k in ("ca", "cert", "key")},
                          "--token", token, "--set", "identity.name=" + name)


def one(fleet, what, code, words, reason, attempt):
    before = len(lines(fleet))
    got, said = attempt()
    ensure("%s: exit code %d, and the way out is told" % (what, code), got == code and re.search(words, said), (got, said))
    new = all_lines(fleet)[before:]
    if reason is OUTSIDE:
        check("%s: the collector heard nothing" % what, new, [])
        return
    ensure("%s: one line for each connection" % what, new and len(new) == len(set(connections(new))), new)
    # A program that is slow to end may have begun another connection, and cut that short.
    ensure("%s: the reason is in it" % what, re.search(reason, new[0]) and
           all(re.search(reason + "|handshake not finished", n) for n in new), new)


def certificates(fleet):
    """Everybody who comes below."""
    tls = {"operator": fleet.tls("operator"), "subscriber": fleet.tls("subscriber")}
    for role, name, *more in (("agent", "spy"), ("agent", "gone"), ("query", "leaver"), ("subscribe", "deaf"),
                              ("query", "web", "--scope", "web-*"), ("subscribe", "web-ear", "--scope", "web-*")):
        tls[name] = fleet.issue(role, name, "pki", None, *more)
    for name in ("gone", "leaver", "deaf"):
        fleet.run("procfleet-collector", "pki", "revoke", name, "--dir", fleet.path("pki"), "--reason", "test")
    revoked = time.monotonic()
    fleet.run("procfleet-collector", "pki", "init", "--dir", fleet.path("other"), "--name", "another authority")
    for role, name in (("agent", "spy"), ("query", "operator")):
        foreign = fleet.issue(role, name, "other", fleet.path("foreign", name))
        tls["foreign " + name] = foreign
        tls["foreign " + name + " all"] = dict(foreign, ca=fleet.path("other", "ca.pem"))
    forger = Forger(fleet, "forger", fleet.path("pki", "ca.pem"), fleet.path("pki", "ca.key"))
    tls["old agent"] = forger.make("old-agent", valid=PAST, subject="/CN=old-agent")
    tls["old operator"] = forger.make("old-operator", names="URI:urn:procfleet:role:query", valid=PAST, subject="/CN=old-operator")
    time.sleep(max(0, revoked + 1 - time.monotonic()))  # which is how long the collector may take
    return tls


def rows(t, tls):
    issue, enroll = "have a new certificate issued", r"enroll .*--force"
    roles, ca = "certificate of role query, tail one of role subscribe", r"--ca takes the ca\.pem of the collector's authority"
    wrong_name = "collector.server_name=elsewhere.example"
    return [
        ("revoked, query", issue, "name=leaver reason=revoked", lambda: t.cli("hosts", tls["leaver"])),
        ("revoked, tail", issue, "name=deaf reason=revoked", lambda: t.cli("tail", tls["deaf"])),
        ("revoked, agent", enroll, "name=gone reason=revoked", lambda: t.doctor(tls["gone"])),
        ("expired, query", issue, OUTSIDE, lambda: t.cli("hosts", tls["old operator"])),
        ("wrong role, query", roles, 'name=spy reason="wrong role"', lambda: t.cli("hosts", tls["spy"])),
        ("wrong role, one method", r"use one of another role \(query or admin\)", "denied .*name=subscriber method=.*wrong role",
         lambda: t.cli("top", tls["subscriber"])),
        ("wrong role, tail", roles, 'name=operator reason="wrong role"', lambda: t.cli("tail", tls["operator"])),
        ("wrong role, agent", "get one with 'procfleet-agent enroll'", OUTSIDE, lambda: t.agent("run", tls["operator"])),
        ("wrong scope, query", r"hosts that fit 'web-\*' only", "denied .*name=web host=db-1 scope=.*outside the scope",
         lambda: t.cli("top", tls["web"], "--host", "db-1")),
        ("wrong scope, tail", "role subscribe without a scope", "name=web-ear reason=.*scope", lambda: t.cli("tail", tls["web-ear"])),
        ("wrong authority, ours", "--cert and --key take files of the collector's authority", OUTSIDE,
         lambda: t.cli("hosts", dict(tls["foreign operator"], ca=tls["operator"]["ca"]))),
        ("wrong authority, theirs", ca, WE_LEFT, lambda: t.cli("hosts", tls["foreign operator all"])),
        ("wrong authority, agent, ours", enroll, OUTSIDE,
         lambda: t.agent("run", dict(tls["foreign spy"], ca=tls["spy"]["ca"]))),
        ("wrong authority, agent, theirs", "tls.ca is the collector's authority", WE_LEFT,
         lambda: t.doctor(tls["foreign spy all"])),
        ("wrong name, query", "--server-name takes a name", WE_LEFT,
         lambda: t.cli("hosts", tls["operator"], "--server-name", "elsewhere.example")),
        ("wrong name, agent", "collector.server_name is a name in its certificate", WE_LEFT,
         lambda: t.doctor(tls["spy"], "--set", wrong_name)),
    ]


def expired_agent(fleet, t, tls):
    """The doctor says 1: it is this machine's certificate that ended."""
    one(fleet, "expired, agent", 1, "procfleet-agent enroll --token-file FILE --force", "name=old-agent reason=expired", lambda: t.doctor(tls["old agent"]))


def replayed_token(fleet, t):
    _, token, _ = fleet.run("procfleet-collector", "pki", "token", "create", "--dir", fleet.path("pki"))
    check("a token enrols", t.enroll(token.strip(), "first")[0], 0)
    one(fleet, "a replayed token", REFUSED, "pki token create", "enroll refused .*the token was used",
        lambda: t.enroll(token.strip(), "second"))


def spoofed_host(fleet, tls):
    """Only who writes an agent of his own can lie about the host; he is told whose certificate he has."""
    def lie(method, payload, encoding):
        def attempt():
            c = sp.Connection("127.0.0.1:" + fleet.ports["ingest"], sp.SP_REQ, tls["spy"])
            head, _ = sp.call_header(c, "procfleet.v1.Ingest/" + method, payload, encoding=encoding)
            c.close()
            code = head.get(2, [0])[0]
            return (REFUSED if code == 7 else code), head.get(3, [b""])[0].decode()  # PERMISSION_DENIED
        return attempt

    host, now = uuid.uuid4().bytes, time.time_ns()
    hello = sp.field_bytes(1, host) + sp.field_bytes(2, os.urandom(16)) + sp.field_fixed64(3, 1) + sp.field_bytes(6, b"proc")
    batch = sp.batch(host, os.urandom(16), 1, 1, [(now, 1)])
    words, reason = "this certificate is of spy.*use that host's own", "session spoofed name=spy .*claims=%s" % uuid.UUID(bytes=host)
    one(fleet, "spoofed host in Hello", REFUSED, words, reason, lie("Hello", hello, 0))
    one(fleet, "spoofed host in a batch", REFUSED, words, reason, lie("Push", batch, 1))


# What each role may call where: the table of docs/security.md.
READ = ("Query/GetServerInfo", "Query/Fetch", "Query/Poll", "Query/Subscriptions", "Query/Unsubscribe", "Query/Rules")
ASK = ("Query/ListHosts", "Query/Top", "Query/Processes", "Query/History", "Query/Events", "Query/Coverage", "Query/Tree",
       "Query/Overview", "Query/Series", "Query/Lifetimes", "Query/Pulse", "Query/Outliers",
       "Query/Providers")
ADMIN = ("Admin/Status", "Admin/Disconnect", "Admin/SetLogLevel", "Admin/ForgetHost")
MARK = ("Mark/RunBegin", "Mark/RunEnd")
RUNS = ("Query/Runs", "Query/RunGet")
METHODS = {
    "ingest": ("Ingest/Hello", "Ingest/Push", "Ingest/Heartbeat", "Ingest/Renew"),
    "query": READ + ASK + RUNS + MARK + ("Mark/RunPut",) + ADMIN,
    "enroll": ("Enroll/Enroll", "Enroll/RenewExpired"),
}
PUT = ("Mark/RunPut",)
DENIED = {"query": {"subscribe": ASK + RUNS + MARK + PUT + ADMIN, "query": MARK + PUT + ADMIN, "admin": (),
                    "mark": READ + ASK + RUNS + PUT + ADMIN}}  # at a listener to a role; else nothing
LET_IN = {"ingest": ("agent",), "query": ("query", "subscribe", "admin", "mark", "query scope", "subscribe scope"),
          "events": ("subscribe",), "enroll": ("agent", "query", "subscribe", "admin", "mark", "query scope", "subscribe scope", "nobody")}


def roles_and_methods(fleet):
    for role in ("agent", "query", "subscribe", "admin", "mark", "query scope", "subscribe scope", "nobody"):
        kind, scope = role.split()[0], ("--scope", "web-*") if "scope" in role else ()
        tls = {"ca": fleet.path("pki", "ca.pem")} if role == "nobody" else fleet.issue(
            kind, "is-" + role.replace(" ", "-"), "pki", None, *scope)
        for listener, who in LET_IN.items():
            try:
                c = sp.Connection("127.0.0.1:" + fleet.ports[listener], sp.SP_SUB if listener == "events" else sp.SP_REQ, tls, timeout=5)
                if listener == "events":
                    c.socket.settimeout(1)
                    told = None if c.socket.recv(1) == b"" else []
                else:
                    told = [sp.call(c, "procfleet.v1." + m)[1] for m in METHODS[listener]]
                c.close()
            except TimeoutError:
                told = []  # nothing is published: let in
            except OSError:
                told = None
            check("%s at %s: let in or not, as the table says" % (role, listener), told is not None, role in who)
            denied = [m for m, words in zip(METHODS.get(listener, ()), told or ()) if "certificate of this role" in words]
            check("%s at %s: calls what the table says" % (role, listener), denied, list(DENIED.get(listener, {}).get(kind, ())) if told else [])
    c = sp.Connection("127.0.0.1:" + fleet.ports["query"], sp.SP_REQ, fleet.tls("is-admin"))
    check("a method of another listener is unknown", sp.call(c, "procfleet.v1.Ingest/Push")[0], 12)
    c.close()


def running_agent(fleet, tls):
    """An agent that is refused does not end: it keeps what it sees, and says in log and status what to do."""
    state = fleet.path("refused")
    os.mkdir(state)
    args = ["run", "--set", "state_dir=" + state, "--set", "collector.addresses=127.0.0.1:" + fleet.ports["ingest"]]
    for key in ("ca", "cert", "key"):
        args += ["--set", "tls.%s=%s" % (key, tls["gone"][key])]
    before = len(lines(fleet))
    agent = fleet.start("procfleet-agent", *args, log="refused.log")
    fleet.wait_for("it to say so", lambda: re.search("uplink refused .*revoked; make a token .*enroll --force", fleet.log("refused.log")))
    fleet.wait_for("a third attempt, thus the end of the second",
                   lambda: len([line for line in lines(fleet)[before:] if "name=gone reason=revoked" in line]) > 2)
    check("it says so once, and nothing else", re.findall(" uplink ([a-z]+) ", fleet.log("refused.log")), ["refused"])
    agent.kill()
    agent.wait()


needed()
with Fleet() as fleet:
    fleet.start_collector()
    tls, t = certificates(fleet), Tries(fleet)
    for what, words, reason, attempt in rows(t, tls):
        one(fleet, what, REFUSED, words, reason, attempt)
    expired_agent(fleet, t, tls)
    replayed_token(fleet, t)
    spoofed_host(fleet, tls)
    roles_and_methods(fleet)
    running_agent(fleet, tls)
    ensure("everybody else is served", fleet.cli("hosts", expect=None)[0] in (0, 5))
    check("the collector ends as told", fleet.stop(fleet.collector), 0)
sys.exit(0)
