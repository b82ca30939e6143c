"""Certificates that procfleet would not make, by openssl and whatever key is at hand."""

import os
import shutil
import subprocess
import time

from fleet import skip

HOST = "urn:procfleet:host:4b1f7c9e-30d8-4c0f-9d35-7b0d5e5a6c11"
AGENT = "URI:%s,URI:urn:procfleet:role:agent" % HOST
PAST, FUTURE = ("200101000000Z", "210101000000Z"), ("400101000000Z", "410101000000Z")
NOW = (time.strftime("%y%m%d%H%M%SZ", time.gmtime(time.time() - 60)), time.strftime("%y%m%d%H%M%SZ", time.gmtime(time.time() + 3600)))


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Forger:
    """Signs what it is told to, as whoever's certificate and key it has."""

    def __init__(self, fleet, name, ca, key):
        self.fleet, self.dir, self.ca, self.key = fleet, fleet.path(name), ca, key
        os.mkdir(self.dir)
        open(os.path.join(self.dir, "index"), "w").close()
        with open(os.path.join(self.dir, "conf"), "w") as f:
            f.write("[ca]\ndefault_ca=d\n[d]\ndatabase=%s/index\nnew_certs_dir=%s\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n"
                    "unique_subject=no\n[p]\ncommonName=optional\norganizationName=optional\n" % (self.dir, self.dir))

    def make(self, name, names=AGENT, use="clientAuth", valid=NOW, subject="/CN=forged", algorithm=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
             chain=False):
        path = lambda end: os.path.join(self.dir, name + end)  # noqa: E731
        with open(path(".ext"), "w") as f:
            f.write("basicConstraints=CA:false\n" + ("subjectAltName=%s\n" % names if names else "") +
                    ("extendedKeyUsage=%s\n" % use if use else ""))
        openssl("req", "-new", "-newkey", *algorithm, "-nodes", "-keyout", path(".key"), "-subj", subject, "-out", path(".csr"))
        openssl("ca", "-batch", "-config", os.path.join(self.dir, "conf"), "-in", path(".csr"), "-cert", self.ca, "-keyfile", self.key,
                "-startdate", valid[0], "-enddate", valid[1], "-extfile", path(".ext"), "-notext", "-out", path(".pem"))
        if chain:
            with open(path(".pem"), "a") as f, open(self.ca) as ca:
                f.write(ca.read())
        return {"ca": self.fleet.path("pki", "ca.pem"), "cert": path(".pem"), "key": path(".key")}


def needed():
    if not shutil.which("openssl"):
        skip("openssl is not installed")
