"""Texts in the making: what is fed next, and when a text is over."""

import random
from collections import Counter, deque
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


class LoopDetector:
    """Counts n-grams while a text grows."""

    def __init__(self, ngram: int, repeats: int) -> None:
        self._ngram, self._repeats = ngram, repeats
        self._counts: Counter[tuple[int, ...]] = Counter()

    def is_loop(self, ids: list[int]) -> bool:
        """Whether the last n-gram now occurred `repeats` times. `ids` has grown
        by one token since the last call."""
        if len(ids) < self._ngram:
            return False
        gram = tuple(ids[-self._ngram:])
        self._counts[gram] += 1
        return self._counts[gram] >= self._repeats


class AnswerAuthor:
    """Follows a given prompt with an answer.

    `ids` are the tokens fed so far, `pending` is the one to feed next. `advance`
    takes the token drawn after `pending` and says whether the text goes on.
    """

    rng: random.Random  # of authors whose tokens are drawn

    def __init__(self, name: str, prompt: list[int], temperature: float, seed: int,
                 answer_limit: int, ends: frozenset[int]) -> None:
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
        assert self.answer_at is not None
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
    """Invents the question after a stem, then the answer."""

    def __init__(self, number: int, seed: int, domain: str, stem: list[int], temperature: float,
                 chat: ChatFormat, limits: Limits) -> None:
        super().__init__(str(number), chat.prefix + stem, temperature, seed,
                         limits.answer, chat.ends)
        self.rng = random.Random(f"draws/{seed}/{number}")
        self.number, self.domain = number, domain
        self.chat, self.limits = chat, limits
        self.temperature, self.min_p = 1.0, limits.min_p
        self.answer_at = None
        self._keeps_loops = self.rng.random() < limits.loops_kept
        self._in_question = LoopDetector(6, 2)
        self._in_answer = LoopDetector(limits.ngram, limits.repeats)

    def _goes_on(self) -> bool:
        if self.answer_at is None:
            if self._question_is_over():
                self._begin_answer()
            return True
        if not super()._goes_on():
            return False
        loops = self._in_answer.is_loop(self.ids[self.answer_at:])
        if loops and not self._keeps_loops:
            self.ending = "loop"
        return not self.ending

    def _question_is_over(self) -> bool:
        question = self.ids[len(self.chat.prefix):]
        return (self.pending in self.chat.ends
                or len(question) >= self.limits.question
                or self._in_question.is_loop(question))

    def _begin_answer(self) -> None:
        self.forced = deque(self.chat.turn)
        self.pending = self.forced.popleft()
        self.answer_at = len(self.ids) + len(self.chat.turn)
        self.temperature, self.min_p = self.answer_temperature, 0.0

    def record(self) -> dict:
        return super().record() | {"number": self.number, "domain": self.domain}
