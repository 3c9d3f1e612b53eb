#!/usr/bin/env python3
"""The dashboard and the rules against a live cluster: every metric and label
they name is exported, every panel's query answers, the viewer draws them.

    dashboard_test.py [--screenshot FILE.png]
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
from collections.abc import Iterator
from typing import Any

import live_cluster
from live_cluster import REPO

DASHBOARD = REPO / "deploy/grafana/dashboards/espalier.json"
RULES = REPO / "deploy/prometheus/rules.yml"
PROMPTS = ["To be, or not to be, that is the question:\n", "First Citizen:\nWe are all",
           "the king the king the king the king"]
# Attached by Prometheus itself.
OWN_LABELS = {"job", "instance", "le"}
GROUPING = r"\b(?:by|on|group_left) \(([^)]*)\)"


def panel_queries() -> Iterator[tuple[Any, Any]]:
    """(panel, query) pairs as Grafana would send them."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], (target["expr"].replace("$__rate_interval", "30s")
                                   .replace("$model", ".*"))


def rule_queries() -> Iterator[tuple[Any, str]]:
    text = RULES.read_text()
    for name, body in re.findall(r"- (?:record|alert): (\S+)\n\s+expr: (.+?)(?=\n\s+(?:for|labels|- )|\n\n|\Z)",
                                 text, re.S):
        yield name, " ".join(body.removeprefix(">").split())


def metrics_in(query: str) -> dict[str, set[str]]:
    """{metric: labels it is selected or grouped by} of a PromQL query."""
    found: dict[str, set[str]] = {}
    query = re.sub(GROUPING, "", query)
    # Names with a colon come from recording rules.
    for name, selector in re.findall(
            r"(?<![:\w])((?:espalier|process|grpc)_\w+)(?![:\w])(?:\{([^}]*)\})?", query):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
        found.setdefault(name, set()).update(labels)
    return found


def grouping_labels(query: str) -> set[str]:
    return {label.strip() for names in re.findall(GROUPING, query) for label in names.split(",") if label.strip()}


class Exported:
    """Metrics and their labels in the scrapes of all services."""

    def __init__(self, cluster: live_cluster.Cluster) -> None:
        self.labels: dict[str, set[str]] = {}
        for service in cluster.services:
            for line in cluster.scrape(service).splitlines():
                if match := re.match(r"(\w+)(?:\{(.*)\})? ", line):
                    names = set(re.findall(r'(\w+)="', match[2] or ""))
                    self.labels.setdefault(match[1], set()).update(names)


class DashboardTest(unittest.TestCase):
    exported: Exported
    prometheus: live_cluster.Prometheus
    cluster: live_cluster.Cluster

    @classmethod
    def setUpClass(cls) -> None:
        tenants = cls.enterClassContext(tempfile.NamedTemporaryFile("w", suffix=".textproto"))
        tenants.write('tenants { name: "acme" }\n')
        tenants.flush()
        cls.cluster = live_cluster.Cluster(["core.draft_timeout_ms=1000", "http_listen=127.0.0.1:0",
                                            f"core.tenants_file={tenants.name}"])
        cls.addClassCleanup(cls.cluster.close)
        cls.prometheus = live_cluster.Prometheus(cls.cluster, live_cluster.free_port())
        # A rate needs two scrapes that differ.
        cls.ask_for_text()
        cls.await_samples("count(espalier_spec_decode_num_drafts_total) == 4")
        cls.ask_for_text()
        cls.await_samples("model:espalier_tau:rate5m > 1")
        cls.exported = Exported(cls.cluster)

    @classmethod
    def ask_for_text(cls) -> None:
        for i, prompt in enumerate(PROMPTS):
            for flags in ([], ["--no-speculation"], ["--strategy", "union"], ["--strategy", "route"],
                          ["--strategy", "union", "--rule", "tv-gr"]):  # falls back
                cls.cluster.generate(prompt, "--max-tokens", "150", "--seed", str(i),
                                     "--temperature", "0.8", *flags)
        for path in ("/v1/models", "/v1/models/other"):
            with contextlib.suppress(urllib.error.HTTPError):
                live_cluster.get(cls.cluster.http_url("coordinator") + path)

    @classmethod
    def await_samples(cls, query: str) -> None:
        live_cluster.await_true(lambda: cls.prometheus.query(query), query)

    def test_dashboard_is_what_its_generator_writes(self) -> None:
        path = self.cluster.folder / "dashboard.json"
        subprocess.run([REPO / "deploy/grafana/make_dashboard.py", path], check=True)
        self.assertEqual(path.read_text(), DASHBOARD.read_text(),
                         "run deploy/grafana/make_dashboard.py")

    def test_every_metric_and_label_is_exported(self) -> None:
        for name, query in [*panel_queries(), *rule_queries()]:
            grouped = grouping_labels(query)
            known = OWN_LABELS | set(re.findall(r'"(\w+)", "\$1"', query))  # label_replace
            for metric, labels in metrics_in(query).items():
                with self.subTest(name, metric=metric):
                    self.assertTrue(metric in self.exported.labels, "not exported")
                    self.assertLessEqual(labels, self.exported.labels[metric] | OWN_LABELS)
                    known |= self.exported.labels[metric]
            if metrics_in(query):
                with self.subTest(name):
                    self.assertLessEqual(grouped, known)

    def test_every_panel_shows_something(self) -> None:
        queries = list(panel_queries())
        self.assertGreater(len(queries), 40)
        for panel, query in queries:
            with self.subTest(panel, query=query):
                # Each service is scraped at its own times.
                self.await_samples(query)

    def test_recording_rules_give_values_and_no_alert_is_broken(self) -> None:
        groups = self.prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertEqual(len(rules), len(list(rule_queries())))
        for rule in rules:
            with self.subTest(rule["name"]):
                self.assertEqual(rule["health"], "ok", rule.get("lastError"))
                if rule["type"] == "recording":
                    self.await_samples(rule["name"])

    def test_tau_of_the_dashboard_is_that_of_the_answers(self) -> None:
        tau = next(query for panel, query in panel_queries() if panel == "tau")
        value = float(self.prometheus.query(re.sub(r"\[30s\]", "[10m]", tau))[0]["value"][1])
        self.assertGreater(value, 1.1)
        self.assertLess(value, 8)

    def test_a_dashboard_made_for_vllm_is_not_empty(self) -> None:
        # Metrics that vLLM's own example dashboard queries.
        quantile = 'histogram_quantile(0.99, sum by (le) (rate(vllm:{}_bucket{{model_name="{}"}}[1m])))'
        model = self.prometheus.query("vllm:num_requests_running")[0]["metric"]["model_name"]
        for name in ("e2e_request_latency_seconds", "time_to_first_token_seconds",
                     "inter_token_latency_seconds", "time_per_output_token_seconds",
                     "request_queue_time_seconds", "request_prompt_tokens",
                     "request_generation_tokens"):
            with self.subTest(name):
                self.await_samples(quantile.format(name, model) + " >= 0")
        for name in ("num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total",
                     "generation_tokens_total", "request_success_total",
                     "prompt_tokens_cached_total", "prefix_cache_queries_total",
                     "prefix_cache_hits_total", "num_preemptions_total"):
            with self.subTest(name):
                self.await_samples(f'vllm:{name}{{model_name="{model}", engine="0"}}')
        # Requests go on, and a scrape may fall between the two counters.
        self.await_samples("sum(espalier_request_duration_seconds_count) == "
                           "sum(vllm:e2e_request_latency_seconds_count)")

    def test_the_local_cluster_is_what_the_local_configuration_scrapes(self) -> None:
        text = (RULES.parent / "local.yml").read_text()
        subprocess.run(["promtool", "check", "config", "local.yml"], check=True,
                       cwd=RULES.parent, stdout=subprocess.DEVNULL)
        listed = subprocess.run([REPO / "deploy/cluster.sh", "metrics"], check=True, text=True,
                                capture_output=True).stdout
        self.assertEqual({f"http://{target}/metrics" for target in re.findall(r'"(127[^"]*)"', text)},
                         set(listed.split()))

    def test_rules_pass_their_unit_tests(self) -> None:
        subprocess.run(["promtool", "test", "rules", "rules_test.yml"], check=True,
                       cwd=RULES.parent, stdout=subprocess.DEVNULL)
        subprocess.run(["promtool", "check", "config", "prometheus.yml", "node.yml"], check=True,
                       cwd=RULES.parent, stdout=subprocess.DEVNULL)

    def test_scrapes_are_well_formed(self) -> None:
        for service in self.cluster.services:
            with self.subTest(service):
                done = subprocess.run(["promtool", "check", "metrics"], text=True, check=False,
                                      input=self.cluster.scrape(service), capture_output=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(live_cluster.CHROMIUM, "chromium is not installed")
    def test_viewer_draws_every_panel(self) -> None:
        browser = live_cluster.Browser(self.cluster.folder)
        url = f"{self.prometheus.url}/user/viewer/?range=60&rate=30s"
        page = re.sub(r"<script>.*?</script>", "", browser.document(url), flags=re.S)
        panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"]
                  if panel["type"] != "row"]
        self.assertIn(f'data-sampled="{len(panels)}"', page)
        self.assertEqual(re.findall(r'class="problem">([^<]*)', page), [])
        if SCREENSHOT:
            browser.screenshot(url, SCREENSHOT, height=2150)


SCREENSHOT = None

if __name__ == "__main__":
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        print("skipped: prometheus is not installed")
        sys.exit(0)
    SCREENSHOT = live_cluster.take_screenshot_path()
    unittest.main(verbosity=2)
