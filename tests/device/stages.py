"""Where the time of a round goes, by the sums that the services count in their metrics.

Of one session, or of several: then a round's time is what its session waited.
"""

from typing import Any

STAGES = {
    "draft": "in the drafter: network, candidates, tree",
    "draft_wire": "the rest of the wait for the drafter: wake-ups, and gRPC between processes",
    "merge": "trees into one, and how many of its nodes pay",
    "queue": "the verifier's queue",
    "pass": "the target's pass over the tree, draws included",
    "walk": "the verification rule",
    "keep": "K/V of the accepted path, and features",
    "verify_wire": "the rest of the round trip to the verifier: wake-ups, and gRPC",
    "commit": "tokens into the session, stop conditions",
    "emit": "text to the client's stream",
    "rest": "of the request's time: what no stage has",
}
# What a round is for. Other stages should be small.
NEEDED = ("draft", "pass")
MOST_PERCENT = 5
SUMS = {"espalier_step_stage_seconds_sum", "espalier_step_stage_seconds_count",
        "espalier_drafter_wire_seconds_sum", "espalier_request_duration_seconds_sum",
        "espalier_queue_time_seconds_sum", "espalier_verifier_feature_bytes_total"}


Counters = dict[tuple[str, str], float]  # (metric, stage or "") -> value


def counters(page: str) -> Counters:
    """{(metric, stage or ""): value} of a page in Prometheus' text format, drafters and
    models added up."""
    found: Counters = {}
    for line in page.splitlines():
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("}")
        if not rest:
            name, _, value = line.partition(" ")
        if name not in SUMS:
            continue
        stage = labels.partition('stage="')[2].partition('"')[0]
        found[name, stage] = found.get((name, stage), 0) + float(value)
    return found


def between(before: Counters, after: Counters) -> dict[str, Any]:
    """Rows for Suite.add: of a round's milliseconds, `stages` and those above the limit."""
    def grown(name: str, stage: str = "") -> float:
        key = name, stage
        return after.get(key, 0) - before.get(key, 0)

    def seconds(stage: str) -> float:
        return grown("espalier_step_stage_seconds_sum", stage)
    rounds = grown("espalier_step_stage_seconds_count", "verify")
    if rounds == 0:
        return {}
    draft_wire = grown("espalier_drafter_wire_seconds_sum")
    taken = {"draft": max(0, seconds("draft_wait") - draft_wire),
             "draft_wire": min(draft_wire, seconds("draft_wait")),
             "merge": seconds("merge"), "queue": seconds("verify_queue"),
             "pass": seconds("verify_forward"), "walk": seconds("accept"),
             "keep": seconds("compact"), "verify_wire": seconds("wire"),
             "commit": seconds("commit"), "emit": seconds("emit")}
    whole = (grown("espalier_request_duration_seconds_sum") -
             grown("espalier_queue_time_seconds_sum") - seconds("prefill"))
    taken["rest"] = max(0, whole - sum(taken.values()))
    above = [stage for stage, time in taken.items()
             if stage not in NEEDED and time > whole * MOST_PERCENT / 100]
    return {"round_ms": round(1e3 * whole / rounds, 3),
            "feature_kb": round(
                grown("espalier_verifier_feature_bytes_total") / rounds / 1e3, 1),
            f"above_{MOST_PERCENT}_percent": ",".join(above) or "none",
            "stages_ms": {stage: round(1e3 * time / rounds, 4)
                          for stage, time in taken.items()}}


def print_table(rows: list[dict[str, Any]]) -> None:
    """Of all rows that have stages."""
    measured = [row for row in rows if "stages_ms" in row]
    if not measured:
        return
    print("\nStages of a round, in ms")
    for stage, what in STAGES.items():
        print(f"  {stage:11} {what}")
    print(f"  *           above {MOST_PERCENT} % of the round, and not {' or '.join(NEEDED)}\n")
    width = max(len(row["what"]) for row in measured)
    print(f"{'':{width}}    round" + "".join(f"{stage:>12}" for stage in STAGES))
    for row in measured:
        above = row[f"above_{MOST_PERCENT}_percent"].split(",")
        cells = (f"{row['stages_ms'][stage]:.3f}{'*' if stage in above else ' '}"
                 for stage in STAGES)
        print(f"{row['what']:{width}} {row['round_ms']:8.3f}" +
              "".join(f"{cell:>12}" for cell in cells))
    print()
