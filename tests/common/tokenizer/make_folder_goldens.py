#!/usr/bin/env python3
"""Writes testdata/folders.json: folders with several files that speak of special
tokens, often against each other, and what AutoTokenizer makes of them.

  pip install transformers==5.24.0 tokenizers==0.23.3
  python3 make_folder_goldens.py

Every folder has the tokenizer.json of testdata/small, with other added tokens.
"""
import json
import pathlib
import random
import tempfile
from typing import Any

import tokenizers
import transformers

PINNED = {"transformers": "5.24.0", "tokenizers": "0.23.3"}
NUM_FOLDERS = 160
TESTDATA = pathlib.Path(__file__).with_name("testdata")
# Some are tokens of the vocabulary, one is part of another.
CONTENTS = ["<a>", "<b>", "<|end|>", "<|end|>x", "pear", "ab", "<é>", "<s>"]
TEXTS = ["pear<a>ab<b> <|end|>x<é> y", "<s> ab pear", "<|endoftext|><a> <b>",
         " <s>\tpear <|end|> x"]
NAMES = ["bos_token", "eos_token", "unk_token", "pad_token", "mask_token",
         "image_token"]
# Contradictions that random folders hardly ever have.
CHOSEN: list[dict[str, dict[str, Any]]] = [
    {"tokenizer_config.json": {"image_token": "<é>", "mask_token": "<a>"},
     "special_tokens_map.json": {"image_token": "<s>"}},
    {"tokenizer_config.json": {"image_token": {
        "__type": "AddedToken", "content": "<é>", "lstrip": True}},
     "special_tokens_map.json": {"image_token": "<s>"}},
    {"tokenizer_config.json": {"bos_token": "<|end|>", "eos_token": {
        "__type": "AddedToken", "content": "<|end|>x", "normalized": False}},
     "added_tokens.json": {"<|end|>x": 420, "ab": 421}},
]


def properties(pick: random.Random, content: str) -> dict[str, Any]:
    token: dict[str, Any] = {"content": content}
    for name in ("lstrip", "rstrip", "single_word"):
        token[name] = pick.random() < 0.2
    if pick.random() < 0.8:
        token["normalized"] = pick.random() < 0.3
    if pick.random() < 0.7:
        token["special"] = pick.random() < 0.6
    return token


def own_tokens(pick: random.Random) -> list[dict[str, Any]]:
    """added_tokens of tokenizer.json; some ids are not those that are free."""
    tokens = []
    next_id = 420 if pick.random() < 0.8 else 425
    for content in pick.sample(CONTENTS, pick.randrange(5)):
        token = {"single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": True, **properties(pick, content)}
        tokens.append({"id": next_id, **token})
        next_id += 1
    return tokens


def named_token(pick: random.Random, content: str, typed: bool) -> str | dict[str, Any]:
    """typed: with the mark that tokenizer_config.json needs."""
    if pick.random() < 0.6:
        return content
    token = properties(pick, content)
    return {"__type": "AddedToken", **token} if typed else token


def make_folder(pick: random.Random) -> dict[str, dict[str, Any]]:
    files: dict[str, dict[str, Any]] = {}
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for name in pick.sample(NAMES, pick.randrange(4)):
        config[name] = named_token(pick, pick.choice(CONTENTS), typed=True)
    if pick.random() < 0.3:
        name = pick.choice(["additional_special_tokens", "extra_special_tokens"])
        config[name] = pick.sample(CONTENTS, 2)
    if pick.random() < 0.4:
        config["added_tokens_decoder"] = {
            str(pick.randrange(418, 440)): properties(pick, content)
            for content in pick.sample(CONTENTS, pick.randrange(5))}
    if pick.random() < 0.9:
        files["tokenizer_config.json"] = config
    if pick.random() < 0.6:
        names: dict[str, Any] = {name: named_token(pick, pick.choice(CONTENTS), typed=False)
                 for name in pick.sample(NAMES, pick.randrange(4))}
        if pick.random() < 0.4:
            names["additional_special_tokens"] = pick.sample(CONTENTS, 2)
        elif pick.random() < 0.2:
            names["extra_special_tokens"] = pick.sample(CONTENTS, 2)
        files["special_tokens_map.json"] = names
    if pick.random() < 0.4:
        files["added_tokens.json"] = {
            content: i for i, content in
            enumerate(pick.sample(CONTENTS, pick.randrange(4)), 420)}
    return files


def answers_of(folder: str | pathlib.Path) -> dict[str, Any]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
    return {
        "named": {name: str(token) for name, token
                  in tokenizer.special_tokens_map.items()},
        "ids": ids,
        "decoded": [tokenizer.decode(one, skip_special_tokens=True) for one in ids],
        "size": len(tokenizer),
    }


def main() -> None:
    have = {"transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__}
    assert have == PINNED, have
    pick = random.Random(20261126)
    base = json.loads((TESTDATA / "small/tokenizer.json").read_text())
    first = base["added_tokens"][:3]
    folders = []
    for chosen in [*CHOSEN, *[None] * NUM_FOLDERS]:
        added = first if chosen else first + own_tokens(pick)
        files = chosen or make_folder(pick)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            for name, value in {**files, "tokenizer.json": {
                    **base, "added_tokens": added}}.items():
                (path / name).write_text(json.dumps(value))
            # A model of no known kind: the class is that of the file.
            (path / "config.json").write_text('{"model_type": "none"}')
            folders.append({"added_tokens": added, "files": files,
                            **answers_of(folder)})
    document = {"texts": TEXTS, "folders": folders}
    (TESTDATA / "folders.json").write_text(
        json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
