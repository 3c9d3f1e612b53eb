#!/usr/bin/env python3
"""A drafter with a selectable fault, for tests of coordinators.

    PYTHONPATH=STUBS scripted_drafter.py FAULT ADDRESS VOCAB_SIZE FINGERPRINT

Without the fault it behaves as deploy/examples/python_drafter.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] /
                       "deploy/examples/python_drafter"))

import drafter  # noqa: E402


def cycle(answer, **_):
    answer.tree.parent[-1] = len(answer.tree.parent) + 3


def wrong_token(answer, model):
    answer.tree.token[-1] = model.vocab_size + 5


def not_a_number(answer, **_):
    answer.tree.log_prob[-1] = float("nan")


def ragged(answer, **_):
    answer.tree.parent.append(0)


def huge(answer, **_):
    size = 100_000
    answer.tree.token.extend([1] * size)
    answer.tree.parent.extend([0] * size)
    answer.tree.log_prob.extend([-1.0] * size)


def wrong_root(answer, **_):
    answer.tree.token[0] += 1


def wrong_round(answer, **_):
    answer.round += 1


def wrong_length(answer, **_):
    answer.committed_length += 1


def slow(**_):
    time.sleep(0.2)


def end_stream(**_):
    raise RuntimeError("scripted")


FAULTS = {fault.__name__: fault for fault in (
    cycle, wrong_token, not_a_number, ragged, huge, wrong_root, wrong_round, wrong_length, slow,
    end_stream)}


class ScriptedDrafter(drafter.Drafter):
    fault = None

    def propose(self, texts, message):
        answer = super().propose(texts, message)
        if message.max_nodes > 0:
            self.fault(answer=answer, model=self.model)
        return answer


if __name__ == "__main__":
    ScriptedDrafter.fault = staticmethod(FAULTS[sys.argv[1]])
    drafter.Drafter = ScriptedDrafter
    drafter.main(*sys.argv[2:])
