#!/usr/bin/env python3
"""Tables of the suite `round`: stages from pages of metrics, and layouts of full size."""

import contextlib
import io
import unittest
from typing import Any

import layouts
import shapes
import stages
import timeline

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
    def between(self) -> dict[str, Any]:
        return stages.between(stages.counters(BEFORE), stages.counters(AFTER))

    def test_of_a_round_without_queue_and_prompt(self) -> None:
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

    def test_names_what_need_not_be_there(self) -> None:
        self.assertEqual(self.between()["above_5_percent"], "emit")

    def test_there_are_none_without_rounds(self) -> None:
        page = stages.counters(BEFORE)
        self.assertEqual(stages.between(page, page), {})

    def test_prints_a_line_for_each_measured_row(self) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            stages.print_table([{"what": "x", **self.between()}, {"what": "not measured"}])
        line = out.getvalue().strip().splitlines()[-1]
        self.assertRegex(line, r"^x +8\.000 .* 0\.800\*")


class LayoutsTest(unittest.TestCase):
    def test_of_full_size_have_the_published_tensors(self) -> None:
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

    def test_the_suite_serves_every_network_of_the_lineup(self) -> None:
        lineup = {(target.name, network.kind, taus)
                  for target in shapes.targets(emulated=False)
                  for network in target.networks for taus in network.taus}
        self.assertEqual(lineup, {("qwen3-8b", "dflash", "7"), ("qwen3-8b", "dflash", "9.5"),
                                  ("qwen3-8b", "eagle", "4"), ("llama-3.1-8b", "eagle", "4"),
                                  ("llama-3.1-8b", "eagle", "7"), ("llama-3.1-8b", "lm", "4")})


MANGLED = "_ZN8espalier4cuda9_GLOBAL__"


def trace_of(kernels: Any) -> str:
    return "\n".join(f"{begin} {end} {grid} 1 {MANGLED}{len(name)}{name}ILi128EEEvNS0_4ArgsE"
                     for begin, end, grid, name in kernels)


class TimelineTest(unittest.TestCase):
    # A pass of 65 rows between others; kernels overlap, and come in any order.
    TRACE = trace_of([
        (0, 1000, 1, "Embed"), (10000, 11000, 65, "Embed"), (10500, 13000, 65, "ResidualNorm"),
        (12000, 15000, 128, "Product"), (14000, 14500, 17, "AttendTree"),
        (18000, 19000, 17, "AttendTree"), (15500, 18500, 128, "Product"),
        (30000, 31000, 1, "Embed")])

    def of_pass(self) -> list[timeline.Kernel]:
        return timeline.middle_pass(timeline.kernels(self.TRACE), 65)

    def test_finds_the_pass_of_as_many_rows(self) -> None:
        self.assertEqual([kernel.name for kernel in self.of_pass()],
                         ["Embed", "ResidualNorm", "Product", "AttendTree", "Product",
                          "AttendTree"])
        self.assertEqual(timeline.middle_pass(timeline.kernels(self.TRACE), 64), [])

    def test_a_kernel_adds_what_it_ends_later(self) -> None:
        self.assertEqual(timeline.table(self.of_pass()),
                         [("Product", "128x1", 2, 2.75, 5.5 / 1e3),
                          ("ResidualNorm", "65x1", 1, 2, 2 / 1e3),
                          ("Embed", "65x1", 1, 1, 1 / 1e3),
                          ("AttendTree", "17x1", 2, 0.25, 0.5 / 1e3)])

    def test_a_layer_goes_from_attention_to_attention(self) -> None:
        self.assertEqual([(kernel.name, us) for kernel, us in
                          timeline.middle_layer(self.of_pass())],
                         [("Product", 3.5), ("AttendTree", 0.5)])

    def test_names_of_functions_and_templates(self) -> None:
        for mangled, name in ((MANGLED + "5EmbedENS0_9EmbedArgsE", "Embed"),
                              (MANGLED + "11E4m3ProductILi2ELi80EEEvNS0_11ProductArgsE",
                               "E4m3Product"),
                              ("main", "main")):
            self.assertEqual(timeline.name_of(mangled), name)


if __name__ == "__main__":
    unittest.main()
