"""Texts of the target on disk: a folder of shards and what they all share.

    corpus.json                     model, taps, prefix length, seed, ...
    shard-WORKER-NUMBER.safetensors
        ids    [N] int32            tokens of its texts, end to end
        best   [N] int32            the target's most likely next token
        states [N, taps + 1, H]     bfloat16, unless stored without
        metadata "texts"            one record per text: start, length, ...
"""

import hashlib
import json
import os
import pathlib
from dataclasses import dataclass

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from batch_writer import WrittenText


@dataclass(frozen=True)
class Text:
    """One text of a corpus; `shard` and `start` say where it lies."""
    shard: pathlib.Path
    start: int
    length: int
    answer_at: int
    record: dict

    def is_held_out(self, share: float) -> bool:
        """By a hash of the prompt: equal questions fall on the same side."""
        return int(self.record["prompt_hash"], 16) < share * 16 ** 12


def prompt_hash(ids: Tensor, answer_at: int) -> str:
    prompt = ids[:answer_at].to(torch.int32).numpy().tobytes()
    return hashlib.blake2b(prompt, digest_size=6).hexdigest()


def write_json(path: pathlib.Path, value: dict) -> None:
    partial = path.with_suffix(f".partial-{os.getpid()}")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    partial.replace(path)


class CorpusWriter:
    """Appends texts; what is not yet in a shard is lost with the process."""

    def __init__(self, folder: str, about: dict, worker: int, shard_tokens: int = 50_000,
                 keep_states: bool = True) -> None:
        self._folder = pathlib.Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._about(about | {"has_states": keep_states})
        self._worker, self._shard_tokens = worker, shard_tokens
        self._keep_states = keep_states
        self._next = 1 + max(
            (int(p.stem.split("-")[2]) for p
             in self._folder.glob(f"shard-{worker}-*.safetensors")), default=-1)
        self._texts: list[WrittenText] = []

    def add(self, text: WrittenText) -> None:
        self._texts.append(text)
        if sum(len(t.ids) for t in self._texts) >= self._shard_tokens:
            self.flush()

    def flush(self) -> None:
        if not self._texts:
            return
        tensors = {"ids": torch.cat([t.ids for t in self._texts]),
                   "best": torch.cat([t.best for t in self._texts])}
        if self._keep_states:
            tensors["states"] = torch.cat([t.states for t in self._texts])
        path = self._folder / (
            f"shard-{self._worker}-{self._next:05}.safetensors")
        partial = path.with_suffix(".partial")
        save_file(tensors, partial, {"texts": json.dumps(self._records())})
        partial.replace(path)
        self._next += 1
        self._texts = []

    def _records(self) -> list[dict]:
        records, start = [], 0
        for text in self._texts:
            record = text.author.record()
            records.append(record | {
                "start": start, "length": len(text.ids), "prompt_hash":
                prompt_hash(text.ids, record["answer_at"])})
            start += len(text.ids)
        return records

    def _about(self, about: dict) -> None:
        path = self._folder / "corpus.json"
        if not path.exists():
            write_json(path, about)
        was, now = json.loads(path.read_text()), json.loads(json.dumps(about))
        if was != now:
            differing = [k for k in was | now if was.get(k) != now.get(k)]
            raise ValueError(f"{path} was made with other settings: "
                             + ", ".join(differing))


class Corpus:
    def __init__(self, folder: str) -> None:
        """Raises FileNotFoundError if there is none."""
        self.folder = pathlib.Path(folder)
        self.about = json.loads((self.folder / "corpus.json").read_text())
        self._files: dict[pathlib.Path, safe_open] = {}
        self.texts: list[Text] = []
        for path in sorted(self.folder.glob("shard-*.safetensors")):
            self._files[path] = safe_open(path, "pt")
            records = json.loads(self._files[path].metadata()["texts"])
            self.texts += [Text(path, r["start"], r["length"], r["answer_at"], r)
                           for r in records]

    @property
    def taps(self) -> tuple[int, ...]:
        return tuple(self.about["taps"])

    @property
    def prefix_length(self) -> int:
        """Tokens of the template that every text begins with."""
        return self.about["prefix_length"]

    @property
    def has_states(self) -> bool:
        return self.about["has_states"]

    def read(self, text: Text, column: str) -> Tensor:
        """Rows of `ids`, `best` or `states`."""
        rows = self._files[text.shard].get_slice(column)
        return rows[text.start:text.start + text.length]
