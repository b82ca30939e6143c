"""The collector's own console: links by certificate, tokens with a scope, the end of a session with its certificate, the log; and
the example of docs/console.md with Debian's nginx in front of it, event stream included.

Standard library only. `--nginx` is the part behind the proxy, skipped where that is not installed.
"""

import base64
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time

from e2e_console import environment, free_port, nginx, nginx_program
from fleet import BIN, Fleet, check, ensure, skip

TOKENS = {"everything": "1" * 32, "web": "2" * 32, "over": "3" * 32}


class Browser:
    def __init__(self, port, tls=None, **headers):
        self.port, self.tls, self.headers = port, tls, headers

    def ask(self, method, path, body=None, **headers):
        host = "localhost" if self.tls else "127.0.0.1"
        c = http.client.HTTPSConnection(host, self.port, context=self.tls, timeout=60) if self.tls \
            else http.client.HTTPConnection(host, self.port, timeout=60)
        c.request(method, path, body, {k.replace("_", "-"): v for k, v in dict(self.headers, **headers).items()})
        self.reply = c.getresponse()
        return self.reply.status

    def get(self, path, **headers):
        status = self.ask("GET", path, **headers)
        body = self.reply.read()
        return status, json.loads(body) if body.startswith(b"{") else body

    def log_in(self, link):
        status = self.ask("POST", "/api/v1/session", json.dumps({"ticket": link.strip().split("#ticket=")[1]}), Content_Type="application/json")
        if status == 200:
            self.headers["Cookie"] = self.reply.headers["Set-Cookie"].split(";")[0]
            self.headers["X_Procfleet_Key"] = json.loads(self.reply.read())["key"]
        return status


def names(answer):
    return sorted(h["name"] for h in answer[1]["hosts"])


def links(fleet, port):
    link = fleet.cli("console", "--direct", "--no-open")[1]
    ensure("a link to the collector's own console", re.fullmatch(r"http://127.0.0.1:%d/#ticket=[0-9a-f]{32}\n" % port, link), link)
    b = Browser(port)
    check("it lets a browser in once", [b.log_in(link), Browser(port).log_in(link)], [200, 401])
    check("which sees what the certificate sees", names(b.get("/api/v1/hosts")), ["db-1", "web-1"])
    fleet.issue("query", "scoped", "pki", None, "--scope", "web-*")
    scoped = Browser(port)
    check("one of a scope", scoped.log_in(fleet.cli("console", "--direct", "--no-open", who="scoped")[1]), 200)
    check("sees the hosts of that", names(scoped.get("/api/v1/hosts")), ["web-1"])
    check("and no others", scoped.get("/api/v1/top")[0], 200)
    check("nor by name", scoped.get("/api/v1/top?host=db-1")[0], 403)
    check("a subscriber has no link", fleet.cli("console", "--direct", "--no-open", who="subscriber", expect=None)[0], 4)
    fleet.run("procfleet-collector", "pki", "revoke", "--dir", fleet.path("pki"), "scoped")
    begin = time.time()
    fleet.wait_for("the session of a revoked certificate to end", lambda: scoped.get("/api/v1/info")[0] == 401)
    ensure("within two seconds", time.time() - begin < 2 * float(os.environ.get("PROCFLEET_PATIENCE", "60")) / 60)
    check("others go on", b.get("/api/v1/info")[0], 200)
    check("logout", [b.ask("DELETE", "/api/v1/session"), b.get("/api/v1/info")[0]], [204, 401])


def tokens(port):
    def as_token(name):
        return Browser(port, Authorization="Bearer " + TOKENS[name])
    check("a token sees everything", names(as_token("everything").get("/api/v1/hosts")), ["db-1", "web-1"])
    check("one with a scope sees that", names(as_token("web").get("/api/v1/hosts")), ["web-1"])
    check("one that is over sees nothing", as_token("over").get("/api/v1/hosts")[0], 401)
    check("the scheme has no case", names(Browser(port, Authorization="bearer " + TOKENS["web"]).get("/api/v1/hosts")), ["web-1"])


def tokens_again(fleet, port):
    """A file of tokens that has changed is read again."""
    def as_token(name):
        return Browser(port, Authorization="Bearer " + TOKENS[name]).get("/api/v1/hosts")[0]
    write_tokens(fleet, "everything nonsense\n")
    fleet.wait_for("the log to say what is wrong", lambda: "tokens_refused" in fleet.log("collector.log"))
    check("what cannot be read leaves what is in use", as_token("everything"), 200)
    write_tokens(fleet, "web %(web)s\n" % TOKENS)
    fleet.wait_for("a token whose line is gone to end", lambda: as_token("everything") == 401)
    check("one that lost its scope sees all", names(Browser(port, Authorization="Bearer " + TOKENS["web"]).get("/api/v1/hosts")),
          ["db-1", "web-1"])


def write_tokens(fleet, text, name="tokens"):
    with open(os.open(fleet.path("tokens.new"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as f:
        f.write(text)
    os.rename(fleet.path("tokens.new"), fleet.path(name))


def relay_tokens(fleet):
    """The same of `procfleet console`, which says so to its terminal."""
    write_tokens(fleet, "everything %(everything)s\n" % TOKENS, "mine")
    with open(fleet.path("relay.log"), "wb") as said:
        relay = subprocess.Popen([os.path.join(BIN, "procfleet"), "console", "--no-open", "--listen", "127.0.0.1:0", "--token-file", fleet.path("mine")],
                                 env=environment(fleet, "operator"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True)
    fleet.processes.append(relay)
    port = int(re.search(r":(\d+)/#ticket=", relay.stdout.readline()).group(1))

    def as_token(name):
        return Browser(port, Authorization="Bearer " + TOKENS[name]).get("/api/v1/info")[0]
    check("a token of its file", [as_token("everything"), as_token("web")], [200, 401])
    write_tokens(fleet, "everything nonsense\n", "mine")
    fleet.wait_for("it to say what is wrong", lambda: "the tokens in use stay" in fleet.log("relay.log"))
    check("what cannot be read leaves what is in use", as_token("everything"), 200)
    write_tokens(fleet, "web %(web)s\n" % TOKENS, "mine")
    fleet.wait_for("a token whose line is gone to end", lambda: as_token("everything") == 401)
    check("and the new one to hold", as_token("web"), 200)
    relay.terminate()
    relay.wait()


def refused(fleet):
    def start(*sets):
        args = ["run", "--set", "data_dir=" + fleet.path("other"), "--set", "pki.dir=" + fleet.path("pki")]
        for key, value in list(fleet.tls("collector").items()):
            args += ["--set", "tls.%s=%s" % (key, value)]
        for listener in ("ingest", "query", "events", "enroll", "http"):
            args += ["--set", "listen.%s=127.0.0.1:0" % listener]
        for one in sets:
            args += ["--set", one]
        code, out, err = fleet.run("procfleet-collector", *args, expect=None)
        return code != 0, out + err
    for sets, why in ((["listen.console=0.0.0.0:0"], "this machine alone"), (["listen.console=*:0"], "this machine alone"),
                      (["listen.console=127.0.0.1:0", "console.url=console.lab"], "console.url"),
                      (["listen.console=127.0.0.1:0", "console.tokens=/nowhere"], "console.tokens"),
                      (["listen.console=127.0.0.1:0", "console.tokens=" + fleet.path("open")], "chmod 600")):
        failed, said = start(*sets)
        ensure("refused at the start: %s" % sets, failed and why in said, said[-600:])


def behind_nginx(fleet, front):
    """The page, a login and a stream through the example of docs/console.md."""
    proxy = nginx(fleet, front)
    tls = ssl.create_default_context(cafile=fleet.tls("collector")["ca"])
    ann = "Basic " + base64.b64encode(b"ann:secret").decode()

    check("the page", Browser(front, tls, Authorization=ann).get("/", Accept_Encoding="gzip")[0], 200)
    check("nobody without its password", Browser(front, tls).get("/")[0], 401)
    b = Browser(front, tls, Authorization=ann)
    link = fleet.cli("console", "--direct", "--no-open")[1]
    ensure("links lead through it", link.startswith("https://localhost:%d/#ticket=" % front), link)
    check("login through it", b.log_in(link), 200)
    ensure("the cookie is for its name and TLS", b.headers["Cookie"].startswith("__Host-") and "; Secure" in b.reply.headers["Set-Cookie"])
    check("questions through it", names(b.get("/api/v1/hosts", Origin="https://localhost:%d" % front, Sec_Fetch_Site="same-origin")), ["db-1", "web-1"])
    check("another site", b.get("/api/v1/hosts", Origin="https://evil.example")[0], 403)
    check("an event stream through it", b.ask("GET", "/api/v1/updates", Accept="text/event-stream"), 200)
    begin, line = time.time(), b.reply.readline()
    ensure("begins at once", line == b"event: update\n" and time.time() - begin < 15, line)
    proxy.terminate()
    proxy.wait()


def settings_of(fleet):
    with open(os.open(fleet.path("tokens"), os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write("# of programs\neverything %(everything)s\nweb %(web)s scope=web-*\nover %(over)s until=2020-01-01T00:00:00Z\n" % TOKENS)
    shutil.copy(fleet.path("tokens"), fleet.path("open"))
    os.chmod(fleet.path("open"), 0o644)
    settings = {"listen__console": "127.0.0.1:0", "console__tokens": fleet.path("tokens"), "console__user_header": "X-User",
                "console__audit": "true"}
    return settings


def agents(fleet):
    for name in ("web-1", "db-1"):
        fleet.start_agent(name)
    fleet.wait_for("both hosts", lambda: len(fleet.ask("hosts")) == 2)


def direct():
    with Fleet() as fleet:
        fleet.start_collector(**settings_of(fleet))
        agents(fleet)
        port = int(fleet.ports["console"])
        links(fleet, port)
        tokens(port)
        refused(fleet)
        tokens_again(fleet, port)
        relay_tokens(fleet)
        log = fleet.log("collector.log")
        for line in (r"console session peer=127.0.0.1 name=operator ", r'console end .*name=scoped scope=web-\* .*revoked', r"console refused peer=127.0.0.1 ",
                     r'console asked peer=127.0.0.1 name=scoped scope=web-\* reason="/api/v1/top\?host=db-1"'):
            ensure("logged: %s" % line, re.search(line, log), log[-3000:])
        ensure("no secret is logged", not any(t in log for t in TOKENS.values()) and "ticket=" not in log)
        fleet.stop(fleet.collector)
        fleet.start_collector(listen__console="127.0.0.2:0")
        link = fleet.cli("console", "--direct", "--no-open")[1]
        ensure("links lead to the address that is listened on", link.startswith("http://127.0.0.2:%s/#" % fleet.ports["console"]), link)


def proxied():
    if not (nginx_program() and shutil.which("openssl")):
        skip("nginx or openssl is not installed")
    front = free_port()
    with Fleet() as fleet:
        fleet.start_collector(console__url="https://localhost:%d" % front, **settings_of(fleet))
        agents(fleet)
        behind_nginx(fleet, front)
        ensure("the proxy's user is in the log", 'user="ann"' in fleet.log("collector.log"))


proxied() if sys.argv[1:] == ["--nginx"] else direct()
