#!/usr/bin/env python3
"""Tables of the suite `round`: stages from pages of metrics, and layouts of full size."""

import contextlib
import io
import unittest

import layouts
import shapes
import stages

BEFORE = """# HELP espalier_step_stage_seconds Time
espalier_step_stage_seconds_count{stage="verify"} 1
espalier_step_stage_seconds_sum{stage="draft_wait"} 1
espalier_request_duration_seconds_sum 7
"""
AFTER = """
espalier_step_stage_seconds_count{stage="verify"} 11
espalier_step_stage_seconds_sum{stage="draft_wait"} 1.02
espalier_step_stage_seconds_sum{stage="verify_forward"} 0.05
espalier_step_stage_seconds_sum{stage="prefill"} 1
espalier_step_stage_seconds_sum{stage="emit"} 0.008
espalier_step_stage_seconds_bucket{stage="emit",le="0.1"} 9
espalier_drafter_wire_seconds_sum{drafter="a"} 0.001
espalier_drafter_wire_seconds_sum{drafter="b"} 0.001
espalier_verifier_feature_bytes_total{model="m"} 20000
espalier_queue_time_seconds_sum 0.5
espalier_request_duration_seconds_sum 8.58
"""


class StagesTest(unittest.TestCase):
    def between(self):
        return stages.between(stages.counters(BEFORE), stages.counters(AFTER))

    def test_of_a_round_without_queue_and_prompt(self):
        row = self.between()
        self.assertEqual(row["round_ms"], 8)
        self.assertEqual(row["feature_kb"], 2)
        taken = row["stages_ms"]
        self.assertEqual(set(taken), set(stages.STAGES))
        self.assertAlmostEqual(taken["draft"], 1.8)
        self.assertAlmostEqual(taken["draft_wire"], 0.2)
        self.assertAlmostEqual(taken["pass"], 5)
        self.assertAlmostEqual(taken["emit"], 0.8)
        self.assertAlmostEqual(taken["rest"], 0.2)

    def test_names_what_need_not_be_there(self):
        self.assertEqual(self.between()["above_5_percent"], "emit")

    def test_there_are_none_without_rounds(self):
        page = stages.counters(BEFORE)
        self.assertEqual(stages.between(page, page), {})

    def test_prints_a_line_for_each_measured_row(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            stages.print_table([{"what": "x", **self.between()}, {"what": "not measured"}])
        line = out.getvalue().strip().splitlines()[-1]
        self.assertRegex(line, r"^x +8\.000 .* 0\.800\*")


class LayoutsTest(unittest.TestCase):
    def test_of_full_size_have_the_published_tensors(self):
        # Tensors, and the numbers in them where they are published.
        wanted = {("qwen3-8b", layouts.language_model): (399, 8190735360),
                  ("llama-3.1-8b", layouts.language_model): (291, 8030261248),
                  ("llama-3.2-1b", layouts.language_model): (146, 1235814400),
                  ("qwen3-8b-dflash", layouts.dflash): (58, None),
                  ("qwen3-8b-eagle3", layouts.eagle3): (15, None),
                  ("llama-3.1-8b-eagle3", layouts.eagle3): (15, None)}
        for (name, layout), (count, numbers) in wanted.items():
            with self.subTest(name):
                tensors = layout(shapes.published(name))
                self.assertEqual(len(tensors), count)
                if numbers is not None:
                    self.assertEqual(sum(map(layouts.size, tensors.values())), 2 * numbers)

    def test_the_suite_serves_every_network_of_the_lineup(self):
        lineup = {(target.name, network.kind, taus)
                  for target in shapes.targets(emulated=False)
                  for network in target.networks for taus in network.taus}
        self.assertEqual(lineup, {("qwen3-8b", "dflash", "7"), ("qwen3-8b", "dflash", "9.5"),
                                  ("qwen3-8b", "eagle", "4"), ("llama-3.1-8b", "eagle", "4"),
                                  ("llama-3.1-8b", "eagle", "7"), ("llama-3.1-8b", "lm", "4")})


if __name__ == "__main__":
    unittest.main()
