#!/usr/bin/env python3
"""Checks the trainers on tiny random targets, on one core in about a minute.

    selfcheck.py

Skips, with a message, where a package that the trainers need is missing.
"""

import contextlib
import io
import itertools
import json
import pathlib
import sys
import tempfile
import unittest

try:
    import tokenizers
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except (ImportError, OSError) as error:  # OSError: torch without its libraries
    print("skipped: the trainers need the Python packages torch, transformers, "
          f"safetensors and tokenizers, which no set-up here installs: {error}")
    sys.exit(0)

import evaluate
import generate
import train_dflash
import train_eagle
from authors import LoopDetector
from batches import BatchReader, plan_epoch
from block_drafter import BlockDrafter, BlockShape
from checkpoint_layout import dflash_layout, load_drafter
from corpus import Corpus
from decode_attention import decode_attention
from draft_trees import (BlockDrafting, EagleDrafting, Situation, Vocabulary,
                         best_prefixes, count_rounds)
from draft_vocabulary import DraftVocabulary
from eagle_head import MODES, EagleHead, EagleShape
from gumbel_noise import _philox, gumbel_noise
from layers import rotary, rotate
from target_model import Target
from token_sampling import draw

VOCABULARY, HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 300, 64, 4, 2, 16
TAPS = (2, 4, 5)


def make_tokenizer(folder: str) -> None:
    special = ["<|im_start|>", "<|im_end|>", "<|unused|>"]
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    names = special + alphabet
    model = tokenizers.Tokenizer(tokenizers.models.BPE(
        {name: i for i, name in enumerate(names)}, []))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(False)
    model.decoder = tokenizers.decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, eos_token="<|im_end|>",
        bos_token="<|im_start|>", additional_special_tokens=["<|unused|>"])
    fast.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
        "<|im_end|>\n{% endfor %}<|im_start|>assistant\n")
    fast.save_pretrained(folder)


def make_model(folder: str, kind: str) -> torch.nn.Module:
    torch.manual_seed(3)
    config = getattr(transformers, kind + "Config")(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=96,
        num_hidden_layers=8, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        max_position_embeddings=512, eos_token_id=1, bos_token_id=0,
        pad_token_id=1, initializer_range=0.25, tie_word_embeddings=True)
    model = getattr(transformers, kind + "ForCausalLM")(config).eval()
    model.save_pretrained(folder)
    return model


def quietly(function, *args, **kwargs):
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*args, **kwargs)


def eagle_head(mode: str) -> EagleHead:
    torch.manual_seed(5)
    return EagleHead(EagleShape(mode, HIDDEN, 96, HEADS, KV_HEADS, HEAD_DIM,
                                1e-5, 10000.0, torch.float32))


def block_drafter(layers: int = 2) -> BlockDrafter:
    torch.manual_seed(6)
    return BlockDrafter(BlockShape(layers, 5, 3, HIDDEN, 96, HEADS, KV_HEADS,
                                   HEAD_DIM, 1e-5, 10000.0, torch.float32))


def random_text(length: int, texts: int = 1) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(7)
    return (torch.randn(texts, length, HIDDEN, generator=generator),
            torch.randn(texts, length, 4, HIDDEN, generator=generator))


def attend_one(q, keys, values):
    """One row: q [heads, d]; keys and values: lists of [kv_heads, d]."""
    group = q.shape[0] // keys[0].shape[0]
    out = []
    for head in range(q.shape[0]):
        scores = torch.stack([q[head] @ k[head // group] for k in keys])
        weights = (scores / q.shape[1] ** 0.5).softmax(0)
        out.append(sum(w * v[head // group] for w, v in zip(weights, values)))
    return torch.cat(out)


class TargetTest(unittest.TestCase):
    def check_kind(self, kind: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model = make_model(folder, kind)
            target = Target(folder, torch.float32)
            ids = torch.randint(0, VOCABULARY, (2, 11))
            want = model(ids, output_hidden_states=True)
            start = torch.zeros(2, dtype=torch.int64)
            states = target.forward(ids, start, TAPS)
            for i, tap in enumerate(TAPS):
                torch.testing.assert_close(
                    states[:, :, i], want.hidden_states[tap], rtol=1e-3,
                    atol=1e-3)
            torch.testing.assert_close(target.logits(states[:, :, -1]),
                                       want.logits, rtol=1e-3, atol=1e-3)
            cache = target.new_cache(2, 16)
            steps = [target.forward(ids[:, t:t + 1], start + t, TAPS, cache)
                     for t in range(11)]
            torch.testing.assert_close(torch.cat(steps, 1), states, rtol=1e-3,
                                       atol=1e-3)

    def test_taps_are_inputs_of_layers_llama(self) -> None:
        self.check_kind("Llama")

    def test_taps_are_inputs_of_layers_qwen3(self) -> None:
        self.check_kind("Qwen3")


class DecodeAttentionTest(unittest.TestCase):
    def test_reads_what_a_text_has(self) -> None:
        torch.manual_seed(4)
        q = torch.randn(5, HEADS, HEAD_DIM)
        keys, values = torch.randn(2, 5, KV_HEADS, 20, HEAD_DIM)
        lengths = torch.tensor([1, 20, 7, 8, 13])
        for dtype in (torch.float32, torch.bfloat16):
            k, v = keys.to(dtype), values.to(dtype)
            got = decode_attention(q.to(dtype), k, v, lengths)
            want = torch.stack([attend_one(
                q[b].to(dtype).float(), list(k[b, :, :n].float().unbind(1)),
                list(v[b, :, :n].float().unbind(1)))
                for b, n in enumerate(lengths.tolist())])
            error = 1e-5 if dtype == torch.float32 else 2e-2
            torch.testing.assert_close(got.float(), want, rtol=error, atol=error)


class SamplingTest(unittest.TestCase):
    def test_draw_follows_the_distribution(self) -> None:
        logits = torch.randn(1, 300).mul(2).expand(20000, -1).clone()
        uniform = (torch.arange(20000) + 0.5) / 20000
        expected = (logits[0] / 0.7).softmax(-1)
        tokens = draw(logits, torch.full((20000,), 0.7),
                      torch.zeros(20000), uniform)
        seen = torch.bincount(tokens, minlength=300) / 20000
        self.assertLess(float((expected - seen).abs().max()), 1.1 / 20000)

    def test_min_p_and_greedy(self) -> None:
        logits = torch.tensor([[0.0, 1.0, 0.9, -9.0]]).expand(100, -1)
        uniform = torch.arange(100) / 100
        hot = draw(logits.clone(), torch.ones(100), torch.full((100,), 0.5), uniform)
        self.assertEqual(set(hot.tolist()), {1, 2})
        cold = draw(logits.clone(), torch.zeros(100), torch.zeros(100), uniform)
        self.assertEqual(set(cold.tolist()), {1})

    def test_noise_is_the_engines(self) -> None:
        zero = [torch.tensor(0)] * 4
        self.assertEqual([int(w) for w in _philox(zero, 0)],
                         [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
        tokens = torch.tensor([7, 4, 5])
        some = gumbel_noise(9, torch.tensor([3, 2 ** 33]), tokens)
        alone = gumbel_noise(9, torch.tensor([2 ** 33]), torch.arange(8))
        torch.testing.assert_close(some[1], alone[0, tokens], rtol=0, atol=0)

    def test_loops(self) -> None:
        def first_loop(ids: list[int]) -> int | None:
            detector = LoopDetector(3, 3)
            return next((n for n in range(1, len(ids) + 1)
                         if detector.is_loop(ids[:n])), None)

        self.assertEqual(first_loop([9] + [1, 2, 3] * 4), 10)
        self.assertIsNone(first_loop([1, 2, 3] * 2 + [4, 2, 3]))


class HeadTest(unittest.TestCase):
    """The training-time test against what a chain of drafts computes."""

    def naive(self, head, embeddings, states, row, steps):
        """Outputs of steps 0.. for one row, one row and key at a time."""
        positions = torch.arange(len(embeddings) + steps)
        feature, keys, values, outputs = None, [], [], []
        for i in range(row + 1):
            feature = head.feature(states[i])
            residual, inputs = head.enter(embeddings[i + 1], feature)
            q, k, v = head.project(inputs, positions[i])
            keys.append(k)
            values.append(v)
        outputs.append(head.leave(residual, attend_one(q, keys, values)))
        for j in range(1, steps):
            residual, inputs = head.enter(embeddings[row + 1 + j], outputs[-1])
            q, k, v = head.project(inputs, positions[row + j])
            keys.append(k)
            values.append(v)
            outputs.append(head.leave(residual, attend_one(q, keys, values)))
        return outputs

    @torch.no_grad()
    def test_unrolled_equals_naive(self) -> None:
        embeddings, states = random_text(9)
        for mode in MODES:
            head = eagle_head(mode)
            steps = list(head.unroll(embeddings, states, 4))
            for row in range(4):
                want = self.naive(head, embeddings[0], states[0], row, 4)
                for j in range(4):
                    torch.testing.assert_close(steps[j][0, row], want[j],
                                               rtol=1e-4, atol=1e-4)

    @torch.no_grad()
    def test_sees_nothing_of_the_future(self) -> None:
        embeddings, states = random_text(10)
        head = eagle_head("eagle3.1")
        before = list(head.unroll(embeddings, states, 3))
        changed_tokens, changed_states = embeddings.clone(), states.clone()
        changed_tokens[:, 7] += 1
        changed_states[:, 5] += 1
        after = list(head.unroll(changed_tokens, changed_states, 3))
        for j in range(3):
            same = (before[j] == after[j]).all(-1)[0].tolist()
            blind = min(5, 7 - 1 - j)   # row i has read token i + 1 + j
            self.assertEqual(same[:blind], [True] * blind)
            self.assertFalse(any(same[blind:9 - j]))

    @torch.no_grad()
    def test_tree_runs_what_was_trained(self) -> None:
        torch.manual_seed(1)
        table = torch.randn(50, HIDDEN)
        ids = torch.randint(0, 50, (12,))
        _, states = random_text(12)
        text = Situation(ids, states[0], torch.arange(4, 9))
        everything = Vocabulary(table, table, torch.arange(50))
        for mode in MODES:
            head = eagle_head(mode)
            steps = list(head.unroll(table[ids][None], states, 3))

            def oracle(logits, depth):
                want = head.readout(steps[depth - 1][0, text.roots - 1])
                torch.testing.assert_close(logits[:, 0], want @ table.T,
                                           rtol=1e-3, atol=1e-3)
                truth = torch.full_like(logits, -50.0)
                return truth.scatter(2, text.token_at(depth)[:, None, None], 0.0)

            drafts = EagleDrafting(head, everything, text).tree(oracle, 1, 3, 3)
            self.assertEqual(drafts.accepted(3).tolist(), [3, 3, 3, 3, 3])


class BlockTest(unittest.TestCase):
    def naive(self, drafter, anchor, mask, taps, at):
        """One block over its own context only."""
        shape = drafter.shape
        x = torch.cat((anchor[None], mask.expand(shape.block - 1, -1)))
        context = drafter.hidden_norm(drafter.fc(taps[:at].flatten(-2)))
        positions = torch.arange(at + shape.block)

        def turned(x, norm, where):
            cos, sin = rotary(where, shape.head_dim, shape.rope_theta)
            return rotate(norm(x), cos, sin)

        for layer in drafter.layers:
            a = layer.self_attn
            h = layer.input_layernorm(x)
            rows = torch.cat((context, h))
            q = turned(a.queries(h), a.q_norm, positions[at:])
            k, v = turned(a.keys(rows), a.k_norm, positions), a.values(rows)
            x = x + a.o_proj(torch.stack(
                [attend_one(row, list(k), list(v)) for row in q]))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return drafter.norm(x[1:])

    @torch.no_grad()
    def test_blocks_equal_naive(self) -> None:
        drafter = block_drafter()
        embeddings, states = random_text(12, texts=2)
        mask = torch.randn(HIDDEN)
        anchors = torch.tensor([[3, 10, 6], [1, 8, 8]])
        got = drafter(torch.stack([embeddings[b, anchors[b]] for b in range(2)]),
                      mask, states[:, :, :-1], anchors)
        for b, n in itertools.product(range(2), range(3)):
            at = int(anchors[b, n])
            want = self.naive(drafter, embeddings[b, at], mask,
                              states[b, :, :-1], at)
            torch.testing.assert_close(got[b, n], want, rtol=1e-4, atol=1e-4)

    def test_published_layout(self) -> None:
        config = {"hidden_size": HIDDEN, "intermediate_size": 96,
                  "head_dim": HEAD_DIM, "num_attention_heads": HEADS,
                  "num_key_value_heads": KV_HEADS, "num_hidden_layers": 5,
                  "vocab_size": 9, "draft_vocab_size": 9,
                  "dflash_config": {"target_layer_ids": [1, 3, 4]}}
        need, _ = dflash_layout(config)
        self.assertEqual(len(need), 58)
        own = {n: tuple(p.shape) for n, p in
               block_drafter(layers=5).state_dict().items()}
        self.assertEqual(own, need)

    def test_best_prefixes_are_optimal(self) -> None:
        torch.manual_seed(2)
        scores = torch.randn(3, 4).log_softmax(-1).sort(
            descending=True).values.tolist()
        every = [(sum(scores[d][r] for d, r in enumerate(ranks)), ranks)
                 for depth in (1, 2, 3)
                 for ranks in itertools.product(range(4), repeat=depth)]
        want = sorted(every, key=lambda e: -e[0])[:20]
        self.assertEqual(best_prefixes(scores, 20), [r for _, r in want])

    def test_rounds(self) -> None:
        self.assertEqual(count_rounds([2, 0, 0, 1, 5]), (5, 2))


class PipelineTest(unittest.TestCase):
    """generate -> train -> export -> evaluate, as from the command line."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = tempfile.TemporaryDirectory()
        cls.at = pathlib.Path(cls.root.name)
        cls.model, cls.corpus = str(cls.at / "model"), str(cls.at / "corpus")
        make_model(cls.model, "Llama")
        make_tokenizer(cls.model)
        cls.generate(30)
        cls.generate(60)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.root.cleanup()

    @classmethod
    def generate(cls, texts: int, *flags: str, to: str = "corpus") -> None:
        quietly(generate.main, [
            cls.model, str(cls.at / to), "--texts", str(texts), "--slots", "16",
            "--question-limit", "8", "--answer-limit", "24", "--threads", "1",
            "--taps", ",".join(map(str, TAPS)), *flags])

    def train(self, trainer, out: str, *flags: str, until: int | None = None,
              corpus: str = "corpus") -> list[dict]:
        quietly(trainer.main, [
            self.model, str(self.at / corpus), str(self.at / out), "--epochs",
            "6", "--tokens", "500", "--warmup", "4", "--rate", "3e-3",
            "--held-out", "0.2", "--threads", "1", "--evaluate-every", "10",
            "--save-every", "7", *flags], until=until)
        lines = (self.at / out / "log.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def evaluate(self, out: str) -> list[dict]:
        return quietly(evaluate.main, [
            self.model, str(self.at / out), str(self.at / "texts"),
            "--held-out", self.corpus, "--share", "0.2", "--count", "4",
            "--temperatures", "0,1", "--answer-limit", "16", "--threads", "1"])

    def check_falls(self, log: list[dict]) -> None:
        self.assertEqual([r["step"] for r in log],
                         list(range(1, log[-1]["steps"] + 1)))
        first, last = (sum(r["loss"] for r in part) / 5
                       for part in (log[:5], log[-5:]))
        self.assertLess(last, 0.9 * first)
        held = [r["held_out_loss"] for r in log if "held_out_loss" in r]
        self.assertLess(sum(held[-1]), sum(held[0]))

    def check_resumes(self, trainer, out: str, *flags: str) -> None:
        """Stopped twice, once in the middle of an epoch, it ends alike."""
        self.train(trainer, out + "-again", *flags, until=5)
        self.train(trainer, out + "-again", *flags, until=12)
        log = self.train(trainer, out + "-again", *flags)
        straight = (self.at / out / "log.jsonl").read_text().splitlines()
        self.assertEqual([r["loss"] for r in log],
                         [json.loads(line)["loss"] for line in straight])
        one, two = (load_file(self.at / folder / "model.safetensors")
                    for folder in (out, out + "-again"))
        for name in one:
            self.assertTrue(torch.equal(one[name], two[name]), name)

    def test_corpus(self) -> None:
        corpus, target = Corpus(self.corpus), Target(self.model)
        self.assertEqual(sorted(t.record["number"] for t in corpus.texts),
                         list(range(60)))
        self.assertEqual({t.record["temperature"] for t in corpus.texts},
                         {0.0, 0.8, 1.0})
        self.assertEqual(len({t.is_held_out(0.2) for t in corpus.texts}), 2)
        prefix = None
        for text in corpus.texts:
            ids, best = corpus.read(text, "ids"), corpus.read(text, "best")
            start = tuple(ids[:corpus.prefix_length].tolist())
            prefix = prefix or start
            self.assertEqual(prefix, start)
            if text.record["temperature"] == 0:
                self.assertTrue(torch.equal(ids[text.answer_at:],
                                            best[text.answer_at - 1:-1]))
        text = corpus.texts[0]
        states = corpus.read(text, "states").float()
        ids = corpus.read(text, "ids").long()
        want = target.forward(ids[None], torch.zeros(1, dtype=torch.int64),
                              TAPS)[0]
        error = (states - want).norm() / want.norm()
        self.assertLess(float(error), 0.03)

    def test_corpus_refuses_other_settings(self) -> None:
        with self.assertRaisesRegex(ValueError, "seed"):
            self.generate(60, "--seed", "2")

    def test_states_can_be_made_later(self) -> None:
        self.generate(60, "--no-states", to="tokens-only")
        stored, bare = Corpus(self.corpus), Corpus(str(self.at / "tokens-only"))
        target = Target(self.model)
        number = {t.record["number"]: t for t in bare.texts}
        texts = plan_epoch(stored.texts, 400, 1, 0)[0]
        one = BatchReader(stored, target).read(texts)
        two = BatchReader(bare, target).read(
            [number[t.record["number"]] for t in texts])
        self.assertTrue(torch.equal(one.ids, two.ids))
        for b, length in enumerate(one.lengths.tolist()):
            a, c = (x.states[b, :length].float() for x in (one, two))
            self.assertLess(float((a - c).norm() / a.norm()), 0.03)

    def test_eagle(self) -> None:
        flags = ("--vocabulary", "120")
        log = self.train(train_eagle, "eagle", *flags)
        self.check_falls(log)
        self.check_resumes(train_eagle, "eagle", *flags)
        tensors, config = load_drafter(str(self.at / "eagle"))
        layer = "midlayer."
        self.assertEqual({n: tuple(t.shape) for n, t in tensors.items()}, {
            "fc.weight": (64, 192), "norm.weight": (64,), "d2t": (120,),
            "t2d": (300,), "fc_norm.0.weight": (64,),
            "fc_norm.1.weight": (64,), "fc_norm.2.weight": (64,),
            layer + "hidden_norm.weight": (64,),
            layer + "input_layernorm.weight": (64,),
            layer + "post_attention_layernorm.weight": (64,),
            layer + "self_attn.q_proj.weight": (64, 128),
            layer + "self_attn.k_proj.weight": (32, 128),
            layer + "self_attn.v_proj.weight": (32, 128),
            layer + "self_attn.o_proj.weight": (64, 64),
            layer + "mlp.gate_proj.weight": (96, 64),
            layer + "mlp.up_proj.weight": (96, 64),
            layer + "mlp.down_proj.weight": (64, 96)})
        # Taps are inputs of layers, the file counts outputs.
        self.assertEqual(config["eagle_config"][
            "eagle_aux_hidden_state_layer_ids"], [1, 3, 4])
        tokens = DraftVocabulary.from_offsets(tensors["d2t"], 300).tokens
        self.assertTrue(torch.equal(tensors["t2d"].nonzero()[:, 0], tokens))
        rows = self.evaluate("eagle")
        self.assertEqual(len(rows), 9)
        self.assertTrue(all(1 <= r["tau"] <= 7 for r in rows))
        self.check_strict(tensors, config)

    def check_strict(self, tensors: dict, config: dict) -> None:
        folder = self.at / "broken"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))

        def refuses(changed: dict, what: str) -> None:
            save_file(changed, folder / "model.safetensors")
            with self.assertRaisesRegex(ValueError, what):
                load_drafter(str(folder))

        missing = {n: t for n, t in tensors.items() if n != "norm.weight"}
        refuses(missing, "norm.weight is missing")
        refuses(tensors | {"surplus": torch.zeros(1)}, "surplus is not part")
        refuses(tensors | {"d2t": torch.zeros(7)}, "d2t has shape")

    def test_other_modes(self) -> None:
        for mode, vocabulary in (("eagle3", "120"), ("eagle1", "0")):
            log = self.train(train_eagle, mode, "--mode", mode, "--vocabulary",
                             vocabulary, "--self-contained", until=20)
            self.assertLess(log[-1]["loss"], log[0]["loss"])
            tensors, _ = load_drafter(str(self.at / mode))
            self.assertIn("lm_head.weight" if mode == "eagle3"
                          else "embed_tokens.weight", tensors)

    def test_dflash(self) -> None:
        flags = ("--vocabulary", "120", "--block", "5", "--anchors", "8")
        self.check_falls(self.train(train_dflash, "dflash", *flags))
        self.check_resumes(train_dflash, "dflash", *flags)
        _, config = load_drafter(str(self.at / "dflash"))
        self.assertEqual(config["dflash_config"], {
            "mask_token_id": 2, "target_layer_ids": [1, 3, 4]})
        rows = self.evaluate("dflash")
        self.assertTrue(all(1 <= r["tau"] <= 5 for r in rows))

    def test_the_noise_made_the_text(self) -> None:
        """The target as its own drafter foresees every token."""
        self.train(train_eagle, "short", "--vocabulary", "120", until=1)
        self.evaluate("short")
        corpus, target = Corpus(str(self.at / "texts")), Target(self.model)
        right = total = 0
        for text in corpus.texts:
            ids = corpus.read(text, "ids").long()
            at = torch.arange(text.answer_at, text.length)
            final = corpus.read(text, "states")[at - 1, -1]
            logits, heat = target.logits(final).float(), text.record["temperature"]
            if heat:
                logits = logits / heat + gumbel_noise(
                    text.record["seed"], at, torch.arange(VOCABULARY))
            right += int((logits.argmax(-1) == ids[at]).sum())
            total += len(at)
        self.assertGreater(right / total, 0.97)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
