#!/usr/bin/env python3
"""A drafter with a selectable fault, for tests of coordinators.

    PYTHONPATH=STUBS scripted_drafter.py FAULT ADDRESS VOCAB_SIZE FINGERPRINT

Without the fault it behaves as deploy/examples/python_drafter.
"""

import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] /
                       "deploy/examples/python_drafter"))

import drafter  # noqa: E402


def cycle(answer: Any, **_: Any) -> None:
    answer.tree.parent[-1] = len(answer.tree.parent) + 3


def wrong_token(answer: Any, model: Any) -> None:
    answer.tree.token[-1] = model.vocab_size + 5


def not_a_number(answer: Any, **_: Any) -> None:
    answer.tree.log_prob[-1] = float("nan")


def ragged(answer: Any, **_: Any) -> None:
    answer.tree.parent.append(0)


def huge(answer: Any, **_: Any) -> None:
    size = 100_000
    answer.tree.token.extend([1] * size)
    answer.tree.parent.extend([0] * size)
    answer.tree.log_prob.extend([-1.0] * size)


def wrong_root(answer: Any, **_: Any) -> None:
    answer.tree.token[0] += 1


def wrong_round(answer: Any, **_: Any) -> None:
    answer.round += 1


def wrong_length(answer: Any, **_: Any) -> None:
    answer.committed_length += 1


def slow(**_: Any) -> None:
    time.sleep(0.2)


def end_stream(**_: Any) -> None:
    raise RuntimeError("scripted")


FAULTS = {fault.__name__: fault for fault in (
    cycle, wrong_token, not_a_number, ragged, huge, wrong_root, wrong_round, wrong_length, slow,
    end_stream)}


class ScriptedDrafter(drafter.Drafter):
    fault: Callable[..., None]

    def propose(self, texts: dict[int, list[int]], message: Any) -> Any:
        answer = super().propose(texts, message)
        if message.max_nodes > 0:
            self.fault(answer=answer, model=self.model)
        return answer


if __name__ == "__main__":
    ScriptedDrafter.fault = staticmethod(FAULTS[sys.argv[1]])
    drafter.main(sys.argv[2], sys.argv[3], sys.argv[4], ScriptedDrafter)
