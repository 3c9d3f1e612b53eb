"""The chat template, cut open at the user's turn."""

import json
import pathlib
from dataclasses import dataclass

from transformers import AutoTokenizer

_MARK = "ESPALIER-USER-TURN"


@dataclass(frozen=True)
class ChatFormat:
    """Tokens around a user's turn: prefix + question + turn + answer + end."""
    prefix: list[int]
    turn: list[int]
    ends: frozenset[int]

    def prompt(self, question: list[int]) -> list[int]:
        return self.prefix + question + self.turn


class ChatTokenizer:
    def __init__(self, folder: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self.format = self._open_template(_end_tokens(folder))

    def encode(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False).input_ids

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids)

    def special_tokens(self) -> dict[str, int]:
        """Added tokens that text does not spell out, by name."""
        return {token.content: number for number, token
                in self._tokenizer.added_tokens_decoder.items()
                if token.special}

    def _open_template(self, ends: list[int]) -> ChatFormat:
        text = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": _MARK}], tokenize=False,
            add_generation_prompt=True, enable_thinking=False)
        before, mark, after = text.partition(_MARK)
        if not mark:
            raise ValueError("the chat template drops the user's message")
        ends = ends or [self._tokenizer.eos_token_id]
        return ChatFormat(self.encode(before), self.encode(after),
                          frozenset(ends))


def _end_tokens(folder: str) -> list[int]:
    for name in ("generation_config.json", "config.json"):
        path = pathlib.Path(folder, name)
        ends = path.exists() and json.loads(path.read_text()).get("eos_token_id")
        if ends:
            return ends if isinstance(ends, list) else [ends]
    return []
