"""Checks the parts of the trainers: target, attention, samples, drafters, trees."""

import itertools
import tempfile
import unittest
from typing import Any

import torch

from authors import LoopDetector
from checkpoint_layout import dflash_layout
from decode_attention import decode_attention
from draft_trees import (EagleDrafting, Situation, Vocabulary, best_prefixes,
                         count_rounds)
from eagle_head import MODES
from gumbel_noise import _philox, gumbel_noise
from layers import rotary, rotate
from selfcheck_fixtures import (HEAD_DIM, HEADS, HIDDEN, KV_HEADS, TAPS,
                                VOCABULARY, block_drafter, eagle_head,
                                make_model, random_text)
from target_model import Target
from token_sampling import draw


def attend_one(q: Any, keys: Any, values: Any) -> Any:
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

    def naive(self, head: Any, embeddings: Any, states: Any, row: Any, steps: Any) -> list[Any]:
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

            def oracle(logits: Any, depth: int) -> Any:
                want = head.readout(steps[depth - 1][0, text.roots - 1])
                torch.testing.assert_close(logits[:, 0], want @ table.T,
                                           rtol=1e-3, atol=1e-3)
                truth = torch.full_like(logits, -50.0)
                return truth.scatter(2, text.token_at(depth)[:, None, None], 0.0)

            drafts = EagleDrafting(head, everything, text).tree(oracle, 1, 3, 3)
            self.assertEqual(drafts.accepted(3).tolist(), [3, 3, 3, 3, 3])


class BlockTest(unittest.TestCase):
    def naive(self, drafter: Any, anchor: Any, mask: Any, taps: Any, at: Any) -> Any:
        """One block over its own context only."""
        shape = drafter.shape
        x = torch.cat((anchor[None], mask.expand(shape.block - 1, -1)))
        context = drafter.hidden_norm(drafter.fc(taps[:at].flatten(-2)))
        positions = torch.arange(at + shape.block)

        def turned(x: Any, norm: Any, where: Any) -> Any:
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
