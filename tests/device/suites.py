#!/usr/bin/env python3
"""The suites of tests/device/run.sh. Python's standard library only."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rounds
import timeline
from shapes import TINY, write_shape

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
import find_tests  # pylint: disable=wrong-import-position

# The folders of the test files, each with its program.
FOLDERS = {"device": "device_probes_test", "common/cuda": "cuda_test",
           "common/model/cuda": "cuda_model_test", "common/model": "model_test",
           "drafter": "drafter_test", "verifier/engine": "verifier_engine_test"}
KERNEL_TESTS = ["device_probes_test", "cuda_row_kernels_test", "cuda_product_test",
                "cuda_prepare_test", "cuda_attention_test", "cuda_attend_chain_test",
                "cuda_cache_test", "cuda_logits_test", "cuda_filters_test",
                "cuda_pass_test", "cuda_layout_test", "cuda_take_rows_test",
                "cuda_perturb_test", "cuda_row_bits_test", "cuda_graph_test", "cuda_mail_test"]
# device_tune has these.
EXPERIMENTS = {"widths", "tiles", "cache", "blocks", "norms", "sums", "chunks", "clusters",
               "hand_over", "mail", "chain", "hints"}
SANITIZED = ["cuda_row_kernels_test", "cuda_product_test", "cuda_attention_test",
             "cuda_attend_chain_test", "cuda_cache_test", "cuda_logits_test", "cuda_prepare_test"]


class Suite:
    """Runs commands until the suite's time is over, and keeps what they said."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.device = args.device
        self.emulated = args.device == "emulated"
        self.work = pathlib.Path(args.work)
        self.out = pathlib.Path(args.out)
        self.name = args.suite
        self.seconds = args.seconds
        self.rows: list[dict[str, Any]] = []
        self.lock = threading.Lock()  # of `rows` and of what is written
        self.began = time.monotonic()

    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def run(self, command: Sequence[str], most: float = 300) -> tuple[int, str]:
        """Exit status (124: out of time) and output, both streams."""
        most = min(most, self.left())
        if most <= 0:
            return 124, "the suite's time was over"
        try:
            done = subprocess.run(
                command, timeout=most, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            output = error.stdout or b""
            return 124, output if isinstance(output, str) else output.decode(errors="replace")

    def add(self, what: str, ok: bool, **values: object) -> None:
        shown = " ".join(f"{key}={value}" for key, value in values.items()
                         if not isinstance(value, dict))
        with self.lock:
            self.rows.append({"what": what, "ok": ok, **values})
            print(f"{'ok    ' if ok else 'FAILED'} {what:44} {shown}", flush=True)

    def log(self, name: str, text: str) -> None:
        with self.lock, open(self.out / f"{self.name}.log", "a", encoding="utf-8") as file:
            file.write(f"==== {name}\n{text}\n")

    def finish(self) -> int:
        failed = [row["what"] for row in self.rows if not row["ok"]]
        packed = self.work / "commit"
        commit = packed.read_text().split("\n") if packed.exists() else ["not packed"]
        result = {"suite": self.name, "device": self.device, "commit": commit[0],
                  "clean": len(commit) < 3, "seconds": round(time.monotonic() - self.began),
                  "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                  "rows": self.rows, "failed": failed}
        path = self.out / f"{self.name}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"{len(self.rows) - len(failed)} of {len(self.rows)} in "
              f"{result['seconds']} s; {path}")
        return 1 if failed or not self.rows else 0


def describe(suite: Suite) -> None:
    """What machine it is."""
    suite.add("machine", True, kernel=platform.release(), cpus=os.cpu_count())
    if suite.emulated:
        return
    status, output = suite.run(
        ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem",
         "--format=csv,noheader"])
    suite.add("nvidia-smi", status == 0, says=output.strip())


def gtest(suite: Suite, name: str, pattern: str, most: float = 240, prefix: Sequence[str] = (),
          label: str | None = None) -> str:
    """The cases of the test file `name` that the pattern selects."""
    folder, program = next((folder, shutil.which(program) or program) for folder, program in
                           FOLDERS.items() if (TESTS / folder / f"{name}.cc").exists())
    cases = find_tests.selected_cases(program, TESTS / folder / f"{name}.cc", pattern)
    report = suite.work / f"{label or name}.json"
    report.unlink(missing_ok=True)
    began = time.monotonic()
    status, output = suite.run(
        [*prefix, program, f"--gtest_filter={':'.join(cases) or '-*'}",
         f"--gtest_output=json:{report}"], most)
    suite.log(label or name, output)
    tests, skipped, failures = 0, 0, []
    if report.exists():
        for group in json.loads(report.read_text())["testsuites"]:
            for test in group["testsuite"]:
                tests += 1
                skipped += test["result"] == "SKIPPED"
                if "failures" in test:
                    failures.append(f"{group['name']}.{test['name']}")
    values: dict[str, Any] = {"tests": tests, "s": round(time.monotonic() - began, 1)}
    if failures:
        values["failures"] = failures
    if skipped:
        values["skipped"] = skipped
    if status == 124:
        values["timed_out"] = True
    # A test that did not run has not passed.
    suite.add(label or name, status == 0 and tests > skipped and not failures, **values)
    return output


def right(suite: Suite) -> None:
    kind = "*emulated*" if suite.emulated else "*/cuda:*_cuda"
    patterns = dict.fromkeys([*KERNEL_TESTS, "cuda_model_test"], kind)
    patterns |= {
        "cuda_layout_test": "*",
        "cuda_large_shape_test": "*",
        "cuda_drafters_test": "*Trees*" if suite.emulated else "*",
        "language_model_test": "*_cuda_*",
        "verify_engine_native_test": "*/cuda_*",
        "verify_engine_schedule_test": "*/cuda_*"}
    if suite.emulated:
        few = "*emulated*-*Long*:*128k*:*Random*"
        patterns |= {
            "cuda_attention_test": few, "cuda_logits_test": few, "cuda_filters_test": few,
            "language_model_test": "*_cuda_*-*TreeRowsAre*:*PrefillInChunks*:*APassFinds*",
            "verify_engine_native_test":
                "*GiveEvery*/cuda_llama:*GiveEvery*/cuda_qwen3_fp8"}
    several(gtest, ((suite, name, pattern) for name, pattern in patterns.items()))
    if not suite.emulated:
        sanitize(suite)


def several(act: Callable[..., object], calls: Iterable[tuple[Any, ...]]) -> None:
    """As many at once as CPUs allow: the tests compute what they compare with there."""
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 3)) as pool:
        for done in [pool.submit(act, *call) for call in calls]:
            done.result()


def sanitize(suite: Suite) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        suite.add("compute-sanitizer", True, says="not on this machine")
        return

    def check(tool: str, name: str) -> None:
        label = f"{tool} {name}"
        if suite.left() < 30:
            suite.add(label, True, says="no time left")
            return
        gtest(suite, name, "*/cuda:*_cuda", most=60, label=label,
              prefix=[sanitizer, "--tool", tool, "--target-processes", "all",
                      "--error-exitcode", "9"])
    several(check, ((tool, name) for tool in ("memcheck", "synccheck", "racecheck", "initcheck")
                    for name in SANITIZED))


def bench_forward(suite: Suite, shape: str | pathlib.Path, context: int, rows: Any,
                  compute_type: str = "bfloat16") -> None:
    command = ["espalier", "bench", "forward", "--json", "--device", suite.device,
               "--random-weights", str(shape), "--context", str(context),
               "--rows", ",".join(map(str, rows)), "--compute-type", compute_type]
    status, output = suite.run(command)
    suite.log(" ".join(command), output)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    name = f"{pathlib.Path(shape).name} {compute_type}, {context} cached"
    for line in lines:
        what = ("load" if "load_s" in line else "floor" if "read_floor_ms" in line else
                f"{line['rows']} rows" if "rows" in line else "decoding")
        suite.add(f"{name}: {what}", True,
                  **{key: round(value, 3) for key, value in line.items() if key != "rows"})
    if status != 0 or not lines:
        suite.add(name, False, status=status, says=output.strip()[-300:])


def bench_graphs(suite: Suite, shape: str | pathlib.Path, context: int, rows: Any) -> None:
    """Passes as launches and as graphs."""
    path = suite.work / "graphs.jsonl"
    status, output = suite.run(
        ["graph_bench", "--shape", str(shape), "--device", suite.device, "--json", str(path),
         "--context", str(context), *map(str, rows)])
    print(f"Launches and graphs, {pathlib.Path(shape).name}, {context} cached\n{output}")
    suite.log("graph_bench", output)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    suite.rows += lines
    suite.add("graph_bench", status == 0 and len(lines) == len(rows), lines=len(lines),
              status=status)


def fast(suite: Suite) -> None:
    path = suite.work / "bench.jsonl"
    status, output = suite.run(
        ["device_bench", "--device", suite.device, "--json", str(path)])
    print(output)
    suite.log("device_bench", output)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    suite.rows += [{"ok": True, **line} for line in lines]
    suite.add("device_bench", status == 0 and bool(lines), lines=len(lines), status=status)
    if suite.emulated:
        shape = write_shape(suite.work / "tiny", TINY)
        bench_graphs(suite, shape, 64, [1, 16])
        bench_forward(suite, shape, 64, [1, 16])
        bench_forward(suite, shape, 64, [1, 16], "fp8")
        return
    bench_graphs(suite, "deploy/shapes/qwen3-8b", 1024, [1, 16, 65, 129])
    for context in (1024, 8192):
        bench_forward(suite, "deploy/shapes/qwen3-8b", context,
                      [1, 16, 17, 64, 65, 128, 129, 256])
    bench_forward(suite, "deploy/shapes/qwen3-8b", 1024, [1, 16, 64, 128, 256], "fp8")
    bench_forward(suite, "deploy/shapes/llama-3.1-8b", 1024, [1, 16, 64, 128])
    torch_products(suite)
    for rows in (1, 65):
        trace(suite, "deploy/shapes/qwen3-8b", 1024, rows)
    profile(suite)


def tune(suite: Suite) -> None:
    """Which forms of kernels this machine is for: a decision for each."""
    path = suite.work / "tune.jsonl"
    status, output = suite.run(["device_tune", "--device", suite.device, "--json", str(path)], 480)
    print(output)
    suite.log("device_tune", output)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    missing = EXPERIMENTS - {line["experiment"] for line in lines}
    for line in lines:
        suite.add(f"{line.pop('experiment')}: {line.pop('decision')}",
                  "OTHER BITS" not in line["figure"], **line)
    suite.add("device_tune", status == 0 and not missing, findings=len(lines), status=status,
              missing=sorted(missing))


def trace(suite: Suite, shape: str | pathlib.Path, context: int, rows: int) -> None:
    """What each kernel adds to a pass."""
    library = suite.work / "lib/libkernel_trace.so"
    name = f"kernels of a pass, {rows} rows"
    if not library.exists():
        suite.add(name, True, says="packed without CUPTI")
        return
    path = suite.work / "trace.txt"
    status, output = suite.run(
        ["env", f"CUDA_INJECTION64_PATH={library}", f"KERNEL_TRACE={path}", "espalier", "bench",
         "forward", "--json", "--device", suite.device, "--random-weights", str(shape),
         "--context", str(context), "--rows", str(rows)])
    suite.log(name, output)
    of_pass = timeline.middle_pass(
        timeline.kernels(path.read_text()) if path.exists() else [], rows)
    for kernel, grid, count, us, ms in timeline.table(of_pass):
        suite.add(f"{name}: {kernel} {grid}", True, count=count, us=round(us, 2),
                  ms=round(ms, 3))
    layer = [f"{kernel.name} {us:.1f}" for kernel, us in timeline.middle_layer(of_pass)]
    suite.add(name, status == 0 and bool(of_pass), status=status,
              layer_us=", ".join(layer))


def profile(suite: Suite) -> None:
    """Of some products and attentions: memory, caches and stalls, by Nsight Compute."""
    if shutil.which("ncu") is None:
        suite.add("ncu", True, says="not on this machine")
        return
    command = ["ncu", "--target-processes", "all", "--clock-control", "none",
               "-k", "regex:Product|Attend", "-c", "40",
               "--section", "SpeedOfLight", "--section", "MemoryWorkloadAnalysis",
               "--section", "WarpStateStats", shutil.which("espalier"), "bench", "forward",
               "--json", "--device", suite.device, "--random-weights",
               "deploy/shapes/qwen3-8b", "--context", "1024", "--rows", "64"]
    status, output = suite.run(command)
    suite.log("ncu", output)
    # It may lack the right to read counters.
    suite.add("ncu", True, status=status, sections=output.count("Section: "))


def torch_products(suite: Suite) -> None:
    """cuBLASLt, by PyTorch where that is, on the shapes of device_bench."""
    code = """
import json, torch
def median(run):
    for _ in range(3): run()
    times = []
    for _ in range(20):
        a, b = torch.cuda.Event(True), torch.cuda.Event(True)
        a.record(); run(); b.record(); torch.cuda.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[10]
for name, n, k in [("qkv", 6144, 4096), ("o", 4096, 4096), ("gate_up", 24576, 4096),
                   ("down", 4096, 12288), ("head", 151936, 4096)]:
    sets = max(1, (2 << 30) // (2 * n * k))
    w = torch.randn(sets, n, k, dtype=torch.bfloat16, device="cuda")
    for m in (1, 16, 64, 128, 256):
        x = torch.randn(m, k, dtype=torch.bfloat16, device="cuda")
        turn = [0]
        def run():
            turn[0] = (turn[0] + 1) % sets
            torch.mm(x, w[turn[0]].t())
        ms = median(run)
        print(json.dumps({"what": "torch.mm", "shape": name, "rows": m, "us": ms * 1e3,
                          "gb_per_s": 2 * n * k / ms / 1e6}))
    del w
"""
    status, output = suite.run([sys.executable, "-c", code])
    suite.log("torch.mm", output)
    if "No module named" in output:
        suite.add("torch.mm", True, says="no PyTorch on this machine")
        return
    for line in output.splitlines():
        if line.startswith("{"):
            values = json.loads(line)
            suite.add(f"torch.mm {values['shape']} rows={values['rows']}", True,
                      us=round(values["us"], 2), gb_per_s=round(values["gb_per_s"], 1))
    if status != 0:
        suite.add("torch.mm", False, says=output.strip()[-300:])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=["right", "fast", "round", "tune"])
    parser.add_argument("--device", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    suite = Suite(args)
    (suite.out / f"{suite.name}.log").unlink(missing_ok=True)
    try:
        describe(suite)
        {"right": right, "fast": fast, "round": rounds.run, "tune": tune}[args.suite](suite)
    finally:
        status = suite.finish()
    return status


if __name__ == "__main__":
    sys.exit(main())
