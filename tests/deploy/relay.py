"""A relay between two services that delays, stalls and cuts the traffic."""

import socket
import threading
import time


class Relay:
    """Listens on a Unix socket and connects to another for each peer."""

    def __init__(self, listen: str, target: str) -> None:
        self.latency_s = 0.0  # each way
        self.carried = [0, 0]  # bytes to the target, and back
        self._target = target
        self._flowing = threading.Event()
        self._flowing.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(listen)
        self._server.listen()
        self.address = f"unix:{listen}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Stops forwarding; connections stay open, as on a dead link."""
        self._flowing.clear()

    def go_on(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        """Breaks all connections; new ones are accepted."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # gone already

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self._target)
            except OSError:
                near.close()  # as where nobody listens
                far.close()
                continue
            self._pairs.append((near, far))
            for way, (source, sink) in enumerate(((near, far), (far, near))):
                threading.Thread(target=self._carry, args=(source, sink, way),
                                 daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, way: int) -> None:
        try:
            while data := source.recv(1 << 16):
                self.carried[way] += len(data)
                # Sums up, as pieces follow each other: a bound from above on what it emulates.
                time.sleep(self.latency_s)
                self._flowing.wait()
                sink.sendall(data)
        except OSError:
            pass  # cut
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # gone already
        source.close()  # the other thread closes the sink, its source
