#!/usr/bin/env python3
"""Follows the events of a procfleet fleet: one JSON object a line. Python's standard library, nothing else.

Live, on standard output: subscribes to the event stream, notices messages that are missing by the holes in the numbers of their
topic, and asks the collector for them (Fetch). Durable, with --durable NAME --output FILE: the collector keeps what comes for a
subscription of that name, and this program asks for it (Poll). Each event is in FILE exactly once, whoever is killed when.

Everything that is spoken here is described in proto/PROTOCOL.md; the sections below name its sections.
"""

import argparse
import json
import os
import random
import select
import signal
import socket
import ssl
import struct
import sys
import time


class Failed(Exception):
    """Trying again does not help."""


class Refused(Failed):
    """The collector's answer is no."""


class Unreachable(Exception):
    """Trying again may help, after so many seconds."""

    def __init__(self, why, pause=0.0):
        super().__init__(why)
        self.pause = pause


def say(text):
    text = text.encode("unicode_escape").decode()  # parts of it are the other side's
    print("subscribe.py: " + text, file=sys.stderr, flush=True)


def pause(seconds, stopped):
    """About so long, with chance in it: the clients of a fleet must not all come back at the same moment."""
    end = time.monotonic() + seconds * random.uniform(0.5, 1)
    while time.monotonic() < end and not stopped():
        time.sleep(0.1)


# ---- protobuf: as much of it as these messages need (the schemas are proto/*.proto) ----


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def put_int(number, value):
    return varint(number << 3) + varint(value)


def put_fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def put_bytes(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_varint(data, at):
    value = shift = 0
    while True:
        if at == len(data) or shift > 63:
            raise Failed("a message of the collector is broken")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at


class Message:
    """The fields of one message, by number. What is absent is 0, empty or false."""

    def __init__(self, data):
        self.fields = {}
        at = 0
        while at < len(data):
            tag, at = read_varint(data, at)
            kind = tag & 7
            if kind == 0:
                value, at = read_varint(data, at)
            else:
                n = {1: 8, 5: 4}.get(kind)
                if n is None:
                    n, at = read_varint(data, at)
                value, at = data[at:at + n], at + n
                if at > len(data) or kind not in (1, 2, 5):
                    raise Failed("a message of the collector is broken")
                if kind != 2:
                    value = int.from_bytes(value, "little")
            self.fields.setdefault(tag >> 3, []).append(value)

    def int(self, number):
        return self.fields.get(number, [0])[-1]

    def signed(self, number):  # sfixed64
        value = self.int(number)
        return value - (1 << 64) if value >> 63 else value

    def bytes(self, number):
        return self.fields.get(number, [b""])[-1]

    def text(self, number):
        return self.bytes(number).decode(errors="replace")

    def messages(self, number):
        return [Message(data) for data in self.fields.get(number, [])]

    def packed(self, number):
        values, data, at = [], self.bytes(number), 0
        while at < len(data):
            value, at = read_varint(data, at)
            values.append(value)
        return values


def zigzag(n):
    return (n >> 1) ^ -(n & 1)


# ---- connections: TLS (section 1) and the framing of NNG and nanomsg (section 2) ----

SP_PUB, SP_SUB, SP_REQ, SP_REP = 0x20, 0x21, 0x30, 0x31
MESSAGE_MAX = 8 << 20


class Connection:
    """Messages to and from one port of the collector, over mutual TLS."""

    def __init__(self, options, address, ours, theirs):
        self.address, self.data, self.socket, self.heard = address, b"", None, False
        host, _, port = address.rpartition(":")
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_verify_locations(options.ca)
            context.load_cert_chain(options.cert, options.key)
        except (OSError, ssl.SSLError) as e:
            raise Failed("the files of --ca, --cert, --key: %s" % e) from e
        try:
            plain = socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout=20)
            # Every collector's certificate carries this name, whatever address it was dialled at.
            self.socket = context.wrap_socket(plain, server_hostname="procfleet-collector")
            self.socket.sendall(struct.pack(">4sHH", b"\0SP\0", ours, 0))
            hello = self.exactly(8)
        except ssl.SSLCertVerificationError as e:
            raise Failed("%s is not the collector of this fleet: %s" % (address, e.verify_message)) from e
        except OSError as e:
            self.gone(e)
        if hello != struct.pack(">4sHH", b"\0SP\0", theirs, 0):
            raise Failed("%s is another kind of listener: are --events and --collector right?" % address)

    def gone(self, e):
        """An alert of TLS is the collector's last word. In TLS 1.3 it comes when the handshake is over on our side, in place of
        the first bytes."""
        if not self.heard and "ALERT" in (getattr(e, "reason", None) or ""):
            raise Failed("%s refuses this certificate (%s): it must be of role subscribe, and for the event stream without a "
                         "scope" % (self.address, e.reason)) from e
        raise Unreachable("%s: %s" % (self.address, e)) from e

    def close(self):
        if self.socket:
            self.socket.close()

    def more(self, seconds):
        """Reads what has come; False when nothing did for so long."""
        if not self.socket.pending() and not select.select([self.socket], [], [], max(seconds, 0))[0]:
            return False
        try:
            part = self.socket.recv(1 << 18)
        except ssl.SSLWantReadError:
            return True
        except OSError as e:
            self.gone(e)
        if not part:
            raise Unreachable("%s closed the connection%s" % (self.address, "" if self.heard else "; is the certificate of role subscribe?"))
        self.data += part
        self.heard = True
        return True

    def exactly(self, n, seconds=20):
        end = time.monotonic() + seconds
        while len(self.data) < n:
            if not self.more(end - time.monotonic()):
                raise Unreachable("%s does not answer" % self.address)
        part, self.data = self.data[:n], self.data[n:]
        return part

    def send(self, message):
        try:
            self.socket.sendall(struct.pack(">Q", len(message)) + message)
        except OSError as e:
            raise Unreachable("%s: %s" % (self.address, e)) from e

    def receive(self, seconds):
        """The next message, or None when none began within so many seconds."""
        if len(self.data) < 8 and not self.more(seconds) or not self.data:
            return None
        n = struct.unpack(">Q", self.exactly(8))[0]
        if n > MESSAGE_MAX:
            raise Failed("%s sends a message of %d bytes" % (self.address, n))
        return self.exactly(n)


# ---- calls (sections 3 to 5) ----

CODES = ("OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
         "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED").split()
TRY_AGAIN = {"CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL", "UNAVAILABLE"}


class Client:
    """Calls methods of the query port; connects anew, and tries again, until it has an answer or is to stop."""

    def __init__(self, options, stopped=lambda: False):
        self.options, self.stopped, self.connection = options, stopped, None

    def call(self, method, payload, wait=0.0):
        """(header, payload) of the reply; wait: how long the method itself may take."""
        attempt = 0
        while True:
            try:
                return self.once(method, payload, wait)
            except Unreachable as e:
                self.close()
                if attempt and self.stopped():  # once more in any case: the connection may have been an old one
                    raise Refused(str(e)) from e
                if attempt == 0:
                    say("%s; trying again" % e)
                pause(e.pause + min(60, 0.5 * 2**attempt), self.stopped)
                attempt = min(attempt + 1, 7)

    def once(self, method, payload, wait):
        if not self.connection:
            self.connection = Connection(self.options, self.options.collector, SP_REQ, SP_REP)
        call_id, request_id = os.urandom(16), struct.pack(">I", 0x80000000 | random.getrandbits(31))
        header = (put_bytes(1, b"procfleet.v1.Query/" + method) + put_bytes(3, call_id) +
                  put_int(4, int(wait * 1000) + 10000) + put_bytes(7, b"subscribe.py"))
        self.connection.send(request_id + struct.pack("<BBH", 0xB7, 1, len(header)) + header + payload)
        reply = self.connection.receive(wait + 20)
        if reply is None:
            raise Unreachable("%s does not answer" % self.options.collector)
        magic, version, n = struct.unpack("<BBH", reply[4:8])
        if reply[:4] != request_id or (magic, version) != (0xB7, 1):
            raise Failed("%s answers something else than was asked" % self.options.collector)
        header = Message(reply[8:8 + n])
        code = CODES[header.int(2)] if header.int(2) < len(CODES) else "UNKNOWN"
        text = "%s: %s (%s)" % (method.decode(), header.text(3), code)
        if code in TRY_AGAIN:
            raise Unreachable(text, header.int(5) / 1000)
        if code != "OK":
            raise Refused(text)
        return header, Message(reply[8 + n:])

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


# ---- updates: lines of output (sections 8 and 9; messages Update and Answer of query.proto) ----

KINDS = {1: "process_start", 2: "process_stop", 3: "thread_start", 4: "thread_stop", 5: "image_load", 6: "image_unload", 7: "level",
         8: "source"}


def event_line(host, event):
    info = Message(event.bytes(5))
    line = {"time": str(event.signed(2)), "host": host, "kind": KINDS.get(event.int(1), "unknown"), "pid": info.int(1),
            "start": str(info.int(2)), "name": info.text(12)}
    if event.bytes(6):
        line["text"] = event.text(6)
    return line


def sample_lines(host, answer):
    """The newest row of each process; values by metric id (section 11). Absent is not zero."""
    metrics, more, infos, when = answer.packed(2), answer.packed(21), answer.messages(3), 0
    for row in answer.messages(4):
        info = infos[row.int(2)] if row.int(2) < len(infos) else Message(b"")
        when += zigzag(row.int(3))
        present = [m for i, m in enumerate(metrics) if row.int(4) >> i & 1]
        high = (row.messages(9) or [Message(b"")])[0]  # those behind the first 64
        present += [m for i, m in enumerate(more) if high.int(1) >> i & 1]
        yield {"time": str(when), "host": host, "pid": info.int(1), "start": str(info.int(2)), "name": info.text(12),
               "values": {str(m): str(zigzag(v)) for m, v in zip(present, row.packed(5) + high.packed(2))}}


def lines(update):
    """What one Update says, as text."""
    host, answer = update.text(2), Message(update.bytes(3))
    found = [event_line(host, Message(e.bytes(2))) for e in answer.messages(5)]
    found += sample_lines(host, answer)
    # Names are a stranger's choice, and the lines may end on a terminal: ASCII alone, the rest as JSON's escapes.
    return "".join(json.dumps(line, separators=(",", ":")).replace("\x7f", "\\u007f") + "\n" for line in found)


# ---- live: the event stream, and Fetch for what is missing of it (section 9) ----


class Live:
    def __init__(self, options):
        self.options, self.client, self.ended = options, Client(options, self.stopped), False
        self.end = time.monotonic() + options.seconds if options.seconds else float("inf")
        self.prefix = b"sample/" if options.samples else b"event/"
        self.topics = {}  # name: [epoch, number of the last message]
        self.received = self.lost_on_purpose = self.recovered = self.gone = 0
        self.unsure = set()  # topics whose newest messages the collector would not give when last asked

    def stopped(self):
        return self.ended or time.monotonic() >= self.end

    def stop(self, *_):
        self.ended = True

    def put(self, update):
        sys.stdout.write(lines(Message(update)))

    def fetch(self, topic, first, last):
        """Messages first to last of a topic (last 0: up to the newest), which did not come."""
        epoch, seq = self.topics[topic][0], first - 1
        more = True
        while more:
            request = put_fixed64(1, epoch) + put_bytes(2, topic) + put_fixed64(3, seq + 1)
            try:
                header, reply = self.client.call(b"Fetch", request + (put_fixed64(4, last) if last else b""))
            except Refused as e:
                say("%s: messages from %d on cannot be had: %s" % (topic.decode(), seq + 1, e))
                if not last:
                    self.unsure.add(topic)
                break
            self.unsure.discard(topic)
            for m in reply.messages(1):
                self.gone += m.int(1) - seq - 1
                seq = m.int(1)
                self.recovered += 1
                self.put(m.bytes(2))
            more = header.int(6) and reply.fields.get(1)
        if last:
            self.gone += last - seq
            seq = last
        self.topics[topic][1] = seq

    def take(self, message):
        topic, _, rest = message.partition(b"\0")
        if len(rest) < 16:
            raise Failed("a message of the event stream is broken")
        if not topic.startswith(self.prefix):
            return  # the collector sends every topic; the subscriber chooses
        epoch, seq = struct.unpack("<QQ", rest[:16])
        self.received += 1
        if self.options.lose and self.received % self.options.lose == 0:
            self.lost_on_purpose += 1
            return
        if topic not in self.topics:  # what came before we did is nobody's loss
            self.topics[topic] = [epoch, seq - 1]
        if self.topics[topic][0] != epoch:  # the collector's journal began anew, and with it the numbers
            say("%s: another epoch; what was sent between the last message and its first is not known" % topic.decode())
            self.topics[topic] = [epoch, 0]
        last = self.topics[topic][1]
        if seq > last + 1:
            self.fetch(topic, last + 1, seq - 1)
        if seq > last:  # else Fetch was faster
            self.put(rest[16:])
            self.topics[topic][1] = seq

    def catch_up(self):
        """A message that was lost last leaves no hole: ask for whatever follows the newest we have."""
        for topic, (_, seq) in list(self.topics.items()):
            self.fetch(topic, seq + 1, 0)

    def follow(self, stream):
        """Until the connection breaks or the time is over; a second of silence may hide a loss."""
        quiet = False
        while not self.stopped():
            message = stream.receive(1)
            if message is not None:
                self.take(message)
                quiet = False
            elif not quiet:
                self.catch_up()
                quiet = True
            if not stream.data:
                sys.stdout.flush()

    def run(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)
        attempt = 0
        while not self.stopped():
            stream = None
            try:
                stream = Connection(self.options, self.options.events, SP_SUB, SP_PUB)
                say("subscribed at %s" % self.options.events)
                attempt = 0
                self.follow(stream)
            except Unreachable as e:
                if attempt == 0:
                    say("%s; trying again" % e)
                pause(min(60, 0.5 * 2**attempt), self.stopped)
                attempt = min(attempt + 1, 7)
            finally:
                if stream:
                    stream.close()
        self.catch_up()
        sys.stdout.flush()
        say("%d messages received, %d lost on purpose, %d fetched, %d gone for good" %
            (self.received, self.lost_on_purpose, self.recovered, self.gone))
        if self.unsure:
            say("%d topics may have had more" % len(self.unsure))
        return 5 if self.gone or self.unsure else 0


# ---- durable: Poll with a cursor (section 9) ----


class Durable:
    """FILE holds the lines, FILE.cursor how much of it counts and where the collector goes on. The second is replaced as a whole
    after the first has reached the disk: whenever we are killed, lines behind that length are cut off and come again."""

    def __init__(self, options):
        self.options, self.client = options, Client(options)
        self.path = options.output + ".cursor"
        self.length, self.cursor = self.load()
        self.output = open(options.output, "ab")
        if os.fstat(self.output.fileno()).st_size < self.length:
            raise Failed("%s is shorter than %s says: they do not belong together" % (options.output, self.path))
        self.output.truncate(self.length)
        self.output.seek(self.length)

    def load(self):
        try:
            with open(self.path) as f:
                length, cursor = f.read().split()
            return int(length), bytes.fromhex(cursor)
        except FileNotFoundError:
            return 0, b""
        except ValueError as e:
            raise Failed("%s is damaged; remove it and %s to begin anew" % (self.path, self.options.output)) from e

    def save(self, text, cursor):
        self.output.write(text.encode())
        self.output.flush()
        os.fsync(self.output.fileno())
        self.length, self.cursor = self.output.tell(), cursor
        with open(self.path + ".new", "w") as f:
            f.write("%d %s\n" % (self.length, cursor.hex()))
            f.flush()
            os.fsync(f.fileno())
        os.replace(self.path + ".new", self.path)
        directory = os.open(os.path.dirname(os.path.abspath(self.path)), os.O_RDONLY)
        os.fsync(directory)  # the name, too, is on the disk now
        os.close(directory)

    def poll(self, wait):
        options = self.options
        filter_ = b"".join(put_bytes(1, h.encode()) for h in options.host)
        if options.program:
            filter_ += put_bytes(2, options.program.encode())
        if options.samples:
            filter_ += put_int(4, 1) + put_int(5, 1)
        request = put_bytes(1, options.durable.encode()) + put_bytes(3, filter_) + put_int(5, int(wait * 1000))
        if self.cursor:
            request += put_bytes(2, self.cursor)  # this also tells the collector that what came before is safe
        if options.from_oldest:
            request += put_int(6, 1)
        return self.client.call(b"Poll", request, wait)[1]

    def run(self):
        end = time.monotonic() + self.options.seconds if self.options.seconds else float("inf")
        while time.monotonic() < end:
            reply = self.poll(min(10, max(0, end - time.monotonic())))
            if reply.int(5):
                say("%d messages were dropped before we came for them" % reply.int(5))
            text = "".join(lines(update) for update in reply.messages(1))
            if text or reply.bytes(2) != self.cursor:
                self.save(text, reply.bytes(2))
        return 0


# ---- the command line ----


def arguments():
    env = os.environ.get
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog="\n".join(__doc__.split("\n")[1:]),
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ca", default=env("PROCFLEET_CA"), metavar="FILE", help="the fleet's authority (PROCFLEET_CA)")
    p.add_argument("--cert", default=env("PROCFLEET_CERT"), metavar="FILE", help="certificate of role subscribe (PROCFLEET_CERT)")
    p.add_argument("--key", default=env("PROCFLEET_KEY"), metavar="FILE", help="its key (PROCFLEET_KEY)")
    p.add_argument("--events", default=env("PROCFLEET_EVENTS", "localhost:7422"), metavar="HOST:PORT",
                   help="the event stream (PROCFLEET_EVENTS; localhost:7422)")
    p.add_argument("--collector", default=env("PROCFLEET_COLLECTOR", "localhost:7421"), metavar="HOST:PORT",
                   help="the query port, for Fetch and Poll (PROCFLEET_COLLECTOR; localhost:7421)")
    p.add_argument("--samples", action="store_true", help="the newest samples instead of events")
    p.add_argument("--for", dest="seconds", type=float, metavar="SECONDS", help="end after so long (never)")
    p.add_argument("--lose", type=int, metavar="N", help="live: drop every Nth message, to see that it comes back")
    p.add_argument("--durable", metavar="NAME", help="a subscription that the collector keeps")
    p.add_argument("--output", metavar="FILE", help="durable: append to FILE; FILE.cursor keeps the place")
    p.add_argument("--from-oldest", action="store_true", help="durable: a new subscription begins with the oldest that is kept")
    p.add_argument("--host", action="append", default=[], metavar="GLOB", help="durable: only these hosts (may be given again)")
    p.add_argument("--program", metavar="GLOB", help="durable: only programs of this name")
    options = p.parse_args()
    if not (options.ca and options.cert and options.key):
        p.error("--ca, --cert and --key are needed ('procfleet-collector pki issue --role subscribe' makes them)")
    if options.seconds is not None and not 0 < options.seconds < float("inf"):
        p.error("--for wants a number above 0")
    if bool(options.durable) != bool(options.output):
        p.error("--durable and --output belong together")
    if len(options.host) > 16:
        p.error("--host may be given 16 times at most")
    if options.durable and options.lose:
        p.error("--lose is for the live stream")
    if not options.durable and (options.from_oldest or options.host or options.program):
        p.error("--from-oldest, --host and --program need --durable")
    return options


def main():
    options = arguments()
    try:
        return (Durable(options) if options.durable else Live(options)).run()
    except BrokenPipeError:  # whoever read the lines has gone, as in "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python tries to write the rest at its end
        return 128 + signal.SIGPIPE
    except (Failed, OSError) as e:
        say(str(e))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
