#!/usr/bin/env python3
"""The chat of the status page in a real browser, with a key that its user types.

    chat_page_test.py [--screenshot FILE.png]
"""

import http.server
import re
import sys
import threading
import unittest
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import http_clients_test
import live_cluster

QUESTION = "What is a glacier? One sentence."
# Opens the page in a frame of "?WIDTH", and does what a person does.
VISIT = """<!DOCTYPE html><body><div id="seen"></div><script>
const width = Number(location.search.slice(1)), frame = document.createElement('iframe');
frame.style = `border: 0; width: ${width}px; height: 900px`;
frame.src = '/#chat';
document.body.append(frame);
const part = id => frame.contentDocument.getElementById(id);
// Colours as red, green, blue and opacity, whatever way CSS writes them.
const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const channels = color => {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = color;
  paint.fillRect(0, 0, 1, 1);
  return [...paint.getImageData(0, 0, 1, 1).data];
};
const over = ([r, g, b, a], below) =>
    [r, g, b].map((value, i) => (value * a + below[i] * (255 - a)) / 255);
const backdrop = element => element === null ? [255, 255, 255]
    : over(channels(getComputedStyle(element).backgroundColor), backdrop(element.parentElement));
const luminance = rgb => rgb.map(value => value / 255)
    .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
// WCAG's contrast of an element's text with what is behind it.
const contrast = element => {
  const behind = backdrop(element);
  const [low, high] = [behind, over(channels(getComputedStyle(element).color), behind)]
      .map(luminance).sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const visibleTexts = root => [...root.querySelectorAll('*')].filter(element =>
    element.checkVisibility() && !(element instanceof frame.contentWindow.SVGElement) &&
    [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim() !== ''));
function measureContrast(root) {
  const [worst] = visibleTexts(root).map(element => [contrast(element), element])
      .sort((a, b) => a[0] - b[0]);
  document.body.dataset.contrast = worst[0].toFixed(2);
  document.body.dataset.faintest = worst[1].textContent.trim().slice(0, 40);
}
let asked = false;
setInterval(() => {
  const body = frame.contentDocument?.body;
  if (!asked && part('chat-form')) {
    part('api-key').value = 'KEY';
    if (!body.dataset.polls || part('chat-form').hidden) return;
    asked = true;
    part('question').value = 'QUESTION';
    part('max-tokens').value = '24';
    part('send').click();
  }
  if (!body?.dataset.answers || document.body.dataset.content) return;
  const root = frame.contentDocument.documentElement;
  document.body.dataset.inner = root.clientWidth;
  document.body.dataset.content = root.scrollWidth;
  document.body.dataset.dark = frame.contentWindow.matchMedia('(prefers-color-scheme: dark)').matches;
  measureContrast(root);
  document.getElementById('seen').innerHTML = part('messages').innerHTML;
}, 50);
</script>""".replace("KEY", http_clients_test.KEY).replace("QUESTION", QUESTION)


class Visited:
    """Serves a server's answers, and the page that visits it at "/visit"."""

    def __init__(self, url: str) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, body: bytes | None = None) -> None:
                if self.path.startswith("/visit"):
                    return self.send(200, {"Content-Type": "text/html"}, VISIT.encode())
                kept = {name: value for name, value in self.headers.items()
                        if name in ("Authorization", "Content-Type")}
                request = urllib.request.Request(url + self.path, data=body, headers=kept)
                try:
                    with urllib.request.urlopen(request, timeout=live_cluster.PATIENCE_S) as got:
                        self.send(got.status, dict(got.headers), got.read())
                except urllib.error.HTTPError as error:
                    self.send(error.code, dict(error.headers), error.read())

            def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
                self.send_response(status)
                for name in ("Content-Type", "Content-Security-Policy"):
                    if headers.get(name):
                        self.send_header(name, headers[name])
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer(self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *_: Any) -> None:
                pass

        # The page tells by the port whether the API is where it is.
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.2", int(url.rsplit(":", 1)[1])), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever).start()
        return f"http://127.0.0.2:{self._server.server_port}/visit"

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()


@unittest.skipUnless(live_cluster.CHROMIUM, "chromium is not installed")
class ChatPageTest(unittest.TestCase):
    browser: live_cluster.Browser
    served: http_clients_test.Served

    @classmethod
    def setUpClass(cls) -> None:
        cls.served = http_clients_test.Served()
        cls.addClassCleanup(cls.served.close)
        cls.browser = live_cluster.Browser(cls.served.folder)

    def test_a_person_chats(self) -> None:
        text = self.served.own("--chat", QUESTION, "--max-tokens", "24")["text"]
        for width, is_dark in ((400, False), (400, True), (1400, False), (1400, True)):
            browser = live_cluster.Browser(self.served.folder, is_dark)
            with self.subTest(width=width, dark=is_dark), Visited(self.served.url) as page:
                seen = browser.document(f"{page}?{width}")
                self.assertIn(f'data-inner="{width}" data-content="{width}"', seen)
                self.assertIn(f'data-dark="{str(is_dark).lower()}"', seen)
                faintest = live_cluster.found('data-faintest="([^"]*)"', seen)[1]
                contrast = live_cluster.found('data-contrast="([0-9.]*)"', seen)[1]
                self.assertGreaterEqual(float(contrast), 4.5,
                                        f"the contrast of {faintest!r}")
                self.assertIn(f'<div class="card question">{QUESTION}</div>', seen)
                body = live_cluster.found(r'<div class="body">(.*?)</div>', seen, re.S)[1]
                self.assertEqual(re.sub("<[^>]*>", "", body), text)
                self.assertIn('title="the model"', body)
                self.assertRegex(seen, r"tau [0-9.]+ · 24 tokens in [0-9]+ passes · [0-9.]+ tokens/s")
                self.assertIn("<rect", seen, "the tree of the last round")
        if SCREENSHOT:
            with Visited(self.served.url) as page:
                browser.screenshot(f"{page}?1000", SCREENSHOT, 1020, 900)

    def test_elsewhere_a_link_leads_to_it(self) -> None:
        page = self.browser.document(f"http://{self.served.http_address('coordinator')}/#chat")
        self.assertIn(f'{self.served.url}/?#chat">port', page)
        self.assertRegex(page, '<form id="chat-form" class="card" hidden')


SCREENSHOT = None

if __name__ == "__main__":
    if not http_clients_test.MODEL.exists():
        print("skipped: no model (deploy/setup.sh --tests)")
        sys.exit(0)
    SCREENSHOT = live_cluster.take_screenshot_path()
    unittest.main(verbosity=2)
