#!/usr/bin/env python3
"""What HTTP costs beside gRPC, of one served model; takes a minute.

  tests/benchmark/http_overhead.py [--rounds N] [SERVE FLAGS]

1. Milliseconds to the first token of a short chat, one at a time: by `espalier load`
   over gRPC, and by a socket that streams /v1/chat/completions; also what HTTP adds to
   the server's own time, which is in the answer.
2. Tokens per second of 16 streams, by both.

The two take turns, with the same prompts, decode plainly at temperature 0, and get
the same texts. SERVE FLAGS go to `espalier serve`. Standard library only.
"""
import argparse
import json
import pathlib
import re
import selectors
import socket
import statistics
import tempfile
import time

import sessions

STREAMS, STREAM_TOKENS = 16, 96
TEXTS = [f"Write {number} sentences about {thing}." for number in (3, 4, 5, 6)
         for thing in ("a river", "a bridge", "a clock", "a garden")]


class Connection:
    """A connection that streams one chat after the other."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def ask(self, text, tokens):
        body = json.dumps({
            "messages": [{"role": "user", "content": text}], "temperature": 0, "stream": True,
            "max_tokens": tokens, "stream_options": {"include_usage": True},
            "espalier": {"enabled": False}}).encode()
        self.received = b""
        self.asked = time.perf_counter()
        self.first = None
        self.socket.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                            b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def read(self):
        """Whether the answer has ended."""
        self.received += self.socket.recv(1 << 16)
        if self.first is None and b"data: " in self.received:
            self.first = time.perf_counter()
        return self.received.endswith(b"0\r\n\r\n")

    def last(self, name):
        """A number of the last event that has it."""
        return float(re.findall(rb'"%s":([-+0-9.e]+)' % name, self.received)[-1])


def first_token_ms(address, requests):
    """The medians over HTTP: in all, and beside the server's own time."""
    connection, times, added = Connection(address), [], []
    for i in range(requests):
        connection.ask(TEXTS[i % len(TEXTS)], 1)
        while not connection.read():
            pass
        times.append(1000 * (connection.first - connection.asked))
        added.append(times[-1] - connection.last(b"time_to_first_token_ms"))
    return statistics.median(times), statistics.median(added)


def tokens_per_s(address, requests):
    """Of STREAMS connections, each of which asks again when it has its answer."""
    waiting = [TEXTS[i % len(TEXTS)] for i in range(requests)]
    ready = selectors.DefaultSelector()
    begun, tokens = time.perf_counter(), 0
    for _ in range(STREAMS):
        connection = Connection(address)
        connection.ask(waiting.pop(), STREAM_TOKENS)
        ready.register(connection.socket, selectors.EVENT_READ, connection)
    while ready.get_map():
        for key, _ in ready.select():
            if not key.data.read():
                continue
            tokens += key.data.last(b"completion_tokens")
            if waiting:
                key.data.ask(waiting.pop(), STREAM_TOKENS)
            else:
                ready.unregister(key.fileobj)
    return tokens / (time.perf_counter() - begun)


def grpc(address, prompts, streams, requests, tokens):
    [row] = sessions.load(address, streams, "plain", "--prompts", prompts, "--requests", requests,
                          "--turns", 1, "--max-tokens", tokens)
    return row


def http_address(folder):
    said = (folder / "serve.log").read_text()
    return re.search(r"http://(\S+)/v1", said)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options, flags = parser.parse_known_args()
    rows = {"gRPC first token, ms": [], "HTTP first token, ms": [], "added by HTTP, ms": [],
            "gRPC tokens/s": [], "HTTP tokens/s": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prompts = folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"id": text, "chat": text}) + "\n"
                                   for text in TEXTS))
        with sessions.served(folder, ["--http-listen", "127.0.0.1:0", *flags]) as address:
            http = http_address(folder)
            first_token_ms(http, 2 * len(TEXTS))  # fills the prefix cache
            for _ in range(options.rounds):
                row = grpc(address, prompts, 1, 2 * len(TEXTS), 1)
                rows["gRPC first token, ms"].append(row["first_token_ms"]["p50"])
                total, added = first_token_ms(http, 2 * len(TEXTS))
                rows["HTTP first token, ms"].append(total)
                rows["added by HTTP, ms"].append(added)
                row = grpc(address, prompts, STREAMS, 2 * STREAMS, STREAM_TOKENS)
                rows["gRPC tokens/s"].append(row["tokens_per_s"])
                rows["HTTP tokens/s"].append(tokens_per_s(http, 2 * STREAMS))
    for label, values in rows.items():
        print(f"{label:<22} median {statistics.median(values):>8.2f}   "
              f"all {', '.join(f'{value:.2f}' for value in values)}")


if __name__ == "__main__":
    main()
