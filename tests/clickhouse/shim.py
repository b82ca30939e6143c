"""ClickHouse's own engine in one process (libchdb.so), behind HTTP, for tests of the dialect `full`: types, codecs, FINAL, every statement.

    shim.py LIBRARY DIRECTORY PORT

One connection, one statement at a time. No Keeper, no users, and not the HTTP handler of a real server: settings in the address are
read for `database` and `query` only. An insert's body goes through a file.
"""

import ctypes
import http.server
import os
import subprocess
import sys
import threading
import urllib.parse


class Engine:
    def __init__(self, library, directory):
        self.lib = ctypes.CDLL(library)
        self.lib.chdb_connect.restype = ctypes.c_void_p
        self.lib.chdb_query.restype = ctypes.c_void_p
        self.lib.chdb_query.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        for name, kind in (("buffer", ctypes.c_void_p), ("length", ctypes.c_size_t), ("error", ctypes.c_char_p)):
            f = getattr(self.lib, "chdb_result_" + name)
            f.restype, f.argtypes = kind, [ctypes.c_void_p]
        self.lib.chdb_destroy_query_result.argtypes = [ctypes.c_void_p]
        argv = (ctypes.c_char_p * 2)(b"clickhouse", b"--path=" + directory.encode())
        self.connection = ctypes.cast(self.lib.chdb_connect(2, argv), ctypes.POINTER(ctypes.c_void_p))[0]
        if not self.connection:
            sys.exit("the engine does not open")

    def ask(self, sql):
        """(answer, error)"""
        result = self.lib.chdb_query(self.connection, sql, b"TabSeparated")
        error = self.lib.chdb_result_error(result)
        n = self.lib.chdb_result_length(result)
        answer = ctypes.string_at(self.lib.chdb_result_buffer(result), n) if n else b""
        self.lib.chdb_destroy_query_result(result)
        return answer, error


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def statement(self):
        words = {k: v[0] for k, v in urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "zstd":
            body = subprocess.run(["zstd", "-dc"], input=body, stdout=subprocess.PIPE, check=True).stdout
        sql = words.get("query", "").encode()
        if sql.startswith(b"INSERT") and sql.endswith(b"FORMAT Native"):
            with open(self.server.file, "wb") as f:
                f.write(body)
            sql = sql[:-len(b"FORMAT Native")] + b"FROM INFILE '" + self.server.file.encode() + b"' FORMAT Native"
        else:
            sql += body
            if "low_cardinality_allow_in_native_format" in words and sql.startswith(b"SELECT"):
                sql += b" SETTINGS low_cardinality_allow_in_native_format = 0"
        return words.get("database"), sql

    def do_POST(self):
        with self.server.lock:
            database, sql = self.statement()
            error = None
            if database:
                _, error = self.server.engine.ask(b"USE `" + database.encode() + b"`")
            answer, error = (b"", error) if error else self.server.engine.ask(sql)
        if error:
            answer = error if error.startswith(b"Code:") else b"Code: 1. " + error
        self.send_response(500 if error else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def main(library, directory, port):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.daemon_threads, server.lock = True, threading.Lock()
    server.engine = Engine(library, directory)
    server.file = os.path.join(directory, "insert.native")
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
