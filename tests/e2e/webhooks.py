"""A receiver of webhooks that keeps what it was sent, by path, and fails as it is told to; and a notifier to go with it."""

import http.server
import json
import os
import subprocess
import threading
import time

from fleet import BIN, PATIENCE


class Webhooks:
    def __init__(self):
        self.lock = threading.Lock()
        self.taken = []  # (time, path, headers, body), each answered with 200
        self.asked = []  # (path, key, status), every one
        self.modes = {}  # path: status, "lost reply" or "reset"
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver.post(self)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a client that was killed
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def post(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.lock:
            mode = self.modes.get(handler.path, 200)
            key = handler.headers.get("Idempotency-Key")
            self.asked.append((handler.path, key, mode))
            if mode == 200 or mode == "lost reply":
                self.taken.append((time.monotonic(), handler.path, dict(handler.headers), json.loads(body)))
        if isinstance(mode, str):
            handler.close_connection = True
            return
        handler.send_response(mode)
        if mode == 429:
            handler.send_header("Retry-After", "1")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def of(self, path):
        with self.lock:
            return [(when, headers, body) for when, p, headers, body in self.taken if p == path]

    def keys(self, path):
        return [headers["Idempotency-Key"] for _, headers, _ in self.of(path)]


class Notifier:
    """procfleet-notify with a file of settings, whose targets are given as text."""

    def __init__(self, fleet, targets, name="notify", **settings):
        tls = fleet.tls("subscriber")
        self.fleet, self.log, self.process = fleet, name + ".log", None
        self.conf = fleet.path(name + ".yaml")
        lines = {"collector.address": "127.0.0.1:" + fleet.ports["query"], "tls.ca": tls["ca"], "tls.cert": tls["cert"],
                 "tls.key": tls["key"], "state_dir": fleet.path(name), "subscription": name}
        lines.update({k.replace("__", "."): v for k, v in settings.items()})
        with open(self.conf, "w") as f:
            f.write("".join("%s: '%s'\n" % (k, v) for k, v in lines.items()) + "targets:\n" + targets)

    def start(self):
        self.process = self.fleet.start("procfleet-notify", "run", "--config", self.conf, log=self.log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def subscribed(self, n):
        """Waits until the collector keeps so many subscriptions of it: what comes from then on is theirs."""
        self.fleet.wait_for("%d subscriptions" % n, lambda: len(self.fleet.ask("subscriptions", who="subscriber")) >= n)


class Notices:
    """Notices in the journal, put there while no collector runs."""

    def __init__(self, fleet):
        self.fleet, self.next, self.ids = fleet, 1, []

    def make(self, n):
        self.fleet.collector.kill()
        self.fleet.collector.wait()
        out = subprocess.run([os.path.join(BIN, "tests", "notice_gen"), self.fleet.path("data"), str(self.next), str(n)],
                             stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout.decode().split()
        self.next += n
        self.ids += out
        self.fleet.start_collector()
        return out
