"""An unmodified Alertmanager (Debian's package, downloaded once into .cache/alertmanager and never installed) takes what procfleet-notify
sends: an alert outlives its resolve_timeout, is there again after its restart, and ends with the rule's. What it sends to webhooks itself
has the fields of our format `alertmanager`."""

import fcntl
import glob
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

from fleet import ROOT, Fleet, check, ensure, skip
from webhooks import Notifier, Webhooks

CACHE = os.environ.get("PROCFLEET_ALERTMANAGER", os.path.join(ROOT, ".cache", "alertmanager"))
RULES = """
defaults: {coverage: 50%%, late: 5s}
rules:
  - {name: up, of: host, when: 'count(pid, 10s) > %d', severity: critical, say: '{value} processes on {host}'}
"""


def binary():
    """How the program is run, or skips."""
    found = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    path = os.path.join(CACHE, "root", "usr", "bin", "prometheus-alertmanager")
    if found:
        return [found]
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        skip("there is neither Alertmanager nor an apt-get to get Debian's with")
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(path):
            done = subprocess.run(["apt-get", "-q", "download", "prometheus-alertmanager"], cwd=CACHE, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
            debs = glob.glob(os.path.join(CACHE, "prometheus-alertmanager_*.deb"))
            if not debs:
                skip("package prometheus-alertmanager cannot be downloaded: " + done.stdout.decode()[-200:])
            subprocess.run(["dpkg-deb", "-x", debs[0], os.path.join(CACHE, "root")], check=True)
    # Debian's reads its templates from /usr/share: it sees those of the package there.
    there = ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" /usr/share && exec "$@"', os.path.join(CACHE, "root", "usr", "share")]
    if subprocess.run([*there, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        skip("mounts of one's own are not allowed here")
    return [*there, path]


class Alertmanager:
    def __init__(self, fleet, program, hook):
        self.fleet, self.program, self.process = fleet, program, None
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(fleet.path("alertmanager.yml"), "w") as f:
            f.write("global: {resolve_timeout: 5s}\nroute: {receiver: hook, group_wait: 1s, group_interval: 2s, repeat_interval: 1h}\n"
                    "receivers: [{name: hook, webhook_configs: [{url: 'http://127.0.0.1:%d/theirs', send_resolved: true}]}]\n" % hook)

    def start(self):
        with open(self.fleet.path("alertmanager.log"), "ab") as log:
            self.process = subprocess.Popen(
                [*self.program, "--config.file=" + self.fleet.path("alertmanager.yml"), "--storage.path=" + self.fleet.path("alertmanager"),
                 "--web.listen-address=127.0.0.1:%d" % self.port, "--cluster.listen-address="], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.fleet.processes.append(self.process)
        self.fleet.wait_for("Alertmanager to answer", lambda: self.alerts() is not None)

    def alerts(self):
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/api/v2/alerts?active=true" % self.port, timeout=5) as r:
                return json.load(r)
        except (urllib.error.URLError, OSError):
            return None


def rules(fleet, limit):
    with open(fleet.path("rules.yaml"), "w") as f:
        f.write(RULES % limit)


program = binary()
with Fleet() as fleet:
    hooks = Webhooks()
    theirs = Alertmanager(fleet, program, hooks.port)
    theirs.start()
    rules(fleet, 0)
    fleet.start_collector(rules__file=fleet.path("rules.yaml"))
    fleet.start_agent("lab-1")
    fleet.wait_for("the rule to fire", lambda: fleet.ask("rules", "status", "--firing", expect=None))
    notifier = Notifier(fleet, "  alerts: {url: 'http://127.0.0.1:%d/api/v2/alerts', format: alertmanager-api}\n"
                               "  ours: {url: 'http://127.0.0.1:%d/ours', format: alertmanager}\n" % (theirs.port, hooks.port))
    notifier.start()  # what fires already is sent at once, though its notice was before the subscription
    alert = fleet.wait_for("the alert", theirs.alerts)[0]
    check("its labels", alert["labels"], {"alertname": "up", "severity": "critical", "host": "lab-1", "of": "host"})
    ensure("its sentence", "processes on lab-1" in alert["annotations"]["summary"], alert)
    notifier.subscribed(2)
    time.sleep(8)
    ensure("it is there beyond the resolve_timeout", len(theirs.alerts()) == 1)
    firing = fleet.wait_for("what Alertmanager sends itself", lambda: hooks.of("/theirs"))[0][2]

    Fleet.stop(theirs.process)
    theirs.start()
    fleet.wait_for("the alert to be there after its restart", theirs.alerts, 90)

    rules(fleet, 100000)  # the rule is another: its alert ends, as on a host where it holds no more
    fleet.wait_for("the alert to end", lambda: theirs.alerts() == [])
    resolved = fleet.wait_for("the webhook's end", lambda: hooks.of("/ours"))[0][2]
    ended = fleet.wait_for("Alertmanager's word for it", lambda: [b for _, _, b in hooks.of("/theirs") if b["status"] == "resolved"])[0]
    check("both say it is resolved", (resolved["status"], ended["status"], ended["alerts"][0]["status"]), ("resolved",) * 3)
    for mine, other in ((resolved, firing), (resolved["alerts"][0], firing["alerts"][0])):
        check("our webhook has Alertmanager's fields, of the same types", {k: type(v).__name__ for k, v in mine.items()},
              {k: type(v).__name__ for k, v in other.items()})
    check("of the same version", resolved["version"], firing["version"])
    check("the notifier ends well", Fleet.stop(notifier.process), 0)
