#!/usr/bin/env python3
"""Writes unicode_class_runs.inc: the character classes of the pinned `tokenizers`.

  pip install tokenizers==0.23.3 && python3 make_unicode_classes.py

The pre-tokenizer must classify letters, numbers and white space exactly as the
package does, which has two sources: Oniguruma's tables for the regular
expression and Rust's char::is_numeric for Digits. So this script asks the
package about every code point and reads no Unicode file.
"""
import pathlib

import tokenizers
from tokenizers import pre_tokenizers

PINNED = "0.23.3"
LETTER, NUMBER, SPACE, OTHER = range(4)  # As in unicode_classes.h.
NUMERIC_BIT = 4
PER_LINE = 8


def gpt2_class(byte_level, char):
    """Which alternative of the GPT-2 pattern takes `char`."""
    if len(byte_level.pre_tokenize_str("a" + char)) == 1:
        return LETTER
    if len(byte_level.pre_tokenize_str("1" + char)) == 1:
        return NUMBER
    if len(byte_level.pre_tokenize_str("!" + char)) == 1:
        return OTHER
    return SPACE


def runs():
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    previous = None
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:  # Surrogates are not in valid text.
            continue
        char = chr(code)
        value = gpt2_class(byte_level, char)
        if len(digits.pre_tokenize_str("a" + char)) == 2:
            value |= NUMERIC_BIT
        if value != previous:
            yield code << 3 | value
            previous = value


def main():
    if tokenizers.__version__ != PINNED:
        raise SystemExit(f"needs tokenizers=={PINNED}")
    entries = [f"0x{run:x}" for run in runs()]
    lines = [
        "    " + ", ".join(entries[i : i + PER_LINE]) + ","
        for i in range(0, len(entries), PER_LINE)
    ]
    text = (
        f"// Made by make_unicode_classes.py from tokenizers {PINNED}: where each run\n"
        "// of one class begins, as code point << 3 | numeric << 2 | class.\n"
        + "\n".join(lines)
        + "\n"
    )
    target = pathlib.Path(__file__).with_name("unicode_class_runs.inc")
    target.write_text(text)
    print(f"{target}: {len(entries)} runs")


if __name__ == "__main__":
    main()
