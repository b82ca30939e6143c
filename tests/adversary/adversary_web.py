"""Hostile clients of every HTTP listener: the console's two doors and the one of /metrics. Raw sockets, no client's library.

Requests that two readers could take for different ones, names that were made to stand for this machine, other sites in the
same browser, methods and routes that do not exist, guessed links, requests and replies that take for ever, more connections
than there is room for. Each is refused, nothing of it reaches the data, an honest browser is served all the while, and the
agent's batches are acknowledged as before.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from fleet import BIN, Fleet, check, ensure  # noqa: E402

TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = "Authorization: Bearer %s\r\n" % TOKEN


def dial(port):
    return socket.create_connection(("127.0.0.1", port), timeout=40)


def hear(s):
    said = b""
    try:
        while True:
            got = s.recv(65536)
            if not got:
                break
            said += got
    except ConnectionResetError:
        pass
    s.close()
    return said.decode("latin-1")


def ask(port, text):
    s = dial(port)
    try:
        s.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        s.shutdown(socket.SHUT_WR)
    except (ConnectionResetError, BrokenPipeError, OSError):
        pass
    return hear(s)


def get(port, path, headers="", method="GET", host="localhost"):
    return ask(port, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n" % (method, path, host, headers))


def status(said):
    return said[9:12] if said.startswith("HTTP/1.1 ") else said[:20]


def smuggling(name, port, path):
    second = "GET %s HTTP/1.1\r\nHost: localhost\r\nX-Second: 1\r\n\r\n" % path
    for head in ("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(second), "Transfer-Encoding: chunked\r\n",
                 "Transfer-Encoding: \x0bchunked\r\n", "Transfer-Encoding: identity\r\nContent-Length: 3\r\n",
                 "Content-Length: 0\r\nContent-Length: %d\r\n" % len(second), "Content-Length: 1, 1\r\n", "Content-Length: -1\r\n",
                 "Content-Length: 18446744073709551617\r\n", "Host: localhost\r\n", "X: a\r\n b\r\n", "X : a\r\n", "X: a\nY: b\r\n", "X: a\rb\r\n",
                 "X: a\0b\r\n"):
        said = ask(port, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n%s" % (path, BEARER, head, second))
        if status(said) not in ("400", "413") or " 200 " in said:
            ensure("%s: smuggling by %r is refused" % (name, head), False, said[:300])
    check("%s: smuggling is refused" % name, status(get(port, path, BEARER)), "200")


def rebinding(name, port, path):
    hosts = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1].evil.example", "192.0.2.1", "", "localhost:x",
             "evil.example:%d" % port)
    check("%s: other hosts" % name, [status(get(port, path, BEARER, host=h)) for h in hosts], ["421"] * len(hosts))


def other_sites(name, port):
    path = "/api/v1/hosts"
    for headers in ("Origin: http://evil.example\r\n", "Origin: null\r\n", "Origin: http://localhost:1\r\n", "Sec-Fetch-Site: cross-site\r\n",
                    "Sec-Fetch-Site: same-site\r\n", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"):
        check("%s: %r" % (name, headers), status(get(port, path, BEARER + headers)), "403")
    said = get(port, path, "Origin: http://evil.example\r\nAccess-Control-Request-Method: GET\r\n", method="OPTIONS")
    ensure("%s: no other site is let in" % name, status(said) == "405" and "Access-Control-Allow" not in said, said)


def methods_and_routes(name, port):
    for method in ("PUT", "PATCH", "TRACE", "CONNECT", "OPTIONS", "POST", "DELETE", "get"):
        check("%s: %s" % (name, method), status(get(port, "/api/v1/hosts", BEARER, method=method)), "405")
    for path in ("/api/v1/unsubscribe", "/api/v1/admin", "/api/v1/../../etc/passwd", "/a/../api/v1/hosts", "/a/%2e%2e/index.html",
                 "/api/v1/hosts%00", "/api/v1//hosts", "/api/v1/HOSTS"):
        said = get(port, path, BEARER)
        ensure("%s: there is no %s" % (name, path), status(said) in ("400", "404") and "root:" not in said, said[:300])
    check("%s: without a session" % name, [status(get(port, "/api/v1/" + p)) for p in ("hosts", "top", "info", "updates", "session", "x")],
          ["401"] * 6)
    check("%s: a path of 3 KiB" % name, status(get(port, "/" + "a" * 3000)), "414")
    check("%s: 65 headers" % name, status(get(port, "/", "".join("X-%d: y\r\n" % i for i in range(65)))), "431")


def guesses(name, port):
    def log_in(ticket):
        body = json.dumps({"ticket": ticket})
        return status(ask(port, "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                "Content-Length: %d\r\n\r\n%s" % (len(body), body)))
    answers = [log_in("%032x" % i) for i in range(30)]
    check("%s: guessed links" % name, (answers[:5], set(answers[5:])), (["401"] * 5, {"429"}))
    check("%s: a login of 5 KiB" % name, status(ask(port, "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                                          "Content-Length: 5000\r\n\r\n" + " " * 5000)), "413")


def slow(name, port):
    """300 connections: silent ones, ones with a byte a second, ones that never take their reply."""
    held = []
    for i in range(300):
        try:
            s = dial(port)
            if i % 3 == 1:
                s.sendall(b"GET / HTTP/1.1\r\nHost: loc")
            elif i % 3 == 2:
                s.sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n" + BEARER.encode() + b"\r\n")
            held.append(s)
        except OSError:
            break
    for _ in range(12):
        for s in held[1::3]:
            try:
                s.sendall(b"a")
            except OSError:
                pass
        begin = time.time()
        said = get(port, "/", "Accept-Encoding: gzip\r\n")
        if status(said) != "200" or time.time() - begin > 10:
            ensure("%s: an honest browser beside 300 others" % name, False, said[:200])
        time.sleep(1)
    closed = 0
    for s in held:
        s.settimeout(0.05)
        try:
            while s.recv(65536):
                pass
            closed += 1
        except (ConnectionResetError, BrokenPipeError):
            closed += 1
        except (TimeoutError, socket.timeout):
            pass
        s.close()
    ensure("%s: slow ones are closed (%d of %d)" % (name, closed, len(held)), closed >= len(held) * 2 // 3)


def flood(name, port):
    """More requests than a session has."""
    answers = []

    def run():
        for _ in range(15):
            answers.append(status(get(port, "/api/v1/info", BEARER)))
    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    ensure("%s: a session has 20 requests a second" % name, "429" in answers and "200" in answers and set(answers) <= {"200", "429", "503"}, answers)
    time.sleep(1.1)
    check("%s: and has them again" % name, status(get(port, "/api/v1/info", BEARER)), "200")


def batches(fleet):
    return fleet.ask("hosts")[0]["batches"]


with Fleet() as fleet:
    with open(os.open(fleet.path("tokens"), os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write("adversary %s\n" % TOKEN)
    fleet.start_collector(listen__console="127.0.0.1:0", console__tokens=fleet.path("tokens"))
    fleet.start_agent("host-1")
    fleet.wait_for("data", lambda: fleet.ask("hosts") and batches(fleet) > 0)
    tls = fleet.tls("operator")
    relay = subprocess.Popen([os.path.join(BIN, "procfleet"), "console", "--no-open", "--listen", "127.0.0.1:0", "--token-file",
                              fleet.path("tokens"), "--collector", "127.0.0.1:" + fleet.ports["query"], "--ca", tls["ca"], "--cert", tls["cert"],
                              "--key", tls["key"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    fleet.processes.append(relay)
    doors = {"relay": int(re.search(r":(\d+)/#ticket=", relay.stdout.readline()).group(1)), "collector": int(fleet.ports["console"])}
    before = batches(fleet)
    for name, port in doors.items():
        smuggling(name, port, "/api/v1/info")
        time.sleep(1.1)  # a second's requests
        rebinding(name, port, "/")
        other_sites(name, port)
        methods_and_routes(name, port)
        guesses(name, port)
        flood(name, port)
        slow(name, port)
    metrics = int(fleet.ports["http"])
    smuggling("metrics", metrics, "/healthz")
    rebinding("metrics", metrics, "/metrics")
    ensure("relay and collector live", relay.poll() is None and fleet.collector.poll() is None)
    fleet.wait_for("batches to come in as before", lambda: batches(fleet) > before)
    check("nothing was lost", fleet.ask("hosts")[0]["gaps"], 0)
    begin = time.time()
    fleet.stop(relay)
    fleet.stop(fleet.collector)
    check("both end when they are asked to", (relay.returncode, fleet.collector.returncode), (0, 0))
    print("ok: they took %.1f s" % (time.time() - begin))
