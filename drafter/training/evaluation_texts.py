"""Texts to judge drafters by: the target's answers, a function of the seed.

Under the coupled walk what the engine emits does not depend on who drafts. So a
stored answer can be judged for any drafter, at every position.
"""

import json
from dataclasses import dataclass

import torch

from authors import AnswerAuthor
from batch_writer import BatchWriter, draw_coupled
from chat_format import ChatTokenizer
from corpus import Corpus, CorpusWriter, Text, prompt_hash
from target_model import Target

_SLOTS = 32


@dataclass(frozen=True)
class Prompt:
    name: str
    ids: list[int]


def held_out_prompts(corpus: Corpus, share: float, domain: str | None,
                     count: int) -> list[Prompt]:
    """Of the texts no trainer has seen, evenly spread."""
    texts = sorted((t for t in corpus.texts if t.is_held_out(share)
                    and domain in (None, t.record["domain"])),
                   key=lambda t: t.record["number"])
    count = min(count, len(texts))
    chosen = [texts[i * len(texts) // count] for i in range(count)]
    return [Prompt(t.record["name"],
                   corpus.read(t, "ids")[:t.answer_at].tolist())
            for t in chosen]


def suite_prompts(path: str, tokenizer: ChatTokenizer, count: int
                  ) -> list[Prompt]:
    """Of a prompt suite: JSON lines with an `id` and a `chat` or a `prompt`."""
    prompts = []
    with open(path) as lines:
        for line in map(json.loads, lines):
            ids = (tokenizer.format.prompt(tokenizer.encode(line["chat"]))
                   if "chat" in line else tokenizer.encode(line["prompt"]))
            prompts.append(Prompt(line["id"], ids))
    return prompts[:count]


def write_texts(target: Target, tokenizer: ChatTokenizer, folder: str,
                taps: tuple[int, ...], prompts: list[Prompt],
                temperatures: list[float], answer_limit: int
                ) -> tuple[Corpus, list[Text]]:
    """The answers to the prompts at each temperature; writes what `folder`
    does not have yet."""
    out = CorpusWriter(folder, {
        "taps": taps, "prefix_length": 0, "answer_limit": answer_limit,
        "dtype": str(target.dtype)}, worker=0)
    authors = [AnswerAuthor(p.name, p.ids, t, 1000 + i, answer_limit,
                            tokenizer.format.ends)
               for t in temperatures for i, p in enumerate(prompts)]
    wanted = {(prompt_hash(torch.tensor(list(a.prompt)), len(a.prompt)),
               a.temperature, a.seed): a for a in authors}
    done = {_key(t) for t in Corpus(folder).texts}
    missing = [a for key, a in wanted.items() if key not in done]
    if missing:
        capacity = max(len(a.prompt) for a in missing) + answer_limit + 1
        writer = BatchWriter(target, taps, min(_SLOTS, len(missing)), capacity)
        for text in writer.write(iter(missing), draw_coupled):
            out.add(text)
        out.flush()
    corpus = Corpus(folder)
    return corpus, [t for t in corpus.texts if _key(t) in wanted
                    and t.length - t.answer_at >= 2]


def _key(text: Text) -> tuple[str, float, int]:
    return (text.record["prompt_hash"], text.record["temperature"],
            text.record["seed"])
