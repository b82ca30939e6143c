"""What a ClickHouse, or whatever stands in its place, may do to a collector: nothing is lost, nothing counts twice, the log says why.

Between them is a proxy of this program that cuts, refuses, answers something else, or says nothing after an insert went through.
"""

import http.server
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

from chfleet import Agent, ChFleet, check, drained, ensure, lab, sound


# What a server with no room says, or one that cannot merge as fast as it is fed.
SAYS = {
    "full": b"Code: 243, e.displayText() = DB::Exception: Cannot reserve 1.00 MiB, not enough space., e.what() = DB::Exception",
    "parts": b"Code: 252, e.displayText() = DB::Exception: Too many parts (300). Merges are processing significantly slower than inserts.",
    "no space": b"Code: 1000, e.displayText() = Poco::Exception: No space left on device, e.code() = 28",
}


class Proxy:
    """`mode` is what becomes of inserts from now on."""

    def __init__(self, to):
        self.to, self.mode, self.hits = to, "pass", 0
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def answer(self, code, body):
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def forward(self, body):
                try:
                    who = {k: v for k, v in self.headers.items() if k == "Authorization"}
                    with urllib.request.urlopen(urllib.request.Request(proxy.to + self.path, body, who), timeout=30) as reply:
                        return reply.status, reply.read()
                except urllib.error.HTTPError as e:
                    return e.code, e.read()
                except OSError:
                    return 502, b"<html>Bad Gateway</html>"

            def cut(self):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                self.close_connection = True
                self.connection.close()

            def do_POST(self):
                n = int(self.headers["Content-Length"])
                insert = "query=INSERT" in self.path
                mode = proxy.mode if insert and n else "pass"
                if mode != "pass":
                    proxy.hits += 1
                if mode == "cut":
                    self.rfile.read(n // 2)
                    return self.cut()
                body = self.rfile.read(n)
                if mode == "500":
                    return self.answer(500, b"Internal Server Error")
                if mode == "503":
                    return self.answer(503, b"")
                if mode == "html":
                    return self.answer(200, b"<html><body>Please log in</body></html>")
                if mode == "huge":  # and never all of it
                    self.send_response(200)
                    self.send_header("Content-Length", str(1 << 30))
                    self.end_headers()
                    try:
                        for _ in range(1 << 14):
                            self.wfile.write(b"x" * 65536)
                    except OSError:
                        pass
                    self.close_connection = True
                    return None
                if mode in SAYS:
                    return self.answer(500, SAYS[mode])
                code, answer = self.forward(body)
                if mode == "mute":  # it went through, and nobody says so
                    return self.cut()
                if mode == "319":
                    return self.answer(500, b"Code: 319, e.displayText() = DB::Exception: Unknown status, client must retry")
                return self.answer(code, answer)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]


def faults(fleet, ch, proxy):
    modes = ("cut", "500", "503", "html", "huge", "mute", "319")
    for i, mode in enumerate(modes):
        before = fleet.metric("procfleet_clickhouse_retries_total")
        proxy.mode, proxy.hits = mode, 0
        agent = Agent(fleet, 10 + i)
        fleet.wait_for("inserts to meet '%s' twice" % mode, lambda: proxy.hits >= 2)
        proxy.mode = "pass"
        agent.stop()
        agent.wait()
        check("after '%s' every tick is there, once" % mode, drained(fleet, ch.server, [agent]), (0, 0))
        fleet.wait_for("the metrics to count that", lambda: fleet.metric("procfleet_clickhouse_retries_total") > before)
    sound(ch.server)
    ensure("the ledger says which may be there twice", ch.server.number("SELECT sum(again) FROM batch") > 0)
    log = fleet.log("collector.log")
    for words in ("clickhouse unreachable", "is there a ClickHouse at this address?", "clickhouse works", "answered 503",
                  "client must retry"):
        ensure("the log says '%s'" % words, words in log)
    ensure("a gigabyte is not read", int(open("/proc/%d/status" % fleet.collector.pid).read().split("VmHWM:")[1].split()[0]) < 600 << 10)


def full(fleet, ch, proxy):
    """No room for a while: status, log, doctor and /readyz say so in the server's words; nothing is lost, and it goes on by itself."""
    for i, (mode, words) in enumerate((("full", "Cannot reserve"), ("parts", "Too many parts"), ("no space", "No space left"))):
        proxy.mode, proxy.hits = mode, 0
        agent = Agent(fleet, 20 + i)
        fleet.wait_for("inserts to meet '%s' twice" % mode, lambda: proxy.hits >= 2)
        fleet.wait_for("/readyz to say '%s'" % words, lambda: words in fleet.ready())
        ensure("the log says '%s'" % words, words in fleet.log("collector.log"))
        check("the sink does not work", fleet.metric("procfleet_clickhouse_working"), 0)
        agent.stop()
        agent.wait()  # acknowledged all the same
        proxy.mode = "pass"
        check("after '%s' every tick is there, once" % mode, drained(fleet, ch.server, [agent], 120), (0, 0))
        fleet.wait_for("the sink to work again", lambda: fleet.metric("procfleet_clickhouse_working") == 1)
    sound(ch.server)


def rejected(fleet, ch):
    """A table that was altered: it waits, and says why."""
    ch.server.ask("ALTER TABLE event DROP COLUMN tid", "procfleet")
    ch.server.ask("ALTER TABLE cell DROP COLUMN last_ts", "procfleet")
    agent = Agent(fleet, 30)
    fleet.wait_for("the log to say that a block was rejected", lambda: "clickhouse rejected what=cell" in fleet.log("collector.log"))
    agent.stop()
    agent.wait()
    ensure("/readyz says so", "lags" in fleet.ready() and "last_ts" in fleet.ready(), fleet.ready())
    fleet.stop(fleet.collector)
    fleet.feed(fleet.proxy.url)
    fleet.wait_for("a start to say what to do", lambda: "clickhouse migrate" in fleet.log("collector.log"))
    fleet.command("migrate")
    check("after a migration every tick is there, once", drained(fleet, ch.server, [agent]), (0, 0))


def passwords(fleet, ch):
    path = fleet.path("password")
    with open(path, "w") as f:
        f.write("wrong\n")
    os.chmod(path, 0o600)
    user = {"clickhouse__user": "writer", "clickhouse__password_file": path}
    code, out, _ = fleet.command("check", expect=1, **user)
    ensure("check names the settings", "clickhouse.password_file" in out, out)
    fleet.stop(fleet.collector)
    fleet.feed(fleet.proxy.url, **user)
    agent = Agent(fleet, 31)
    time.sleep(1.5)
    agent.stop()
    agent.wait()  # acknowledged all the same
    with open(path, "w") as f:
        f.write("secret\n")
    fleet.stop(fleet.collector)
    fleet.feed(fleet.proxy.url, **user)
    check("with the right password every tick is there, once", drained(fleet, ch.server, [agent]), (0, 0))
    os.chmod(path, 0o644)
    code, out, _ = fleet.command("check", expect=1, **user)
    ensure("a password that others can read is refused", "chmod 600" in out, out)
    os.chmod(path, 0o600)


def names(fleet, ch):
    """Two collectors of one name."""
    with ChFleet() as other:
        other.feed(fleet.proxy.url)
        other.wait_for("the second one to be refused", lambda: "another collector is called" in other.log("collector.log"))


def main():
    with lab.opened() as ch, ChFleet() as fleet:
        fleet.proxy = Proxy(ch.server.url)
        fleet.feed(fleet.proxy.url)
        faults(fleet, ch, fleet.proxy)
        full(fleet, ch, fleet.proxy)
        names(fleet, ch)
        rejected(fleet, ch)
        passwords(fleet, ch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
