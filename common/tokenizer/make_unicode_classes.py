#!/usr/bin/env python3
"""Writes unicode_class_runs.inc: the character classes of the pinned `tokenizers`.

  pip install tokenizers==0.23.3 && python3 make_unicode_classes.py

The pre-tokenizer must classify characters exactly as the package does, which
has three sources: Oniguruma's tables for regular expressions, Rust's
char::is_numeric for Digits, and the regex crate's \\w for added tokens that are
single words. So this script asks the package about every code
point and reads no Unicode file.
"""
import pathlib
from collections.abc import Iterator
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

PINNED = "0.23.3"
# The classes in the order of CharClass in unicode_classes.h; all others are kOther.
CLASSES = [r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{M}",
           r"\p{N}", r"\p{P}", r"\p{S}", r"\s"]
NUMERIC_BIT = 16
WORD_BIT = 32
PER_LINE = 8
BLOCK = 4096


def taken(pre_tokenizer: Any, text: str) -> set[int]:
    """Indices of the characters of `text` that are not in any word."""
    rest = set(range(len(text)))
    for _, (begin, end) in pre_tokenizer.pre_tokenize_str(text):
        rest.difference_update(range(begin, end))
    return rest


def word_probe() -> Any:
    """A tokenizer in which only a token that is no part of a word has an id."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_tokens([AddedToken("~", single_word=True, normalized=False)])
    return tokenizer


def classes_of(text: str, probe: Any = word_probe()) -> list[int]:
    found = [len(CLASSES)] * len(text)
    for number, name in enumerate(CLASSES):
        for i in taken(pre_tokenizers.Split(Regex(name), "removed"), text):
            assert found[i] == len(CLASSES), (name, text[i])
            found[i] = number
    digits = pre_tokenizers.Digits(individual_digits=True)
    for i, char in enumerate(text):
        if len(digits.pre_tokenize_str("a" + char)) == 2:
            found[i] |= NUMERIC_BIT
        if char != "~" and not probe.encode(char + "~").ids:
            found[i] |= WORD_BIT
    return found


def runs() -> Iterator[Any]:
    previous = None
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for begin in range(0, len(codes), BLOCK):
        block = codes[begin : begin + BLOCK]
        for code, value in zip(block, classes_of("".join(map(chr, block)))):
            if value != previous:
                yield code << 6 | value
                previous = value


def main() -> None:
    if tokenizers.__version__ != PINNED:
        raise SystemExit(f"needs tokenizers=={PINNED}")
    entries = [f"0x{run:x}" for run in runs()]
    lines = [
        "    " + ", ".join(entries[i : i + PER_LINE]) + ","
        for i in range(0, len(entries), PER_LINE)
    ]
    text = (
        f"// Made by make_unicode_classes.py from tokenizers {PINNED}: where each run\n"
        "// of one class begins, as code point << 6 | word << 5 | numeric << 4 | class.\n"
        + "\n".join(lines)
        + "\n"
    )
    target = pathlib.Path(__file__).with_name("unicode_class_runs.inc")
    target.write_text(text)
    print(f"{target}: {len(entries)} runs")


if __name__ == "__main__":
    main()
