#!/usr/bin/env python3
"""Writes testdata/sentencepiece: a small BPE model of the `sentencepiece` package
(pieces, scores and types, as GGUF files have them), and its ids of texts.txt.

  pip install sentencepiece==0.2.3 && python3 make_sentencepiece_goldens.py
"""
import io
import json
import pathlib
from typing import Any

import sentencepiece

import golden_texts
import training_text
from make_goldens import NUM_TEXTS_SMALL, SEED, digest

PINNED = "0.2.3"
FOLDER = pathlib.Path(__file__).with_name("testdata") / "sentencepiece"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def train() -> Any:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training_text.LINES), model_writer=model,
        model_type="bpe", vocab_size=520, byte_fallback=True,
        character_coverage=0.995, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=True,
        split_digits=False, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def type_of(processor: Any, i: int) -> int:
    if processor.is_unknown(i):
        return UNKNOWN
    if processor.is_control(i):
        return CONTROL
    return BYTE if processor.is_byte(i) else NORMAL


def main() -> None:
    if sentencepiece.__version__ != PINNED:
        raise SystemExit(f"needs sentencepiece=={PINNED}")
    processor = train()
    FOLDER.mkdir(parents=True, exist_ok=True)
    pieces = [[processor.id_to_piece(i), processor.get_score(i),
               type_of(processor, i)] for i in range(len(processor))]
    (FOLDER / "pieces.json").write_text(
        json.dumps(pieces, ensure_ascii=False) + "\n")
    lines = []
    for data in golden_texts.texts(SEED, NUM_TEXTS_SMALL):
        text = data.decode("utf-8", "replace")
        lines.append(f"{digest(processor.encode(text)):08x}")
    (FOLDER / "ids.answers").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
