#!/usr/bin/env python3
"""Tau of a drafter on answers of the target: the reference for the engine.

Tau is committed tokens per verification, bonus token included. The answers are
written once (to TEXTS_FOLDER) at every temperature, with the noise of the
coupled walk; every drafter is then judged on the same text.

    evaluate.py MODEL_FOLDER DRAFTER_FOLDER TEXTS_FOLDER --held-out CORPUS_FOLDER
    evaluate.py MODEL_FOLDER DRAFTER_FOLDER TEXTS_FOLDER --suite deploy/suites/math.jsonl

Prints one JSON object per temperature, walk and tree.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from block_drafter import BlockDrafter, BlockShape
from chat_format import ChatTokenizer
from checkpoint_layout import is_dflash, load_drafter, vocabulary_of
from command_line import add_machine, use_threads
from corpus import Corpus, Text
from draft_trees import (Belief, BlockDrafting, EagleDrafting, Situation,
                         Vocabulary, count_rounds)
from eagle_head import EagleHead, EagleShape
from evaluation_texts import (held_out_prompts, suite_prompts, write_texts)
from gumbel_noise import gumbel_noise
from target_model import Target

Drafting = EagleDrafting | BlockDrafting
WIDTH, DEPTH = 6, 6
# Name, candidates per node, depth, nodes.
TREES = (("chain 4", 1, 4, 4), ("tree 8", WIDTH, DEPTH, 8),
         ("tree 16", WIDTH, DEPTH, 16))


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("model", help="Hugging Face folder of the target")
    p.add_argument("drafter", help="folder with the exported drafter")
    p.add_argument("texts", help="folder of the answers; made if it is not there")
    source = p.add_mutually_exclusive_group(required=True)
    source.add_argument("--held-out", metavar="CORPUS",
                        help="prompts the trainers have not seen")
    source.add_argument("--suite", help="prompts of a suite (JSON lines)")
    p.add_argument("--share", type=float, default=0.05,
                   help="the trainers' --held-out (0.05)")
    p.add_argument("--domain", help="held-out prompts of this domain only")
    p.add_argument("--count", type=int, default=24, help="prompts (24)")
    p.add_argument("--temperatures", default=[0.0, 0.7, 1.0],
                   type=lambda s: list(map(float, s.split(","))))
    p.add_argument("--answer-limit", type=int, default=160)
    p.add_argument("--scale", type=float, default=1.0,
                   help="s of the coupled belief softmax((log p + g) / s) (1)")
    add_machine(p)
    return p


@dataclass(frozen=True)
class LoadedDrafter:
    taps: tuple[int, ...]
    vocabulary: Vocabulary
    draft: Callable[[Situation], Drafting]


def open_drafter(folder: str, target: Target) -> LoadedDrafter:
    """Raises ValueError if the file is not what its config says, or not for
    this target."""
    tensors, c = load_drafter(folder)
    if (c["hidden_size"], c["vocab_size"]) != (target.config.hidden,
                                               target.config.vocabulary):
        raise ValueError(f"{folder} is not a drafter for this target")
    tokens = vocabulary_of(tensors, c).tokens
    vocabulary = Vocabulary(target.embeddings, target.output_rows[tokens],
                            tokens)
    common = dict(hidden=c["hidden_size"], intermediate=c["intermediate_size"],
                  heads=c["num_attention_heads"],
                  kv_heads=c["num_key_value_heads"], head_dim=c["head_dim"],
                  eps=c["rms_norm_eps"], rope_theta=c["rope_theta"])
    if is_dflash(c):
        dflash = c["dflash_config"]
        layer_ids = dflash["target_layer_ids"]
        block = BlockDrafter(BlockShape(
            layers=c["num_hidden_layers"], block=c["block_size"],
            taps=len(layer_ids), **common))
        load_weights(block, tensors)
        mask = target.embeddings[dflash["mask_token_id"]]
        return LoadedDrafter(
            tuple(i + 1 for i in layer_ids), vocabulary,
            lambda text: BlockDrafting(block, mask, vocabulary, text))
    head = EagleHead(EagleShape(mode=c["espalier"]["mode"], **common))
    load_weights(head, tensors)
    taps = target.config.default_taps()
    if "eagle_config" in c:
        taps = tuple(i + 1 for i in
                     c["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    return LoadedDrafter(taps, vocabulary,
                         lambda text: EagleDrafting(head, vocabulary, text))


def load_weights(model: torch.nn.Module, tensors: dict) -> None:
    """Maps and copies of the target's rows are not parameters."""
    own = model.state_dict()
    model.load_state_dict({name: tensors[name].float() for name in own})


def beliefs(text: Text, situation: Situation, tokens: torch.Tensor,
            scale: float) -> dict[bool, Belief]:
    """By whether the drafter foresees the noise."""
    temperature = text.record["temperature"]

    def uncoupled(logits: torch.Tensor, depth: int) -> torch.Tensor:
        return (logits / (temperature or 1.0)).log_softmax(-1)

    if temperature == 0:
        return {False: uncoupled}
    first = int(situation.roots[0])
    noise = gumbel_noise(text.record["seed"], torch.arange(
        first, len(situation.ids) + DEPTH), tokens)

    def coupled(logits: torch.Tensor, depth: int) -> torch.Tensor:
        foreseen = noise[situation.roots + depth - first][:, None]
        return ((uncoupled(logits, depth) + foreseen) / scale).log_softmax(-1)

    return {False: uncoupled, True: coupled}


@dataclass
class Tally:
    texts: int = 0
    tokens: int = 0
    rounds: int = 0
    # Roots at which at least d nodes of a path were right, d = 0, 1, ...
    reached: list[int] = field(default_factory=lambda: [0] * (DEPTH + 1))

    def add(self, accepted: list[int]) -> None:
        tokens, rounds = count_rounds(accepted)
        self.texts += 1
        self.tokens += tokens
        self.rounds += rounds
        for d in range(DEPTH + 1):
            self.reached[d] += sum(a >= d for a in accepted)

    def row(self, depth: int) -> dict:
        """`by_depth`: share of trees that hold the d-th token, if they hold
        those before it."""
        pairs = zip(self.reached[:depth], self.reached[1:])
        return {"tau": round(self.tokens / self.rounds, 3),
                "by_depth": [round(b / a, 3) for a, b in pairs if a],
                "texts": self.texts, "tokens": self.tokens,
                "rounds": self.rounds}


def judge(drafter: LoadedDrafter, corpus: Corpus, texts: list[Text],
          scale: float) -> Iterator[dict]:
    tallies: dict[tuple, Tally] = defaultdict(Tally)
    for text in texts:
        ids = corpus.read(text, "ids").long()
        situation = Situation(ids, corpus.read(text, "states"),
                              torch.arange(text.answer_at, len(ids) - 1))
        drafting = drafter.draft(situation)
        for coupled, belief in beliefs(text, situation,
                                       drafter.vocabulary.tokens,
                                       scale).items():
            for name, width, depth, nodes in TREES:
                drafts = drafting.tree(belief, width, depth, nodes)
                tallies[text.record["temperature"], coupled, name].add(
                    drafts.accepted(nodes).tolist())
    depths = {name: depth for name, _, depth, _ in TREES}
    for (temperature, coupled, name), tally in sorted(tallies.items()):
        yield {"temperature": temperature, "coupled": coupled,
               "tree": name} | tally.row(depths[name])


@torch.no_grad()
def main(argv: list[str] | None = None) -> list[dict]:
    args = parser().parse_args(argv)
    use_threads(args.threads)
    target = Target(args.model, device=args.device)
    tokenizer = ChatTokenizer(args.model)
    prompts = (suite_prompts(args.suite, tokenizer, args.count) if args.suite
               else held_out_prompts(Corpus(args.held_out), args.share,
                                     args.domain, args.count))
    taps = open_drafter(args.drafter, target).taps
    corpus, texts = write_texts(target, tokenizer, args.texts, taps, prompts,
                                args.temperatures, args.answer_limit)
    if args.device != "cpu":
        target = Target(args.model)  # trees are built on the CPU
    rows = list(judge(open_drafter(args.drafter, target), corpus, texts,
                      args.scale))
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


if __name__ == "__main__":
    main()
