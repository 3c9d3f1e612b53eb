"""Checks the trainers as a whole, on tiny random targets."""

import json
import pathlib
import tempfile
import types
import unittest

import torch
from safetensors.torch import load_file, save_file

import evaluate
import generate
import train_dflash
import train_eagle
from batches import BatchReader, plan_epoch
from checkpoint_layout import load_drafter
from corpus import Corpus
from draft_vocabulary import DraftVocabulary
from gumbel_noise import gumbel_noise
from selfcheck_fixtures import (TAPS, VOCABULARY, make_model, make_tokenizer,
                                quietly)
from target_model import Target


class PipelineTest(unittest.TestCase):
    """generate -> train -> export -> evaluate, as from the command line."""
    model: str
    corpus: str
    at: pathlib.Path
    root: tempfile.TemporaryDirectory[str]

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

    def train(self, trainer: types.ModuleType, out: str, *flags: str, until: int | None = None,
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

    def check_resumes(self, trainer: types.ModuleType, out: str, *flags: str) -> None:
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
