#!/usr/bin/env python3
"""`espalier chat` as used at a terminal: a pseudo terminal, Ctrl-C,
Ctrl-D, the width, colors. The server's answers are scripted."""

import concurrent.futures
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
from collections.abc import Iterator
from typing import Any

import live_cluster
import stubs

COLUMNS = 40
COLOR = "\x1b\\[[0-9;]*m"

# A runner that ignores or blocks Ctrl-C would hand that on to the programs tested here.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


class Terminal:
    """A process with this pseudo terminal."""

    def __init__(self, *argv: object, **environment: str) -> None:
        self.main, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        # The shell leads a session of its own, so the terminal that it opens becomes the
        # controlling one. Python code must not run in the child: gRPC has threads here.
        opens_terminal = ["sh", "-c", 'exec "$@" <"$0"', os.ttyname(end)]
        self.process = subprocess.Popen(
            opens_terminal + [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=end,
            stderr=end, start_new_session=True, env=clean | {"TERM": "xterm"} | environment)
        os.close(end)
        self.shown = ""
        self.at = 0  # the end of its first prompt

    def type(self, text: str) -> None:
        os.write(self.main, text.encode())

    def expect(self, text: str, after: int = 0) -> int:
        """Waits until `text` is shown after position `after`; returns its end."""
        end = time.monotonic() + live_cluster.PATIENCE_S
        while text not in self.shown[after:]:
            if time.monotonic() > end:
                raise TimeoutError(f"no {text!r} in {self.shown!r}")
            if select.select([self.main], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.main, 4096).decode().replace("\r\n", "\n")
                except OSError:  # the other end is closed
                    raise EOFError(self.shown) from None
        return self.shown.index(text, after) + len(text)

    def end(self) -> int:
        status = self.process.wait(live_cluster.PATIENCE_S)
        os.close(self.main)
        return status


class ChatTest(unittest.TestCase):
    address: str
    cancelled: threading.Event
    requests: list[list[tuple[str, str]]]

    @classmethod
    def setUpClass(cls) -> None:
        stubs.make()
        import grpc
        from espalier.v1 import inference_pb2 as pb
        cls.requests = requests = []
        cls.cancelled = cancelled = threading.Event()

        def generate(request: Any, context: Any) -> Iterator[Any]:
            said = [(message.role, message.content) for message in request.chat.messages]
            requests.append(said)
            if said[-1][1] == "count":
                context.add_callback(cancelled.set)
                yield pb.GenerateResponse(token_ids=[1], text="one two ")
                cancelled.wait(live_cluster.PATIENCE_S)
                return
            text = f"You said {said[-1][1]}, and I say that this is longer than a line."
            yield pb.GenerateResponse(token_ids=[1, 2], text=text)
            done = pb.GenerateResponse()
            done.summary.finish_reason = pb.FINISH_REASON_STOP
            done.summary.spec_stats.mean_acceptance_length = 2.5
            yield done

        def handler(method: Any, request: Any, response: Any, unary: bool = False) -> Any:
            make = grpc.unary_unary_rpc_method_handler if unary else grpc.unary_stream_rpc_method_handler
            return make(method, request_deserializer=request.FromString,
                        response_serializer=response.SerializeToString)

        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "espalier.v1.Inference",
            {"Generate": handler(generate, pb.GenerateRequest, pb.GenerateResponse),
             "GetModelInfo": handler(
                 lambda request, context: pb.GetModelInfoResponse(model="parrot", max_context=2048),
                 pb.GetModelInfoRequest, pb.GetModelInfoResponse, unary=True),
             "GetServerInfo": handler(lambda request, context: pb.GetServerInfoResponse(),
                                      pb.GetServerInfoRequest, pb.GetServerInfoResponse, unary=True)})])
        folder = tempfile.TemporaryDirectory(prefix="espalier-chat-")
        cls.addClassCleanup(folder.cleanup)
        cls.address = f"unix:{folder.name}/chat.sock"
        server.add_insecure_port(cls.address)
        server.start()
        cls.addClassCleanup(lambda: server.stop(0).wait())

    def setUp(self) -> None:
        self.requests.clear()
        self.cancelled.clear()

    def chat(self, *flags: str, prompt: str = "> ", **environment: str) -> Terminal:
        terminal = Terminal(live_cluster.BIN / "espalier", "chat", "--address", self.address, *flags,
                            **environment)
        self.addCleanup(terminal.process.kill)
        terminal.at = terminal.expect(prompt)
        return terminal

    def test_history_statistics_and_the_end(self) -> None:
        terminal = self.chat("--system", "Be brief.", NO_COLOR="1")
        terminal.type("hello\n")
        at = terminal.expect("tau 2.50", terminal.at)
        terminal.expect("> ", at)
        first = "You said hello, and I say that this is longer than a line."
        self.assertIn("You said hello, and I say that this is\nlonger than a line.\n", terminal.shown)
        terminal.type("again\n")
        at = terminal.expect("tau 2.50", at)
        terminal.expect("> ", at)
        terminal.type("/new\nfresh\n")
        at = terminal.expect("tau 2.50", at)
        terminal.expect("> ", at)
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)
        system = ("system", "Be brief.")
        self.assertEqual(self.requests, [
            [system, ("user", "hello")],
            [system, ("user", "hello"), ("assistant", first), ("user", "again")],
            [system, ("user", "fresh")]])
        self.assertNotRegex(terminal.shown, COLOR)

    def test_lines_are_edited_and_come_back(self) -> None:
        terminal = self.chat(NO_COLOR="1")
        terminal.type("glacier\x1b[D\x1b[D\x7fx\n")  # twice left, backspace, x
        at = terminal.expect("> ", terminal.expect("tau 2.50", terminal.at))
        terminal.type("größe\n")
        at = terminal.expect("> ", terminal.expect("tau 2.50", at))
        terminal.type("\x1b[A\x1b[A!\n")  # twice up
        at = terminal.expect("> ", terminal.expect("tau 2.50", at))
        terminal.type("not sent\x03")
        at = terminal.expect("> ", terminal.expect("(Ctrl-D ends", at))
        terminal.type("last\n")
        terminal.expect("> ", terminal.expect("tau 2.50", at))
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)
        self.assertEqual([said[-1][1] for said in self.requests],
                         ["glacxer", "größe", "glacxer!", "last"])

    def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(self) -> None:
        terminal = self.chat(NO_COLOR="1")
        terminal.type("count\n")
        at = terminal.expect("one", terminal.at)
        terminal.type("\x03")
        self.assertTrue(self.cancelled.wait(live_cluster.PATIENCE_S))
        at = terminal.expect("(stopped)", at)
        at = terminal.expect("> ", at)
        terminal.type("go on\n")
        at = terminal.expect("tau 2.50", at)
        self.assertEqual(self.requests[-1],
                         [("user", "count"), ("assistant", "one two "), ("user", "go on")])
        at = terminal.expect("> ", at)
        terminal.type("\x03")
        at = terminal.expect("(Ctrl-D ends", at)
        terminal.expect("> ", at)
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)

    def test_colors_are_for_terminals_that_want_them(self) -> None:
        terminal = self.chat(prompt="\x1b[32m>\x1b[0m ")
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)
        done = subprocess.run([live_cluster.BIN / "espalier", "chat", "--address", self.address],
                              input="hello\n", capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "You said hello, and I say that this is longer than a line.\n")
        self.assertRegex(done.stderr, "^Talking with parrot.*\ntau 2.50 .*\n$")
        self.assertEqual(re.findall("\x1b", done.stdout + done.stderr), [])

    def test_without_a_server_it_says_how_to_start_one(self) -> None:
        done = subprocess.run([live_cluster.BIN / "espalier", "chat", "--address", "unix:/nowhere/x.sock"],
                              input="", capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("espalier serve", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    unittest.main(verbosity=2)
