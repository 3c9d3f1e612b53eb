#!/usr/bin/env python3
"""Writes dashboards/espalier.json, the Grafana dashboard, from the list of
panels below. Run it after a change; a test compares.

    deploy/grafana/make_dashboard.py [OUTPUT]
"""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

RATE = "[$__rate_interval]"
# Plain decoding is 1 token per verification by definition: not part of tau.
SPECULATIVE = 'model=~"$model", strategy!="none"'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def rate(metric: str, labels: str = "", by: str = "", function: str = "sum") -> str:
    grouping = f" by ({by})" if by else ""
    selector = f"{{{labels}}}" if labels else ""
    return f"{function}{grouping} (rate({metric}{selector}{RATE}))"


def quantile(q: float, metric: str, by: str = "", labels: str = "") -> str:
    return (f"histogram_quantile({q}, "
            f"{rate(metric + '_bucket', labels, ', '.join(filter(None, ['le', by])))})")


def mean(metric: str, by: str = "", labels: str = "") -> str:
    return f"{rate(metric + '_sum', labels, by)} / {rate(metric + '_count', labels, by)}"


def spec(stem: str, by: str = "", labels: str = SPECULATIVE) -> str:
    return rate(f"espalier_spec_decode_num_{stem}_total", labels, by)


def late_share(by: str) -> str:
    lost = rate("espalier_drafter_requests_total", 'outcome=~"late|timeout"', by)
    asked = rate("espalier_drafter_requests_total", 'outcome!="skipped"', by)
    return f"{lost} / {asked}"


class Panel:
    """One panel; `targets` are (legend, expression) pairs."""

    def __init__(self, title: str, description: str, *targets: tuple[str, str],
                 kind: str = "timeseries", unit: str = "short", width: int = 8, height: int = 8,
                 stack: bool = False, minimum: float | None = 0, maximum: float | None = None,
                 decimals: int | None = None,
                 steps: list[tuple[float | None, str]] | None = None) -> None:
        self.width, self.height = width, height
        defaults: dict[str, Any] = {
            "unit": unit, "min": minimum, "color": {"mode": "palette-classic"},
            "custom": {"lineWidth": 2, "fillOpacity": 70 if stack else 8,
                       "showPoints": "never", "spanNulls": False,
                       "stacking": {"mode": "normal" if stack else "none", "group": "A"}}}
        if kind != "timeseries":
            del defaults["custom"]
        if maximum is not None:
            defaults["max"] = maximum
        if decimals is not None:
            defaults["decimals"] = decimals
        if steps:
            defaults["color"] = {"mode": "thresholds"}
            defaults["thresholds"] = {
                "mode": "absolute",
                "steps": [{"value": value, "color": color} for value, color in steps]}
        options = {"timeseries": {"legend": {"displayMode": "list", "placement": "bottom"},
                                  "tooltip": {"mode": "multi", "sort": "desc"}},
                   "stat": {"reduceOptions": {"calcs": ["lastNotNull"]},
                            "graphMode": "area", "colorMode": "value"},
                   "bargauge": {"reduceOptions": {"calcs": ["lastNotNull"]},
                                "orientation": "vertical", "displayMode": "basic"}}
        self.json = {
            "type": kind, "title": title, "description": description,
            "datasource": DATASOURCE, "options": options[kind],
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "targets": [{"refId": chr(ord("A") + i), "datasource": DATASOURCE,
                         "expr": expression, "legendFormat": legend,
                         **({} if kind == "timeseries" else {"instant": True})}
                        for i, (legend, expression) in enumerate(targets)]}


def stat(title: str, description: str, expression: str, unit: str = "short",
         decimals: int | None = None, steps: list[tuple[float | None, str]] | None = None) -> Panel:
    return Panel(title, description, ("", expression), kind="stat", unit=unit,
                 decimals=decimals, steps=steps, width=3, height=4, minimum=None)


STAGES = ["draft_wait", "merge", "wire", "verify_queue", "prefill",
          "verify_forward", "accept", "compact", "commit", "emit"]


def stage_ms() -> str:
    """Seconds of a round by stage: those of the coordinator, and the
    verifier's in place of the coordinator's view of it as a whole."""
    per_stage = rate("espalier_step_stage_seconds_sum",
                     f'stage=~"{"|".join(STAGES)}"', "stage")
    rounds = rate("espalier_spec_decode_num_drafts_total")
    return f"{per_stage} / on () group_left {rounds}"


ROWS = [
    ("Now", [
        stat("tau", "Tokens per verification, the free one included. Plain decoding: 1.",
             f'{spec("emitted_tokens")} / {spec("drafts")}', decimals=2,
             steps=[(None, "red"), (1.2, "orange"), (1.6, "green")]),
        stat("Tokens/s", "To all clients together.",
             rate("espalier_generation_tokens_total", 'model=~"$model"'), decimals=0),
        stat("First token, p95", "From arrival.",
             quantile(0.95, "espalier_time_to_first_token_seconds"), "s", 2),
        stat("Per token, p95", "Mean of a request, after its first step.",
             quantile(0.95, "espalier_time_per_output_token_seconds"), "s", 3),
        stat("Whole request, p95", "From arrival to the end.",
             quantile(0.95, "espalier_request_duration_seconds"), "s", 1),
        stat("Accepted", "Share of the drafted tokens that the target would have said too.",
             f'{spec("accepted_tokens")} / {spec("draft_tokens")}', "percentunit", 0),
        stat("Drafters up", "Drafters whose last request was answered.",
             "sum (espalier_drafter_up)", decimals=0,
             steps=[(None, "red"), (1, "green")]),
        stat("Rounds without a tree", "Although one was wanted.",
             f'{rate("espalier_degraded_steps_total")} / {spec("drafts")}',
             "percentunit", 1, steps=[(None, "green"), (0.05, "orange"), (0.2, "red")]),
    ]),
    ("Speculation", [
        Panel("tau by strategy and rule", "Tokens per verification by merge policy and "
              "verification rule. `none` is plain decoding.",
              ("{{strategy}}, {{rule}}",
               spec("emitted_tokens", "strategy, rule", 'model=~"$model"') + " / " +
               spec("drafts", "strategy, rule", 'model=~"$model"')), decimals=2),
        Panel("Won against plain decoding", "Seconds a second, by the drafters that were asked; "
              "below 0: lost.",
              ("{{drafters}}", "sum by (drafters) (deriv(espalier_speculation_balance_seconds"
               '{model=~"$model"}[$__rate_interval]))'), decimals=3),
        Panel("tau of each drafter", "What tau would be with this drafter alone: 1 + its nodes "
              "in the text per round with a tree of it.",
              ("{{drafter}}", "1 + " + rate("espalier_drafter_accepted_tokens_total",
                                           'model=~"$model"', "drafter") + " / " +
               rate("espalier_drafter_requests_total", 'outcome=~"used|partial"', "drafter")),
              decimals=2),
        Panel("Accepted tokens that nobody else drafted", "What the text would lose in speed "
              "without the drafter.",
              ("{{drafter}}", rate("espalier_drafter_uniquely_accepted_tokens_total",
                                   'model=~"$model"', "drafter")), unit="tokens/s", stack=True),
        Panel("Acceptance by position", "Part of the rounds that accept a token at this depth "
              "of the tree (0: directly below the root).",
              ("{{position}}", spec("accepted_tokens_per_pos", "position") +
               " / on () group_left " + spec("drafts")),
              kind="bargauge", unit="percentunit", maximum=1, decimals=0),
        Panel("Nodes per round", "Drafted nodes verified in a pass, and how many were allowed.",
              ("verified", f'{spec("draft_tokens")} / {spec("drafts")}'),
              ("budget", f'{spec("max_nodes")} / {spec("drafts")}'),
              ("accepted", f'{spec("accepted_tokens")} / {spec("drafts")}'), decimals=1),
        Panel("Tree size", "Verified nodes of a round.",
              *((f"p{int(q * 100)}", quantile(q, "espalier_spec_decode_tree_nodes",
                                              labels=SPECULATIVE)) for q in (0.5, 0.95)),
              ("accepted p95", quantile(0.95, "espalier_spec_decode_accepted_tokens_per_step",
                                        labels=SPECULATIVE))),
    ]),
    ("Throughput and latency", [
        Panel("Tokens per second", "To clients, and prompts read.",
              ("generated", rate("espalier_generation_tokens_total", 'model=~"$model"')),
              ("prompt", rate("espalier_prompt_tokens_total", 'model=~"$model"')),
              unit="tokens/s"),
        Panel("Where a round's time goes", "Mean seconds of a round by stage. verify_forward is "
              "the target's pass over the tree; draft_wait is waiting for drafters.",
              ("{{stage}}", stage_ms()), unit="s", stack=True),
        Panel("Time to first token", "From arrival.",
              *((f"p{int(q * 100)}", quantile(q, "espalier_time_to_first_token_seconds"))
                for q in (0.5, 0.95, 0.99)), unit="s"),
        Panel("Between steps", "From one burst of tokens to the next.",
              *((f"p{int(q * 100)}", quantile(q, "espalier_inter_chunk_latency_seconds"))
                for q in (0.5, 0.95, 0.99)), unit="s"),
        Panel("Time per output token", "Mean of a request, after its first step.",
              *((f"p{int(q * 100)}", quantile(q, "espalier_time_per_output_token_seconds"))
                for q in (0.5, 0.95, 0.99)), unit="s"),
        Panel("Whole requests", "From arrival to the end, and the part spent in the queue.",
              *((f"p{int(q * 100)}", quantile(q, "espalier_request_duration_seconds"))
                for q in (0.5, 0.95, 0.99)),
              ("queue p95", quantile(0.95, "espalier_queue_time_seconds")), unit="s"),
    ]),
    ("Drafters", [
        Panel("Up", "1: the last request was answered. The circuit is open (2) when nobody "
              "waits for it any more.",
              ("{{drafter}}", "espalier_drafter_up"),
              ("{{drafter}}, circuit", "espalier_drafter_circuit_state"), decimals=0),
        Panel("Late", "Part of the rounds that asked it and went on without its tree.",
              ("{{drafter}}", late_share("drafter")), unit="percentunit", maximum=1),
        Panel("What became of requests", "used: the tree went into the merge.",
              ("{{drafter}} {{outcome}}", rate("espalier_drafter_requests_total", "",
                                               "drafter, outcome") + " > 0"),
              unit="reqps", stack=True),
        Panel("Drafting", "Inside the drafter, p95 of a batch of trees.",
              ("{{drafter}}", quantile(0.95, "espalier_draft_compute_seconds", "drafter")),
              unit="s"),
        Panel("Wire", "From request to answer without the drafting, p95.",
              ("{{drafter}}", quantile(0.95, "espalier_drafter_wire_seconds", "drafter")),
              ("{{drafter}}, round trip", quantile(0.95, "espalier_drafter_rtt_seconds",
                                                   "drafter")), unit="s"),
        Panel("Features", "Hidden states of the target sent to drafters.",
              ("{{drafter}}", rate("espalier_drafter_feature_bytes_total", by="drafter")),
              ("from the verifier", rate("espalier_verifier_feature_bytes_total")), unit="Bps"),
        Panel("Accepted of what was verified", "Part of a drafter's nodes in verified trees that "
              "the target would have said too.",
              ("{{drafter}}", rate("espalier_drafter_accepted_tokens_total",
                                   'model=~"$model"', "drafter") + " / " +
               rate("espalier_drafter_proposed_tokens_total", 'model=~"$model"', "drafter")),
              unit="percentunit", maximum=1),
        Panel("How far its trees reach", "Tokens in a row that a tree predicted, verified or not: "
              "what to judge a shadow by.",
              ("{{drafter}}", mean("espalier_drafter_accepted_length", "drafter")), decimals=2),
        Panel("Role", "2: active; 1: shadow, asked and measured only; 0: off. The weight is the "
              "operator's.",
              ("{{drafter}}", "espalier_drafter_role"),
              ("{{drafter}}, weight", "espalier_drafter_weight"), decimals=1),
    ]),
    ("Saturation", [
        Panel("Requests", "Running, and waiting for their turn.",
              ("running", "sum (espalier_requests_in_flight)"),
              ("queued", "sum (espalier_requests_queued)"), stack=True),
        Panel("Sessions", "State held by service; all return to 0 when nobody asks.",
              ("{{role}} {{drafter}}", "sum by (role, drafter) (espalier_sessions_open)")),
        Panel("K/V pool in use", "Of the verifier, and the memory of its GPU (0: none).",
              ("{{instance}}", "espalier_kv_cache_usage_ratio"),
              ("GPU of {{instance}}", "espalier_device_memory_usage_ratio"),
              unit="percentunit", maximum=1),
        Panel("Prompts from the prefix cache", "Part of the prompts' tokens whose K/V is not "
              "computed.",
              ("{{instance}}", rate("espalier_prefix_cache_hits_total", by="instance") + " / " +
               rate("espalier_prefix_cache_queries_total", by="instance")),
              unit="percentunit", maximum=1),
        Panel("Prefix cache", "Tokens kept for texts that begin alike, and tokens per second that "
              "made room.",
              ("cached", "sum (espalier_kv_tokens_cached)"),
              ("evicted", rate("espalier_prefix_cache_evictions_total"))),
        Panel("Short of K/V room", "Sessions that wait for it, and texts per second that gave way "
              "and are computed again.",
              ("waiting", "sum (espalier_kv_sessions_waiting)"),
              ("preempted", rate("espalier_kv_preemptions_total")), decimals=2),
        Panel("A forward pass", "Mean rows and sessions that share one.",
              ("rows", mean("espalier_verify_batch_tokens")),
              ("sessions", mean("espalier_verify_batch_size"))),
        Panel("What rows cost", "Time of a pass by rows, as the verifier measures it.",
              ("{{rows}}", "espalier_verifier_forward_seconds"), unit="s"),
        Panel("Memory", "Resident, by process.",
              ("{{job}} {{instance}}", "process_resident_memory_bytes"), unit="bytes"),
    ]),
    ("Reliability", [
        Panel("Rounds without a tree", "By reason, part of all speculative rounds.",
              ("{{reason}}", rate("espalier_degraded_steps_total", by="reason") +
               " / on () group_left " + spec("drafts")), unit="percentunit", stack=True),
        Panel("Near ties", "Emitted tokens that rounding could have decided, per 1000.",
              ("near ties", "1000 * " + rate("espalier_near_ties_total") + " / " +
               rate("espalier_generation_tokens_total")), decimals=2),
        Panel("Ends of requests", "By code and reason.",
              ("{{code}} {{finish_reason}}", rate("espalier_requests_total", by="code, finish_reason")),
              unit="reqps", stack=True),
        Panel("Refused", "Before their first token.",
              ("{{reason}}", rate("espalier_requests_rejected_total", by="reason")),
              unit="reqps", stack=True),
        Panel("RPCs", "By service and code.",
              ("{{grpc_service}} {{grpc_code}}",
               rate("grpc_server_handled_total", by="grpc_service, grpc_code")), unit="reqps"),
        Panel("Open descriptors", "By process.",
              ("{{job}} {{instance}}", "process_open_fds")),
        Panel("Links lost", "Streams to peers that were opened again, per minute.",
              ("{{peer}}", "60 * " + rate("espalier_stream_reconnects_total", by="peer")),
              width=12),
        Panel("Rules that fell back", "Rounds in which the walk verified, because the tree did "
              "not suit the rule that was wanted.",
              ("{{rule}} {{reason}}", rate("espalier_verifier_rule_fallbacks_total",
                                           by="rule, reason")), unit="reqps", width=12),
    ]),
    ("Tenants", [
        Panel("Tokens of tenants", "Of prompts and answers. Without core.tenants_file there are "
              "no tenants.",
              ("{{tenant}}", rate("espalier_tenant_tokens_total", by="tenant")),
              unit="tokens/s", stack=True),
        Panel("Outputs of tenants", "Running, and waiting for their turn.",
              ("{{tenant}} {{state}}", "sum by (tenant, state) (espalier_tenant_outputs)"),
              stack=True),
        Panel("Refused by tenant", "For a quota, or since the tenant's part of the queue was full.",
              ("{{tenant}} {{outcome}}", rate("espalier_tenant_requests_total",
                                              'outcome!="admitted"', "tenant, outcome")),
              unit="reqps", stack=True),
    ]),
    ("HTTP", [
        Panel("Requests over HTTP", "By route and status. 0: the client left before there was one.",
              ("{{route}} {{status}}", rate("espalier_http_requests_total", by="route, status")),
              unit="reqps", stack=True, width=12),
        Panel("Answers over HTTP, p95", "From a request's last byte to the answer's last.",
              ("{{route}}", quantile(0.95, "espalier_http_request_duration_seconds", "route")),
              unit="s", width=12),
    ]),
]


def lay_out(rows: Sequence[tuple[str, Sequence[Panel]]]) -> list[dict[str, object]]:
    panels, y = [], 0
    for title, row in rows:
        panels.append({"type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        x, y = 0, y + 1
        for panel in row:
            if x + panel.width > 24:
                x, y = 0, y + panel.height
            panels.append({**panel.json, "gridPos": {"x": x, "y": y, "w": panel.width,
                                                     "h": panel.height}})
            x += panel.width
        y += row[-1].height
    for i, laid in enumerate(panels):
        laid["id"] = i + 1
    return panels


DASHBOARD = {
    "uid": "espalier", "title": "Espalier", "tags": ["espalier", "speculative decoding"],
    "schemaVersion": 39, "editable": True, "refresh": "5s", "timezone": "browser",
    "time": {"from": "now-15m", "to": "now"},
    "templating": {"list": [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"},
        {"name": "model", "type": "query", "label": "Model", "datasource": DATASOURCE,
         "query": "label_values(espalier_generation_tokens_total, model)", "refresh": 2,
         "includeAll": True, "allValue": ".*", "multi": True,
         "current": {"text": "All", "value": "$__all"}}]},
    "panels": lay_out(ROWS),
}


def main() -> None:
    default = pathlib.Path(__file__).parent / "dashboards" / "espalier.json"
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    output.write_text(json.dumps(DASHBOARD, indent=1) + "\n")


if __name__ == "__main__":
    main()
