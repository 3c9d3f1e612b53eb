"""The suite `round` of tests/device/run.sh."""

import json
import shutil
import subprocess
import time

from serving import Server, Services

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


def tiny_target(suite):
    folder = suite.work / "tiny"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(TINY_SHAPE))
    return folder


def run(suite):
    """Texts with speculation against the same without: equal, and how fast."""
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
    options = listed({"drafter": "comb", "texts": texts, "rates": RATES["7"]})
    sessions(suite, target, options, prompt, plain)
    deaths(suite, target, options, prompt, plain)
    full_pools(suite, target)
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


def listed(options):
    return "".join(f'options {{ key: "{key}" value: "{value}" }}\n'
                   for key, value in options.items())


def replay(options):
    return f'drafters {{ name: "replay" type: "replay" {options} }}'


def sessions(suite, target, options, prompt, plain):
    """Several at once: the plain text for each, and tokens of all per second."""
    tokens = len(plain["0"]["token_ids"])
    with Server(suite, target, replay(options)) as server:
        for count in (1, 3) if suite.emulated else (1, 8, 32):
            temperatures = [str(i % 2) for i in range(count)]
            began = time.monotonic()
            answers = server.generate_all(
                [(prompt, tokens, "--seed", "5", "--temperature", t) for t in temperatures])
            seconds = time.monotonic() - began
            same = all(a is not None and a["token_ids"] == plain[t]["token_ids"]
                       for a, t in zip(answers, temperatures))
            suite.add(f"{count} sessions at once, hit rate {RATES['7']}", same,
                      tokens_per_s=round(count * tokens / seconds, 1))


def deaths(suite, target, options, prompt, plain):
    """A service dies in the middle of a text and is started again."""
    wanted = plain["1"]["token_ids"]
    with Services(suite, target, options) as services:
        for name in ("drafter", "verifier"):
            command = services.command(prompt, len(wanted), "--seed", "5", "--temperature", "1")
            with subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT) as running:
                while running.poll() is None and suite.left() > 0:
                    newest = services.report()["request"]
                    if newest is not None and newest["live"] and newest["rounds"] > 0:
                        break
                came_first = running.poll() is not None
                services.restart(name)
                began = time.monotonic()
                try:
                    output = running.communicate(timeout=max(1, suite.left()))[0]
                except subprocess.TimeoutExpired:
                    running.kill()
                    output = running.communicate()[0]
            suite.log(f"death of the {name}", output)
            lines = [line for line in output.splitlines() if line.startswith("{")]
            same = bool(lines) and json.loads(lines[-1])["token_ids"] == wanted
            suite.add(f"the {name} dies and comes back", same and not came_first,
                      text="ended before" if came_first else "equal" if same else "DIFFERS",
                      rest_s=round(time.monotonic() - began, 1))


def full_pools(suite, target):
    """K/V for less than is asked for: requests end or wait, and the server goes on."""
    tokenizer = target / "tokenizer.json"
    if suite.emulated:  # a shape of which 1 MiB holds 256 tokens
        target = suite.work / "wide"
        target.mkdir(exist_ok=True)
        (target / "config.json").write_text(json.dumps(
            TINY_SHAPE | {"head_dim": 128, "num_key_value_heads": 4}))
        shutil.copy(tokenizer, target)
    lookup = 'drafters { name: "lookup" type: "prompt_lookup" }'
    pool = f"kv_cache_mib: {1 if suite.emulated else 256}"
    with Server(suite, target, lookup, pool) as server:
        room = server.report()["verifier"]["memory"]["kv_tokens"]
        size = room * 3 // 4
        requests = [([(7 + seed) * i % 50 + 1 for i in range(size)], room // 16,
                     "--seed", str(seed), "--temperature", "1") for seed in range(3)]
        alone = [server.generate(*request) for request in requests]
        together = server.generate_all(requests)
        same = None not in alone and None not in together and all(
            a["token_ids"] == b["token_ids"] for a, b in zip(alone, together))
        suite.add(f"3 sessions in a pool of {room} tokens", same,
                  text="equal" if same else "DIFFERS")
        endless = server.generate(requests[0][0], room)
        suite.add("a text that fills the pool ends there",
                  endless is not None and endless["finish_reason"] == "length" and
                  room - size <= len(endless["token_ids"]) < room,
                  tokens=len(endless["token_ids"]) if endless else 0)
        status, output = suite.run(server.command([1] * (room + 1), 1))
        suite.add("a prompt that never fits is refused",
                  status == 2 and "INVALID_ARGUMENT" in output, status=status)
        again = server.generate(*requests[0])
        suite.add("the server goes on", again is not None and alone[0] is not None and
                  again["token_ids"] == alone[0]["token_ids"])
    with Server(suite, target, lookup, "kv_cache_mib: 1000000") as server:
        status = server.process.poll()
        says = (suite.work / "serve.log").read_text()
        suite.add("a pool that the device has no memory for is refused",
                  status == 1 and "no room for" in says, status=status)


def rounds_of(suite, target, options, prompt, plain):
    """Texts drafted by one replay drafter against the plain ones."""
    drafter = replay(listed(options))
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
