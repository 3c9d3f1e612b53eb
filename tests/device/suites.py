#!/usr/bin/env python3
"""The suites of tests/device/run.sh. Python's standard library only."""

import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time

SUITE_SECONDS = 570
KERNEL_TESTS = ["device_probes_test", "cuda_row_kernels_test", "cuda_product_test",
                "cuda_prepare_test", "cuda_attention_test", "cuda_cache_test",
                "cuda_logits_test", "cuda_pass_test", "cuda_layout_test",
                "cuda_take_rows_test", "cuda_perturb_test"]
SANITIZED = ["cuda_row_kernels_test", "cuda_product_test", "cuda_attention_test",
             "cuda_cache_test", "cuda_logits_test", "cuda_prepare_test"]
# Hit rates by depth whose expectation is the given tau (EAGLE, DFlash at 64 and
# 128 nodes as published).
RATES = {"4": "0.75", "7": "0.865", "9.5": "0.91"}
TINY_SHAPE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 258, "max_position_embeddings": 512, "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}


TINY_BLOCK = {
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 6,
    "dflash_config": {"mask_token_id": 257, "target_layer_ids": [0, 1]},
    "num_target_layers": 2, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "vocab_size": 258, "max_position_embeddings": 512,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "attention_bias": False}


class Suite:
    """Runs commands until the suite's time is over, and keeps what they said."""

    def __init__(self, args):
        self.device = args.device
        self.emulated = args.device == "emulated"
        self.work = pathlib.Path(args.work)
        self.out = pathlib.Path(args.out)
        self.name = args.suite
        self.rows = []
        self.began = time.monotonic()

    def left(self):
        return SUITE_SECONDS - (time.monotonic() - self.began)

    def run(self, command, most=300):
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

    def add(self, what, ok, **values):
        row = {"what": what, "ok": ok, **values}
        self.rows.append(row)
        shown = " ".join(f"{key}={value}" for key, value in values.items())
        print(f"{'ok    ' if ok else 'FAILED'} {what:44} {shown}", flush=True)

    def log(self, name, text):
        with open(self.out / f"{self.name}.log", "a", encoding="utf-8") as file:
            file.write(f"==== {name}\n{text}\n")

    def finish(self):
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


def describe(suite):
    """What machine it is."""
    suite.add("machine", True, kernel=platform.release(), cpus=os.cpu_count())
    if suite.emulated:
        return
    status, output = suite.run(
        ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem",
         "--format=csv,noheader"])
    suite.add("nvidia-smi", status == 0, says=output.strip())


def gtest(suite, name, pattern, most=240, prefix=(), label=None):
    report = suite.work / "report.json"
    report.unlink(missing_ok=True)
    began = time.monotonic()
    status, output = suite.run(
        [*prefix, shutil.which(name), f"--gtest_filter={pattern}",
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
    values = {"tests": tests, "s": round(time.monotonic() - began, 1)}
    if failures:
        values["failures"] = failures
    if skipped:
        values["skipped"] = skipped
    if status == 124:
        values["timed_out"] = True
    # A test that did not run has not passed.
    suite.add(label or name, status == 0 and tests > skipped and not failures, **values)
    return output


def right(suite):
    describe(suite)
    kind = "*emulated*" if suite.emulated else "*/cuda:*_cuda"
    for name in KERNEL_TESTS:
        if suite.emulated and name in ("cuda_attention_test", "cuda_logits_test"):
            gtest(suite, name, "*emulated*-*Long*:*128k*:*Random*")
        elif name in ("cuda_layout_test",):
            gtest(suite, name, "*")
        else:
            gtest(suite, name, kind)
    gtest(suite, "cuda_model_test", kind)
    gtest(suite, "cuda_drafters_test", "*Trees*" if suite.emulated else "*")
    short = "-*TreeRowsAre*:*PrefillInChunks*:*APassFinds*" if suite.emulated else ""
    gtest(suite, "language_model_test", "*_cuda_*" + short)
    gtest(suite, "verify_engine_native_test",
          "*GiveEvery*/cuda_llama:*GiveEvery*/cuda_qwen3_fp8" if suite.emulated else "*/cuda_*")
    if suite.emulated:
        return
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        suite.add("compute-sanitizer", True, says="not on this machine")
        return
    for tool in ("memcheck", "synccheck", "racecheck", "initcheck"):
        for name in SANITIZED:
            if suite.left() < 60:
                suite.add(f"{tool} {name}", True, says="no time left")
                continue
            gtest(suite, name, "*/cuda:*_cuda", most=60, label=f"{tool} {name}",
                  prefix=[sanitizer, "--tool", tool, "--target-processes", "all",
                          "--error-exitcode", "9"])


def bench_forward(suite, shape, context, rows, compute_type="bfloat16"):
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


def fast(suite):
    describe(suite)
    path = suite.work / "bench.jsonl"
    status, output = suite.run(
        ["device_bench", "--device", suite.device, "--json", str(path)])
    print(output)
    suite.log("device_bench", output)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    suite.rows += [{"ok": True, **line} for line in lines]
    suite.add("device_bench", status == 0 and bool(lines), lines=len(lines), status=status)
    if suite.emulated:
        shape = tiny_target(suite)
        bench_forward(suite, shape, 64, [1, 16])
        bench_forward(suite, shape, 64, [1, 16], "fp8")
        return
    for context in (1024, 8192):
        bench_forward(suite, "deploy/shapes/qwen3-8b", context, [1, 16, 17, 64, 65, 128, 256])
    bench_forward(suite, "deploy/shapes/qwen3-8b", 1024, [1, 16, 64, 128, 256], "fp8")
    bench_forward(suite, "deploy/shapes/llama-3.1-8b", 1024, [1, 16, 64, 128])
    torch_products(suite)


def torch_products(suite):
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


def tiny_target(suite):
    folder = suite.work / "tiny"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(TINY_SHAPE))
    return folder


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Server:
    """espalier serve with a target of random weights."""

    def __init__(self, suite, target, drafters):
        self.suite = suite
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics = f"127.0.0.1:{free_port()}"
        nodes = 16 if suite.emulated else 128
        self.nodes = nodes
        patience = "core { draft_timeout_ms: 10000 }" if suite.emulated else ""
        config = suite.work / "serve.textproto"
        config.write_text(f"""
            server {{ listen: "{self.address}" metrics_listen: "{self.metrics}" }}
            verifier {{ model: "{target}" random_weights: 1 device: "{suite.device}"
                        max_tree_nodes: {nodes} }}
            {patience}
            {drafters}""")
        self.log = open(suite.work / "serve.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(["espalier", "serve", "--config", str(config)],
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        while self.suite.left() > 0 and self.process.poll() is None:
            status, _ = self.suite.run(["espalier", "check", self.address, "--timeout", "2"])
            if status == 0:
                break
            time.sleep(0.2)
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        self.suite.log("serve", (self.suite.work / "serve.log").read_text())

    def generate(self, prompt, tokens, *flags):
        command = ["espalier", "generate", "--json", "--address", self.address,
                   "--token-ids", ",".join(map(str, prompt)), "--max-tokens", str(tokens),
                   "--ignore-eos", *flags]
        status, output = self.suite.run(command)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if status != 0 or not lines:
            self.suite.log(" ".join(command), output)
            return None
        return json.loads(lines[-1])


def round_suite(suite):
    """Texts with speculation against the same without: equal, and how fast."""
    describe(suite)
    target = tiny_target(suite)
    if not suite.emulated:
        target = suite.work / "qwen3-8b"
        target.mkdir()
        shutil.copy("deploy/shapes/qwen3-8b/config.json", target)
    shutil.copy("deploy/models/nanogpt-char/tokenizer.json", target)
    prompt = [7 * i % 50 + 1 for i in range(40 if suite.emulated else 1024)]
    tokens = 24 if suite.emulated else 512
    plain = {}
    with Server(suite, target, 'drafters { name: "lookup" type: "prompt_lookup" }') as server:
        for temperature in ("0", "1"):
            answer = server.generate(prompt, tokens, "--no-speculation", "--seed", "5",
                                     "--temperature", temperature)
            plain[temperature] = answer
            if answer is None:
                suite.add(f"plain, temperature {temperature}", False)
                return
            suite.add(f"plain, temperature {temperature}", True, **speed_of(answer))
    texts = suite.work / "texts"
    texts.write_text("".join(
        " ".join(map(str, prompt + plain[t]["token_ids"])) + "\n" for t in plain))
    for tau, rates in RATES.items():
        rounds_of(suite, target, {"drafter": "comb", "texts": texts, "rates": rates},
                  prompt, plain)
        if suite.emulated:
            break
    for kind, shape, tau in networks(suite):
        options = {"drafter": kind, "drafter.model": shape, "drafter.device": suite.device,
                   "drafter.random_weights": 1, "texts": texts, "rates": RATES[tau]}
        rounds_of(suite, target, options, prompt, plain)


def networks(suite):
    """Draft networks of random weights whose trees get the hits of published ones."""
    if not suite.emulated:
        return [("dflash", "deploy/shapes/qwen3-8b-dflash", "7"),
                ("dflash", "deploy/shapes/qwen3-8b-dflash", "9.5"),
                ("eagle", "deploy/shapes/qwen3-8b-eagle3", "4")]
    folder = suite.work / "block"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(TINY_BLOCK))
    return [("dflash", folder, "4")]


def rounds_of(suite, target, options, prompt, plain):
    """Texts drafted by one replay drafter against the plain ones."""
    listed = "".join(f'options {{ key: "{key}" value: "{value}" }}\n'
                     for key, value in options.items())
    drafter = f'drafters {{ name: "replay" type: "replay" {listed} }}'
    tokens = len(plain["0"]["token_ids"])
    with Server(suite, target, drafter) as server:
        for nodes in (8, 16) if suite.emulated else (16, 64, 128):
            for temperature, wanted in plain.items():
                answer = server.generate(
                    prompt, tokens, "--seed", "5", "--temperature", temperature,
                    "--nodes", str(nodes))
                name = (f"{options['drafter']}, hit rate {options['rates']}, {nodes} nodes, "
                        f"temperature {temperature}")
                if answer is None:
                    suite.add(name, False)
                    continue
                same = answer["token_ids"] == wanted["token_ids"]
                suite.add(name, same, text="equal" if same else "DIFFERS",
                          **speed_of(answer))


def speed_of(answer):
    """Tau, tokens/s, and milliseconds of a round by stage."""
    stats, timing = answer["spec_stats"], answer["timing"]
    steps = max(1, stats["num_spec_steps"])
    values = {"tau": round(stats["mean_acceptance_length"], 2),
              "tokens_per_s": round(timing["tokens_per_s"] or 0, 1)}
    for stage in ("draft", "merge", "verify", "wire"):
        values[f"{stage}_ms"] = round(timing[f"{stage}_ms"] / steps, 3)
    return values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=["right", "fast", "round"])
    parser.add_argument("--device", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    suite = Suite(args)
    (suite.out / f"{suite.name}.log").unlink(missing_ok=True)
    try:
        {"right": right, "fast": fast, "round": round_suite}[args.suite](suite)
    finally:
        status = suite.finish()
    return status


if __name__ == "__main__":
    sys.exit(main())
