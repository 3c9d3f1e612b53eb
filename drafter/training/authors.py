"""Texts in the making: what is fed next, and when a text is over."""

import random
from collections import deque
from dataclasses import dataclass

from chat_format import ChatFormat


@dataclass(frozen=True)
class Limits:
    """Lengths in tokens, and when an answer counts as a loop."""
    question: int = 72
    answer: int = 256
    ngram: int = 8
    repeats: int = 3
    loops_kept: float = 0.1
    min_p: float = 0.05

    @property
    def text(self) -> int:
        return self.question + self.answer


def is_loop(ids: list[int], ngram: int, repeats: int) -> bool:
    """Whether the last `ngram` tokens have now occurred `repeats` times."""
    tail = ids[-ngram:]
    last = len(ids) - ngram
    return last >= 0 and sum(
        ids[i:i + ngram] == tail for i in range(last + 1)) >= repeats


class AnswerAuthor:
    """Follows a given prompt with an answer.

    `ids` are the tokens fed so far, `pending` is the one to feed next. `advance`
    takes the token drawn after `pending` and says whether the text goes on.
    """

    def __init__(self, name: str, prompt: list[int], temperature: float,
                 seed: int, answer_limit: int, ends: frozenset[int]):
        self.name, self.seed, self.ends = name, seed, ends
        self.temperature = self.answer_temperature = temperature
        self.min_p = 0.0
        self.answer_limit = answer_limit
        self.answer_at: int | None = len(prompt)
        self.ids: list[int] = []
        self.prompt = tuple(prompt)
        self.forced = deque(prompt)
        self.pending = self.forced.popleft()
        self.ending = ""

    def skip(self, count: int) -> None:
        """The next `count` tokens have been fed by someone else."""
        for _ in range(count):
            self.ids.append(self.pending)
            self.pending = self.forced.popleft()

    def advance(self, drawn: int) -> bool:
        self.ids.append(self.pending)
        if self.forced:
            self.pending = self.forced.popleft()
            return True
        self.pending = drawn
        return self._goes_on()

    def _goes_on(self) -> bool:
        length = len(self.ids) - self.answer_at
        if length > 0 and self.ids[-1] in self.ends:
            self.ending = "end"
        elif length >= self.answer_limit:
            self.ending = "limit"
        return not self.ending

    def record(self) -> dict:
        return {"name": self.name, "answer_at": self.answer_at,
                "temperature": self.answer_temperature, "seed": self.seed,
                "ending": self.ending}


class SelfAuthor(AnswerAuthor):
    """Invents the question behind a stem, then the answer."""

    def __init__(self, number: int, seed: int, domain: str, stem: list[int],
                 temperature: float, chat: ChatFormat, limits: Limits):
        super().__init__(str(number), chat.prefix + stem, temperature, seed,
                         limits.answer, chat.ends)
        self.rng = random.Random(f"draws/{seed}/{number}")
        self.number, self.domain = number, domain
        self.chat, self.limits = chat, limits
        self.temperature, self.min_p = 1.0, limits.min_p
        self.answer_at = None
        self.keeps_loops = self.rng.random() < limits.loops_kept

    def _goes_on(self) -> bool:
        if self.answer_at is None:
            if self._question_is_over():
                self._begin_answer()
            return True
        if not super()._goes_on():
            return False
        if not self.keeps_loops and is_loop(
                self.ids[self.answer_at:], self.limits.ngram,
                self.limits.repeats):
            self.ending = "loop"
        return not self.ending

    def _question_is_over(self) -> bool:
        question = self.ids[len(self.chat.prefix):]
        return (self.pending in self.chat.ends
                or len(question) >= self.limits.question
                or is_loop(question, 6, 2))

    def _begin_answer(self) -> None:
        self.forced = deque(self.chat.turn)
        self.pending = self.forced.popleft()
        self.answer_at = len(self.ids) + len(self.chat.turn)
        self.temperature, self.min_p = self.answer_temperature, 0.0

    def record(self) -> dict:
        return super().record() | {"number": self.number, "domain": self.domain}
