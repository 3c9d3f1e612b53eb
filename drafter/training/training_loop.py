"""The loop of both trainers: schedule, log, checkpoint, resume.

Every random choice of a step is drawn from (seed, step) and the order of the
batches from (seed, epoch), so a checkpoint needs no generator states and a run
that was stopped goes on with the same bits.
"""

import ctypes
import json
import math
import pathlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from corpus import Text

# (texts of a batch, step) -> loss, tokens in it.
Loss = Callable[[list[Text], int], tuple[Tensor, int]]
# How many texts, at most -> what goes into the log.
Evaluate = Callable[[int | None], dict]


@dataclass(frozen=True)
class Recipe:
    """What a resumed run must have in common with its beginning."""
    steps: int
    rate: float
    warmup: int
    weight_decay: float
    clip: float
    settings: dict


@dataclass(frozen=True)
class Rhythm:
    save_every: int
    evaluate_every: int
    evaluate_texts: int = 60


def give_back_memory() -> None:
    """Batches of ever other sizes leave gaps that glibc keeps: gigabytes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Trainer:
    def __init__(self, model: nn.Module, folder: str, recipe: Recipe, rhythm: Rhythm, loss: Loss,
                 evaluate: Evaluate, start_from: str | None = None) -> None:
        """Goes on from the checkpoint in `folder`, if there is one; else begins
        with the weights of the checkpoint `start_from`, if that is given.

        Raises ValueError if the folder's was made by another recipe.
        """
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._model, self._loss, self._evaluate = model, loss, evaluate
        self.recipe, self._rhythm = recipe, rhythm
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() <= 1]
        self._optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": recipe.weight_decay},
             {"params": vectors, "weight_decay": 0.0}],
            lr=recipe.rate, betas=(0.9, 0.95), fused=True)
        self.step, self._tokens, self._seconds = 0, 0, 0.0
        if self._checkpoint.exists():
            self._resume()
        elif start_from is not None:
            state = torch.load(start_from, weights_only=True)
            model.load_state_dict(state["model"])

    def run(self, batches: Iterator[list[Text]], until: int | None = None
            ) -> None:
        """Trains up to step `until` (the end). `batches` starts at step 0."""
        until = min(until or self.recipe.steps, self.recipe.steps)
        for texts in islice(batches, self.step, until):
            self._log(self._train(texts))
            if self.step % self._rhythm.save_every == 0:
                self._save()
                give_back_memory()
        self._save()

    def _train(self, texts: list[Text]) -> dict:
        started = time.monotonic()
        rate = self.recipe.rate * self._schedule()
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        loss, tokens = self._loss(texts, self.step)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._model.parameters(),
                                        self.recipe.clip)
        self._optimizer.step()
        self._optimizer.zero_grad()
        record = {"loss": loss.item(), "rate": rate, "norm": norm.item()}
        if not math.isfinite(record["norm"]):
            raise FloatingPointError(
                f"step {self.step}: loss {record['loss']}; the last checkpoint "
                "is sound")
        self.step, self._tokens = self.step + 1, self._tokens + tokens
        self._seconds += time.monotonic() - started
        return record

    def _schedule(self) -> float:
        """Linear warm-up, then a cosine down to a fiftieth."""
        if self.step < self.recipe.warmup:
            return (self.step + 1) / self.recipe.warmup
        done = self.step / self.recipe.steps
        return max(0.02, 0.5 * (1 + math.cos(math.pi * done)))

    def _log(self, record: dict) -> None:
        record = {"step": self.step, "steps": self.recipe.steps} | record | {
            "tokens": self._tokens, "minutes": self._seconds / 60,
            "tokens_per_s": self._tokens / max(self._seconds, 1e-9)}
        last = self.step == self.recipe.steps
        if last or self.step % self._rhythm.evaluate_every == 0:
            with torch.no_grad():
                record |= self._evaluate(
                    None if last else self._rhythm.evaluate_texts)
            print(json.dumps(record), flush=True)
        with open(self.folder / "log.jsonl", "a") as log:
            log.write(json.dumps(record) + "\n")

    @property
    def _checkpoint(self) -> pathlib.Path:
        return self.folder / "checkpoint.pt"

    def _save(self) -> None:
        partial = self._checkpoint.with_suffix(".partial")
        torch.save({"recipe": asdict(self.recipe), "step": self.step,
                    "tokens": self._tokens, "seconds": self._seconds,
                    "model": self._model.state_dict(),
                    "optimizer": self._optimizer.state_dict()}, partial)
        partial.replace(self._checkpoint)

    def _resume(self) -> None:
        state = torch.load(self._checkpoint, weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise ValueError(f"{self._checkpoint} is of another recipe:\n"
                             f"{state['recipe']}\n{asdict(self.recipe)}")
        self.step, self._tokens = state["step"], state["tokens"]
        self._seconds = state["seconds"]
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._forget_later_lines()

    def _forget_later_lines(self) -> None:
        """The log may be ahead of a checkpoint that a kill left behind."""
        path = self.folder / "log.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines if json.loads(line)["step"] <= self.step]
        path.write_text("".join(line + "\n" for line in kept))
