#!/usr/bin/env python3
"""Writes normal_form_tables.inc and lower_case_pairs.inc: the normalization
forms and the lower case of the pinned `tokenizers`.

  pip install tokenizers==0.23.3 && python3 make_normal_form_tables.py

Candidates come from Python's own tables, and the package decides, because the
two have different versions of Unicode.
"""
import pathlib
import unicodedata
from collections.abc import Generator, Iterable, Iterator
from typing import Any

import tokenizers
from tokenizers.normalizers import NFC, NFD, NFKD, Lowercase

PINNED = "0.23.3"
HIGHEST = "\u0345"  # the only character of the highest combining class, 240
HANGUL = range(0xAC00, 0xD7A4)  # by arithmetic


def code_points() -> Generator[Any, None, None]:
    return (c for c in range(0x110000)
            if c not in HANGUL and not 0xD800 <= c < 0xE000)


def decompositions() -> Iterator[str]:
    """(whole, first, second or 0, whether NFC puts it together again)."""
    for code in code_points():
        mapping = unicodedata.decomposition(chr(code))
        if not mapping or mapping.startswith("<"):
            continue
        if NFD().normalize_str(chr(code)) == chr(code):
            continue
        first, second = ([int(part, 16) for part in mapping.split()] + [0])[:2]
        pair = chr(first) + (chr(second) if second else "")
        composes = int(NFC().normalize_str(pair) == chr(code))
        yield f"{{0x{code:x}, 0x{first:x}, 0x{second:x}, {composes}}},"


def compatibilities() -> tuple[list[str], list[str]]:
    """(whole, where its characters begin, their number) and all characters."""
    entries: list[str] = []
    characters: list[str] = []
    for code in code_points():
        parts = NFKD().normalize_str(chr(code))
        if parts == NFD().normalize_str(chr(code)):
            continue
        entries.append(f"{{0x{code:x}, {len(characters)}, {len(parts)}}},")
        characters += [f"0x{ord(part):x}," for part in parts]
    return entries, characters


def lower_cases() -> Iterator[str]:
    """(upper, lower); lower_case.cc has the only one of two characters."""
    for code in code_points():
        lower = Lowercase().normalize_str(chr(code))
        if lower == chr(code):
            continue
        assert (len(lower) == 1) == (code != 0x130)
        if len(lower) == 1:
            yield f"{{0x{code:x}, 0x{ord(lower):x}}},"


def combining_class(code: int) -> int:
    value = unicodedata.combining(chr(code))
    moves = NFD().normalize_str(HIGHEST + chr(code))[0] != HIGHEST
    return value if moves or chr(code) == HIGHEST else 0


def class_runs() -> Iterator[str]:
    """(begin, end, class) of the combining characters."""
    begin, previous, run_class = 0, -1, 0
    for code in code_points():
        value = combining_class(code)
        if value != run_class or code != previous + 1:
            if run_class:
                yield f"{{0x{begin:x}, 0x{previous + 1:x}, {run_class}}},"
            begin, run_class = code, value
        previous = code


def table(declaration: str, entries: Iterable[str]) -> str:
    lines, line = [declaration + " = {"], "   "
    for entry in entries:
        if len(line) + 1 + len(entry) > 80:
            lines.append(line)
            line = "   "
        line += " " + entry
    return "\n".join(lines + [line, "};\n"])


def write(name: str, text: str) -> None:
    pathlib.Path(__file__).with_name(name).write_text(text)


def main() -> None:
    if tokenizers.__version__ != PINNED:
        raise SystemExit(f"needs tokenizers=={PINNED}")
    made_by = f"// Made by {pathlib.Path(__file__).name} from tokenizers {PINNED}.\n"
    entries, characters = compatibilities()
    write("normal_form_tables.inc", made_by
          + table("constexpr Decomposition kDecompositions[]",
                  decompositions())
          + table("constexpr Compatibility kCompatibilities[]", entries)
          + table("constexpr char32_t kCompatible[]", characters)
          + table("constexpr ClassRun kClassRuns[]", class_runs()))
    write("lower_case_pairs.inc",
          made_by + table("constexpr LetterCase kLetterCases[]", lower_cases()))


if __name__ == "__main__":
    main()
