"""A cluster of real processes, Prometheus and a browser, for tests of
pages and dashboards. Standard library only."""

import http.server
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from relay import Relay

REPO = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ESPALIER_BIN", REPO / "build/release/bin"))
CHAR_MODEL = REPO / "deploy/models/nanogpt-char"
# Drafters of the character model: name -> (type, options).
CHAR_DRAFTERS = {"lookup": ("prompt_lookup", {}),
                 "bigram": ("ngram", {"table": CHAR_MODEL / "bigram.ngram"})}
CHROMIUM = shutil.which("chromium")
STATUS_KEY = "key-of-the-status-page"
PATIENCE_S = 120  # longer than any machine needs; only a failing test waits for it
NIGHTLY = "ESPALIER_NIGHTLY" in os.environ
# What takes long and covers more of what other tests cover.
nightly = unittest.skipUnless(NIGHTLY, "nightly")


T = TypeVar("T")


def await_true(condition: Callable[..., T], what: str) -> T:
    """Polls until `condition()` is true; returns its last value."""
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} within {PATIENCE_S} s")
        time.sleep(0.05)
    return value


def found(pattern: str, text: str, flags: int = 0) -> re.Match[str]:
    """The first place in the text; without one, the test fails."""
    match = re.search(pattern, text, flags)
    if match is None:
        raise AssertionError(f"no {pattern!r} in {text!r}")
    return match


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


class Processes:
    """A folder of its own, and processes that end with this object."""

    def __init__(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="espalier-", dir="/tmp"))
        self._running: list[subprocess.Popen[bytes]] = []
        self._latest: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *argv: object) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT)
        self._running.append(process)
        self._latest[name] = process
        return process

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """The latest process of that name."""
        return self._latest[name]

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def gone(self) -> dict[str, tuple[int, str]]:
        """{name: (exit status, end of the log)} of processes that have ended."""
        return {name: (process.returncode, self.log(name)[-500:])
                for name, process in self._latest.items() if process.poll() is not None}

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder)


class Services(Processes):
    """Our services, each on a Unix socket. `programs`: the folder of those that are started
    from now on."""

    def __init__(self) -> None:
        super().__init__()
        self.programs = BIN
        self._argv: dict[str, list[str | pathlib.Path]] = {}

    def address(self, name: str) -> str:
        return f"unix:{self.folder}/{name}.sock"

    def start_service(self, name: str, config: str, settings: Sequence[str] = ()) -> None:
        """`name`: verifier, coordinator, or a drafter's, perhaps with a number."""
        path = self.folder / f"{name}.textproto"
        path.write_text(f'server {{ listen: "{self.address(name)}" metrics_listen: "127.0.0.1:0" '
                        f'address_file: "{self.folder}/{name}.addresses" }}\n{config}\n')
        kind = name.rstrip("0123456789")
        program = kind if kind in ("verifier", "coordinator") else "drafter"
        self._argv[name] = [self.programs / f"espalier-{program}", "--config", path,
                            *(word for setting in settings for word in ("--set", setting))]
        self.restart(name)

    def start_drafter(self, name: str, kind: str, options: Mapping[str, object],
                      model: str | pathlib.Path) -> None:
        pairs = "".join(f' options {{ key: "{key}" value: "{value}" }}'
                        for key, value in options.items())
        self.start_service(
            name, f'engine {{ name: "{name}" type: "{kind}" model: "{model}"{pairs} }}')

    def argv(self, name: str) -> list[str]:
        """The command that starts a service."""
        return [str(word) for word in self._argv[name]]

    def restart(self, name: str) -> None:
        """Starts a service that has ended, or was never started."""
        self.start(name, *self._argv[name])

    def await_serving(self, name: str) -> None:
        await_true(lambda: subprocess.run(
            [BIN / "espalier", "check", self.address(name)],
            capture_output=True, check=False).returncode == 0, f"{name} serves")

    def http_address(self, name: str) -> str:
        """HOST:PORT of the service's metrics."""
        path = self.folder / f"{name}.addresses"
        await_true(path.exists, f"{name} listens")
        return next(line.split()[1] for line in path.read_text().splitlines()
                    if line.startswith("metrics "))

    def http_url(self, name: str) -> str:
        """Where the service's HTTP API is."""
        path = self.folder / f"{name}.addresses"
        return "http://" + next(line.split()[1] for line in path.read_text().splitlines()
                                if line.startswith("http "))

    def scrape(self, name: str) -> str:
        return get(f"http://{self.http_address(name)}/metrics")


class Cluster(Services):
    """Verifier, drafters and a coordinator. `relayed`: peers that the coordinator
    reaches through `relays[name]`. `others`: more drafters, name -> address."""

    def __init__(self, coordinator_settings: Sequence[str] = (),
                 model: str | pathlib.Path = CHAR_MODEL,
                 drafters: Mapping[str, tuple[str, Mapping[str, object]]] | None = None,
                 relayed: Collection[str] = (), others: dict[str, str] | None = None,
                 shows_text: bool = False) -> None:
        super().__init__()
        drafters = drafters or CHAR_DRAFTERS
        self.services = ("coordinator", "verifier", *drafters)
        self.relays = {name: Relay(f"{self.folder}/{name}.relay", f"{self.folder}/{name}.sock")
                       for name in relayed}
        reach = {name: self.relays[name].address if name in relayed else self.address(name)
                 for name in ("verifier", *drafters)} | (others or {})
        self.start_service("verifier", f'engine {{ model: "{model}" threads: 1 }}')
        for name, (kind, options) in drafters.items():
            self.start_drafter(name, kind, options, model)
        settings = [*coordinator_settings, f"admin_listen={self.address('admin')}"]
        if shows_text:
            settings.append(self.show_text())
        self.start_service(
            "coordinator", f'model: "{model}" verifier: "{reach.pop("verifier")}"' +
            "".join(f' drafters {{ name: "{name}" address: "{address}" }}'
                    for name, address in reach.items()), settings)
        try:
            self.await_serving("coordinator")
        except TimeoutError:
            self.close()
            raise

    def show_text(self) -> str:
        """A setting that lets the status page show text to holders of STATUS_KEY."""
        (self.folder / "page.token").write_text(STATUS_KEY)
        return f"core.status_key_file={self.folder}/page.token"

    def report(self, **query: object) -> dict[str, Any]:
        """The data of the status page."""
        return json.loads(get(f"http://{self.http_address('coordinator')}/status.json?"
                              f"{urllib.parse.urlencode(query)}"))

    def await_drafters(self) -> None:
        await_true(lambda: {drafter["state"] for drafter in self.report()["drafters"]} == {"ready"},
                   "drafters are ready")

    def generate(self, prompt: str, *flags: str) -> dict[str, Any]:
        """`espalier generate`: its JSON object."""
        done = subprocess.run(
            [BIN / "espalier", "generate", "--address", self.address("coordinator"), "--json",
             "--prompt", prompt, "--ignore-eos", *flags],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return json.loads(done.stdout)


class Prometheus:
    """Scrapes a cluster every second, with the rules of deploy/prometheus."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        jobs = {"coordinator": ["coordinator"], "verifier": ["verifier"],
                "drafter": cluster.services[2:]}
        config = cluster.folder / "prometheus.yml"
        # JSON is YAML.
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(REPO / "deploy/prometheus/rules.yml")],
            "scrape_configs": [
                {"job_name": job, "static_configs": [
                    {"targets": [cluster.http_address(name) for name in names]}]}
                for job, names in jobs.items()]}))
        cluster.start("prometheus", "prometheus", f"--config.file={config}",
                      f"--storage.tsdb.path={cluster.folder}/tsdb",
                      f"--web.listen-address=127.0.0.1:{port}",
                      f"--web.user-assets={REPO}/deploy/grafana")
        await_true(self._ready, "Prometheus is ready")

    def _ready(self) -> bool:
        try:
            return "Ready" in get(f"{self.url}/-/ready")
        except (urllib.error.URLError, OSError):
            return False

    def ask(self, path: str, **parameters: object) -> Any:
        """The data of an API call's answer."""
        query = urllib.parse.urlencode(parameters)
        try:
            answer = json.loads(get(f"{self.url}/api/v1/{path}?{query}"))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        return answer["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self.ask("query", query=expression)["result"]


def free_port() -> int:
    """A port that nothing listens on. The system gives it to no socket that asks for
    any port, so that other tests do not take it before its user does."""
    while True:
        port = random.randrange(16384, 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Browser:
    """Headless Chromium."""

    def __init__(self, folder: str | pathlib.Path, is_dark: bool = False) -> None:
        self._argv = [CHROMIUM or "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                      "--hide-scrollbars", f"--user-data-dir={folder}/chromium",
                      f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"]

    def _run(self, *argv: str) -> str:
        return subprocess.run([*self._argv, *argv], capture_output=True, text=True,
                              timeout=2 * PATIENCE_S, check=True).stdout

    def document(self, url: str) -> str:
        """The page's elements after its scripts ran, as HTML."""
        return self._run("--virtual-time-budget=6000", "--dump-dom", url)

    def screenshot(self, url: str, path: str | pathlib.Path, width: int = 1500,
                   height: int = 1000) -> None:
        self._run("--virtual-time-budget=6000", f"--window-size={width},{height}",
                  f"--screenshot={path}", url)


def take_screenshot_path() -> pathlib.Path | None:
    """Takes `--screenshot PATH` out of the program's arguments. Returns the path, or None."""
    if "--screenshot" not in sys.argv:
        return None
    at = sys.argv.index("--screenshot")
    path = pathlib.Path(sys.argv[at + 1]).absolute()
    del sys.argv[at:at + 2]
    return path


FRAME = """<!DOCTYPE html><body><script>
const width = Number(location.search.slice(1)), frame = document.createElement('iframe');
frame.style = `border: 0; width: ${width}px; height: 900px`;
frame.src = 'framed';
document.body.append(frame);
setInterval(() => {
  const root = frame.contentDocument.documentElement;
  if (!frame.contentDocument.body?.dataset.polls) return;
  document.body.dataset.inner = root.clientWidth;
  document.body.dataset.content = root.scrollWidth;
}, 50);
</script>"""


class Framed:
    """Serves a page at "?WIDTH" in a frame of that width, and writes into its own
    body how wide the frame (data-inner) and its content (data-content) are. A
    browser's window cannot be made so narrow. `paths`: the page and what it asks for."""

    def __init__(self, url: str, paths: Collection[str]) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.split("?")[0]
                framed = "/" if path == "/framed" else path
                body = FRAME if path == "/" else get(url + framed) if framed in paths else ""
                self.send_response(200)
                self.send_header("Content-Type", "application/json" if path.endswith(".json")
                                 else "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever).start()
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
