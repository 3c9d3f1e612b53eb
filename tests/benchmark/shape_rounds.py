#!/usr/bin/env python3
"""Rounds of a model that is not here: its shape with random weights in int4 on the CPU, and drafts of its
own text at a hit rate, which cost nothing (the drafter `replay`). Prints, by turns: plain decoding,
`budgeted`, and trees of 4 and 8 nodes each round.

    shape_rounds.py [--shape FOLDER] [--rate 0.75] [--tokens 200] [--turns 4]

FOLDER has a config.json (deploy/shapes). Without it: five layers of Qwen3-30B-A3B, a tenth of the
model, to see whether `budgeted` finds the trees that pay of a mixture of experts by itself. Takes
2.5 GB and some minutes; a shape of 8B 7 GB.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests/deploy"))
import live_cluster  # pylint: disable=wrong-import-position

CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
    "attention_bias": False, "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960,
    "mlp_only_layers": [], "moe_intermediate_size": 768, "norm_topk_prob": True,
    "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 5, "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0, "tie_word_embeddings": False, "vocab_size": 32000}
PROMPT = [7 * i % 50 + 1 for i in range(64)]
TURNS = {"plain": ["--no-speculation"], "budgeted": [],
         "4 nodes": ["--strategy", "union", "--nodes", "4"],
         "8 nodes": ["--strategy", "union", "--nodes", "8"]}


class Server(live_cluster.Processes):
    """`espalier serve` with the model of `folder` and a drafter."""

    def __init__(self, model: str | pathlib.Path, drafter: str) -> None:
        super().__init__()
        self.address = f"unix:{self.folder}/serve.sock"
        config = self.folder / "serve.textproto"
        config.write_text(
            f'server {{ listen: "{self.address}" metrics_listen: "127.0.0.1:0" }}\n'
            f'verifier {{ model: "{model}" random_weights: 1 compute_type: "int4" '
            f'kv_cache_mib: 256 }}\n{drafter}\n')
        serve = self.start("serve", live_cluster.BIN / "espalier", "serve", "--config", config)
        live_cluster.await_true(lambda: serve.poll() is not None or self.is_ready(), "it serves")
        if serve.poll() is not None:
            sys.exit(self.log("serve"))

    def is_ready(self) -> bool:
        check = [str(live_cluster.BIN / "espalier"), "check", self.address]
        return subprocess.run(check, capture_output=True, check=False).returncode == 0

    def generate(self, tokens: int, *flags: str) -> dict[str, Any]:
        done = subprocess.run(
            [live_cluster.BIN / "espalier", "generate", "--json", "--address", self.address,
             "--token-ids", ",".join(map(str, PROMPT)), "--max-tokens", str(tokens), "--ignore-eos",
             "--temperature", "0", *flags], capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])


def replay(texts: pathlib.Path, rate: str) -> str:
    values = {"drafter": "comb", "texts": texts, "rates": rate}
    options = "".join(f'options {{ key: "{key}" value: "{value}" }} '
                      for key, value in values.items())
    return f'drafters {{ name: "replay" type: "replay" {options} }}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=pathlib.Path)
    parser.add_argument("--rate", default="0.75")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--turns", type=int, default=4)
    args = parser.parse_args()
    config = json.loads((args.shape / "config.json").read_text()) if args.shape else CONFIG
    with tempfile.TemporaryDirectory() as work:
        model = pathlib.Path(work, "model")
        model.mkdir()
        (model / "config.json").write_text(json.dumps(config))
        shutil.copy(REPO / "deploy/models/nanogpt-char/tokenizer.json", model)
        server = Server(model, 'drafters { name: "lookup" type: "prompt_lookup" }')
        try:
            text = server.generate(args.tokens, "--no-speculation")["token_ids"]
        finally:
            server.close()
        texts = pathlib.Path(work, "texts")
        texts.write_text(" ".join(map(str, PROMPT + text)) + "\n")
        server = Server(model, replay(texts, args.rate))
        try:
            print(f"{'':10}{'tokens/s':>10}{'tau':>8}{'nodes':>8}")
            for name, flags in list(TURNS.items()) * args.turns:
                answer = server.generate(args.tokens, *flags)
                stats = answer["spec_stats"]
                if answer["token_ids"] != text:
                    sys.exit(f"{name}: another text")
                nodes = stats["num_draft_tokens"] / stats["num_spec_steps"]
                print(f"{name:10}{answer['timing']['tokens_per_s']:10.1f}"
                      f"{stats['mean_acceptance_length']:8.2f}{nodes:8.2f}", flush=True)
        finally:
            server.close()


if __name__ == "__main__":
    main()
