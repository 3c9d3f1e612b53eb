#!/usr/bin/env python3
"""The coordinator's status page, against a live cluster, in a real browser.

    status_page_test.py [--screenshot FILE.png]
"""

import re
import subprocess
import unittest
import urllib.error
from typing import Any

import live_cluster

PROMPT = "First Citizen:\nBefore we proceed any further, hear me speak.\n"


class StatusPageTest(unittest.TestCase):
    answer: dict[str, Any]
    plain: dict[str, Any]
    page: str
    url: str
    cluster: live_cluster.Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = live_cluster.Cluster(["core.draft_timeout_ms=1000"], shows_text=True)
        cls.addClassCleanup(cls.cluster.close)
        cls.url = f"http://{cls.cluster.http_address('coordinator')}"
        cls.page = f"{cls.url}/?key={live_cluster.STATUS_KEY}"
        cls.cluster.await_drafters()
        cls.plain = cls.cluster.generate(PROMPT, "--max-tokens", "20", "--no-speculation")
        # Verifies trees in every round, whatever their cost on this machine.
        cls.answer = cls.cluster.generate(PROMPT, "--max-tokens", "60", "--strategy", "union")

    @classmethod
    def report(cls, **query: Any) -> dict[str, Any]:
        return cls.cluster.report(key=live_cluster.STATUS_KEY, **query)

    def test_rounds_are_those_of_the_answer(self) -> None:
        request = self.report()["request"]
        stats = self.answer["spec_stats"]
        self.assertEqual(request["rounds"], stats["num_spec_steps"])
        rounds = request["latest"]
        self.assertEqual([r["step"] for r in rounds], list(range(1, len(rounds) + 1)))
        self.assertEqual("".join("".join(r["emitted"]) for r in rounds), self.answer["text"])
        self.assertEqual(sum(len(r["path"]) for r in rounds), stats["num_accepted_draft_tokens"])
        for r in rounds:
            # A path goes from parent to child; its tokens are the emitted ones.
            self.assertEqual([r["parent"][node] for node in r["path"]], [0, *r["path"]][:-1])
            self.assertEqual([r["token"][node] for node in r["path"]], r["emitted"][:len(r["path"])])
            self.assertEqual(len(r["owners"]), len(r["token"]))
            self.assertTrue(all(r["owners"][1:]), "a node that nobody proposed")

    def test_counters_leave_plain_decoding_out(self) -> None:
        counters = self.report()["counters"]
        self.assertEqual(counters["generated_tokens"], 80)
        self.assertEqual(counters["emitted_tokens"], 60)
        self.assertAlmostEqual(counters["emitted_tokens"] / counters["drafts"],
                               self.answer["spec_stats"]["mean_acceptance_length"], places=3)

    def test_a_request_is_found_by_its_id(self) -> None:
        newest, oldest = (request["id"] for request in self.report()["requests"])
        self.assertEqual(self.report()["request"]["id"], newest)
        self.assertEqual(self.report(request=oldest)["request"]["id"], oldest)
        self.assertIsNone(self.report(request="\0no-such\"")["request"])

    def test_who_was_not_asked_is_not_late(self) -> None:
        stats, rounds = self.answer["spec_stats"], self.report()["counters"]["drafts"]
        for drafter in self.report()["drafters"]:
            answers = sum(drafter["requests"][outcome] for outcome in
                          ("used", "empty", "late", "stale", "malformed", "error"))
            # Each request is answered once; those drafted ahead are no requests of the round.
            self.assertGreaterEqual(drafter["asked_rounds"], answers)
            self.assertLessEqual(drafter["asked_rounds"], rounds)
        self.assertEqual(rounds, stats["num_spec_steps"])
        alone = live_cluster.Cluster()
        self.addCleanup(alone.close)
        alone.await_drafters()
        alone.generate(PROMPT, "--max-tokens", "20", "--strategy", "union", "--drafters", "bigram")
        asked = {drafter["name"]: drafter["asked_rounds"] for drafter in alone.report()["drafters"]}
        self.assertEqual(asked, {"lookup": 0, "bigram": alone.report()["counters"]["drafts"]})

    def test_latencies_errors_and_history_come_from_the_server(self) -> None:
        report = self.report()
        for name in ("time_to_first_token", "time_per_output_token", "request_duration"):
            latency = report["latencies"][name]
            self.assertEqual(latency["requests"], 2)
            self.assertLessEqual(latency["p50_ms"], latency["p95_ms"])
            self.assertLessEqual(latency["p95_ms"], latency["p99_ms"])
        self.assertEqual(report["requests_by_code"], {"OK": 2})
        self.assertEqual(sum(report["rejected"].values()), 0)
        first = report["history"][0]
        self.assertEqual((first["generated_tokens"], first["drafts"]), (0, 0))
        later = live_cluster.await_true(
            lambda: [s for s in self.report()["history"] if s["generated_tokens"] == 80],
            "a sample of the answers")
        self.assertEqual(later[-1]["emitted_tokens"], 60)

    def test_it_says_how_to_see_the_text(self) -> None:
        self.assertTrue(self.cluster.report()["has_key"])
        self.assertFalse(self.cluster.report()["shows_text"])
        page = live_cluster.get(self.url)
        for hint in ("core.status_key_file=FILE", "deploy/cluster.sh page"):
            self.assertIn(hint, page)

    @unittest.skipUnless(live_cluster.CHROMIUM, "chromium is not installed")
    def test_it_fits_a_narrow_screen(self) -> None:
        with live_cluster.Framed(self.url, ("/", "/status.json")) as framed:
            browser = live_cluster.Browser(self.cluster.folder)
            for width in (400, 700, 1400):
                with self.subTest(width=width):
                    document = browser.document(f"{framed}?{width}")
                    self.assertIn(f'data-inner="{width}" data-content="{width}"', document)

    def test_a_shadow_is_called_one(self) -> None:
        def role() -> dict[str, Any]:
            return {drafter["name"]: drafter["role"] for drafter in self.report()["drafters"]}
        self.assertEqual(role(), {"lookup": "active", "bigram": "active"})
        for wanted in ("shadow", "active"):
            subprocess.run([live_cluster.BIN / "espalier", "drafters", "--address",
                            self.cluster.address("admin"), "--set", "bigram", "--role",
                            wanted], check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(role()["bigram"], wanted)

    def test_without_the_key_no_request_is_shown(self) -> None:
        """How many tokens each round accepts says much about the text."""
        number = self.report()["request"]["id"]
        for key in ({}, {"key": ""}, {"key": live_cluster.STATUS_KEY[:-1]}):
            report = self.cluster.report(request=number, **key)
            self.assertEqual((report["requests"], report["request"]), ([], None))

    def test_request_ids_are_nobodys_business(self) -> None:
        self.assertNotIn(self.answer["request_id"],
                         live_cluster.get(f"{self.url}/status.json?key={live_cluster.STATUS_KEY}"))

    def test_clients_cannot_do_what_operators_do(self) -> None:
        done = subprocess.run([live_cluster.BIN / "espalier", "drafters", "--address",
                               self.cluster.address("coordinator")],
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("UNIMPLEMENTED", done.stderr)

    def test_the_verifiers_memory_and_passes_are_there(self) -> None:
        verifier = self.report()["verifier"]
        memory = verifier["memory"]
        self.assertGreater(memory["kv_tokens"], memory["kv_tokens_used"])
        self.assertGreater(memory["kv_tokens_used"], 0)  # as the last round ended
        self.assertEqual(memory["device_bytes"], 0)  # a CPU
        rows = [cost["rows"] for cost in verifier["pass_costs"]]
        self.assertEqual(rows[0], 1)
        self.assertEqual(rows, sorted(rows))

    def test_other_paths_are_refused_and_metrics_stay(self) -> None:
        with self.assertRaises(urllib.error.HTTPError) as caught:
            live_cluster.get(f"{self.url}/etc/passwd")
        self.assertEqual(caught.exception.code, 404)
        self.assertIn("espalier_drafter_up", live_cluster.get(f"{self.url}/metrics"))

    @unittest.skipUnless(live_cluster.CHROMIUM, "chromium is not installed")
    def test_it_shows_the_gain_where_it_is_measured(self) -> None:
        cluster = live_cluster.Cluster()
        self.addCleanup(cluster.close)
        cluster.await_drafters()
        browser = live_cluster.Browser(cluster.folder)

        def shown() -> re.Match[str]:
            page = browser.document(f"http://{cluster.http_address('coordinator')}")
            return live_cluster.found(
                r'id="gain"[^>]*>(.*?)<.*?id="gain-note"[^>]*>(.*?)<', page, re.S)
        self.assertEqual(shown().groups(), ("–", "not measured yet"))
        cluster.generate(PROMPT, "--max-tokens", "20", "--no-speculation")
        self.assertEqual(shown()[1], "–")
        self.assertIn("this is plain decoding", shown()[2])

        def is_measured() -> bool:
            cluster.generate(PROMPT, "--max-tokens", "100", "--strategy", "budgeted")
            return any(cluster.report()["counters"]["speculation_balance_seconds"].values())
        live_cluster.await_true(is_measured, "rounds are compared with plain ones")
        self.assertRegex(shown()[1], r"^[0-9]+\.[0-9]{2} ×$")
        self.assertIn("as measured", shown()[2])

    def test_the_page_asks_nobody_else(self) -> None:
        page = live_cluster.get(self.url)
        self.assertEqual(re.findall(r"https?://(?!www\.w3\.org/2000/svg)\S+", page), [])

    @unittest.skipUnless(live_cluster.CHROMIUM, "chromium is not installed")
    def test_a_browser_shows_it(self) -> None:
        browser = live_cluster.Browser(self.cluster.folder)
        page = re.sub(r"<(script|style)>.*?</\1>", "", browser.document(self.page), flags=re.S)
        self.assertRegex(page, r'data-polls="[1-9]')
        self.assertNotIn('class="problem"', page)
        self.assertRegex(page, r"K/V of [0-9,]+ of [0-9,]+ tokens.* a pass takes [0-9.]+ ms with 1 row,")
        tau = self.answer["spec_stats"]["mean_acceptance_length"]
        self.assertIn(f">{tau:.2f} tokens per pass</b> instead of 1", page)
        self.assertNotRegex(page, r"[0-9]e[+-][0-9]|\b1 (tokens|passes|rounds|rows)\b|NaN|undefined")
        # The strategy `union` does not compare itself with plain decoding.
        self.assertRegex(page, r'id="gain"[^>]*>–<')
        self.assertIn("not measured: no round was compared with plain decoding", page)
        self.assertIn("first token", page)
        self.assertIn("none since the start", page)
        for drafter in live_cluster.CHAR_DRAFTERS:
            self.assertIn(f'<span class="name">{drafter}</span>', page)
        self.assertGreater(page.count("<rect"), 10, "nodes of trees")
        self.assertIn('stroke="var(--good)" stroke-width="3"', page, "no confirmed path")
        shown = live_cluster.found(r'<div id="text">(.*?)</div>', page, re.S)[1]
        text = re.sub(r"<[^>]*>", "", shown)
        self.assertEqual(text.replace("&amp;", "&"), self.answer["text"])
        for row in ("asked in", "late"):
            self.assertEqual(page.count(f'<td class="dim">{row}</td>'), 2)
        self.assertNotIn("last 10 seconds", page)  # nobody has watched for so long
        if SCREENSHOT:
            browser.screenshot(self.page, SCREENSHOT, 1480, 1150)


SCREENSHOT = None

if __name__ == "__main__":
    SCREENSHOT = live_cluster.take_screenshot_path()
    unittest.main(verbosity=2)
