#!/usr/bin/env python3
"""Writes testdata/: small tokenizers, texts, and what `tokenizers` makes of them.

  pip install tokenizers==0.23.3 jinja2==3.1.6
  python3 make_goldens.py --model ~/.cache/espalier/models/smollm2-135m-instruct

The default model's tokenizer is too large to commit; its answers are not.
Answers are digests, one line per text, because the ids would take megabytes. A
test that fails prints the text and the ids that it got.
"""
import argparse
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jinja2
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models
from tokenizers import normalizers, pre_tokenizers, trainers

import golden_texts
import training_text

PINNED = "0.23.3"
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_PATTERN = QWEN2_PATTERN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O_PATTERN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SUFFIX}|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SUFFIX}|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_PATTERNS = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"
    r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
)
DEEPSEEK_LETTERS = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-"
    "\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-"
    "\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d"
    "\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-"
    "\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113"
    "\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134"
    "\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b"
    "\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"
)
DEEPSEEK_HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_LLM_PATTERNS = ("[\r\n]", DEEPSEEK_LETTERS,
                         "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                         r"\s+$", DEEPSEEK_HAN)
DEEPSEEK_CODER_PATTERNS = ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_HAN)
TEKKEN_PATTERN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SEED = 20240917
NUM_TEXTS = 3000
NUM_TEXTS_SMALL = 1000  # The small tokenizers answer for the first ones.
CODE_POINTS_PER_BLOCK = 1024
TESTDATA = pathlib.Path(__file__).with_name("testdata")
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and "
    "messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou prune pear "
    "trees and answer briefly.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)
CONVERSATIONS = [
    [("user", "Hello")],
    [("user", "")],
    [("user", "\n\n  two breaks first")],
    [("system", "Be brief."), ("user", "What is 12 + 30?")],
    [("user", "Wie heißt 🌳?"), ("assistant", "Baum."), ("user", " 'll go")],
    [("user", "a"), ("system", "late"), ("tool", "{\"x\": 1}\r\n")],
]


def digest(numbers: Iterable[int]) -> int:
    """FNV-1a over numbers; golden_files.cc has the same."""
    value = 0x811C9DC5
    for number in numbers:
        value = ((value ^ number) * 0x01000193) & 0xFFFFFFFF
    return value


def escape(data: bytes) -> str:
    """One line of readable UTF-8; what is neither is \\xHH."""
    out = []
    for char in data.decode("utf-8", "surrogateescape"):
        if char.isprintable() and char != "\\":
            out.append(char)
        else:
            raw = char.encode("utf-8", "surrogateescape")
            out.append("".join(f"\\x{byte:02x}" for byte in raw))
    return "".join(out)


def byte_level() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def with_digits() -> Any:
    digits = pre_tokenizers.Digits(individual_digits=True)
    return pre_tokenizers.Sequence([digits, byte_level()])


def split_words(*patterns: str, then_digits: bool = False) -> Any:
    splits = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    if then_digits:
        splits.append(pre_tokenizers.Digits(individual_digits=True))
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False,
                                          use_regex=False)
    return pre_tokenizers.Sequence([*splits, bytes_only])


def train(pre_tokenizer: Any, vocab_size: int, alphabet: Iterable[str], added: Any,
          normalizer: Any = None) -> Any:
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=alphabet,
        special_tokens=[token for token in added if token.special],
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_text.LINES, trainer)
    tokenizer.add_tokens([token for token in added if not token.special])
    return json.loads(tokenizer.to_str())


def special(content: str) -> Any:
    return AddedToken(content, special=True, normalized=False)


def small() -> Any:
    """As the default model has it; merges as "a b"; not every byte known."""
    added = [special("<|endoftext|>"), special("<|im_start|>"),
             special("<|im_end|>"), AddedToken("<think>", normalized=False),
             AddedToken("</think>", normalized=False),
             AddedToken("<pear>", normalized=True),
             AddedToken("<pear> tree", normalized=True),
             AddedToken("pear>", normalized=False)]
    document = train(with_digits(), 420, [], added)
    merges = [" ".join(pair) for pair in document["model"]["merges"]]
    # Listed twice: the last place counts.
    document["model"]["merges"] = merges + merges[3:5]
    return document


def gpt2_style() -> Any:
    """No digit split, every byte, merges as ["a", "b"]."""
    added = [AddedToken("<|endoftext|>", special=True, normalized=True)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return train(byte_level(), 560, alphabet, added)


def qwen2_style() -> Any:
    """Form C, Qwen2's pattern; an added token that form C changes."""
    added = [special("<|im_start|>"), special("<|im_end|>"),
             AddedToken("<think>", normalized=False),
             AddedToken("e\u0301tude", normalized=True)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return train(split_words(QWEN2_PATTERN), 560, alphabet, added, normalizers.NFC())


def llama3_style() -> Any:
    """A word of the vocabulary is that token, whatever the merges say."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    document = train(split_words(LLAMA3_PATTERN), 560, alphabet,
                     [special("<|begin_of_text|>"), special("<|eot_id|>")])
    model = document["model"]
    # Some words lose their merges; without ignore_merges they would be split.
    model["ignore_merges"] = True
    model["merges"] = [merge for i, merge in enumerate(model["merges"])
                       if i % 7]
    return document


def gpt4o_style() -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return train(split_words(GPT4O_PATTERN), 560, alphabet,
                 [special("<|start|>"), special("<|end|>")])


def deepseek_style() -> Any:
    """Three splits, one after the other."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return train(split_words(*DEEPSEEK_PATTERNS), 560, alphabet,
                 [special("<\uff5cbegin\u2581of\u2581sentence\uff5c>")])


def deepseek_llm_style() -> Any:
    """Digits after five splits, one of which looks for the end of a line."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return train(split_words(*DEEPSEEK_LLM_PATTERNS, then_digits=True), 560,
                 alphabet, [special("<\uff5cbegin\u2581of\u2581sentence\uff5c>")])


def deepseek_coder_style() -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return train(split_words(*DEEPSEEK_CODER_PATTERNS, then_digits=True), 560,
                 alphabet, [special("<\uff5cbegin\u2581of\u2581sentence\uff5c>")])


def tekken_style() -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    document = train(split_words(TEKKEN_PATTERN), 560, alphabet,
                     [special("<s>"), special("</s>")])
    document["model"]["ignore_merges"] = True
    return document


def normalized_style() -> Any:
    """Form KC and lower case; added tokens that take blanks or are words."""
    added = [AddedToken("<|im_start|>", special=True, normalized=False,
                        lstrip=True, rstrip=True),
             AddedToken("<think>", normalized=False, rstrip=True),
             AddedToken("\n\n", normalized=False),
             AddedToken("tree", normalized=False, single_word=True),
             AddedToken("the", normalized=True, single_word=True, lstrip=True),
             AddedToken("\uff50ear", normalized=True, single_word=True,
                        rstrip=True)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return train(byte_level(), 560, alphabet, added,
                 normalizers.Sequence([normalizers.NFKC(),
                                       normalizers.Lowercase()]))


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MARK = "\u2581"


def sentencepiece(normalizer: Any, pre_tokenizer: Any, decoder: Any, added: Any,
                  with_bytes: bool = True, **options: Any) -> Any:
    """SentencePiece's BPE as tokenizer.json has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=400, show_progress=False,
                                  limit_alphabet=60)
    tokenizer.train_from_iterator(training_text.LINES, trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    names = ["<unk>", "<s>", "</s>"] + (BYTES if with_bytes else [])
    vocab = {name: i for i, name in enumerate(names)}
    for token in sorted(trained["vocab"], key=trained["vocab"].get):
        vocab[token] = len(vocab)
    model = models.BPE(vocab=vocab, merges=[tuple(m) for m in trained["merges"]],
                       unk_token="<unk>", byte_fallback=with_bytes, **options)
    result = Tokenizer(model)
    if normalizer:
        result.normalizer = normalizer
    if pre_tokenizer:
        result.pre_tokenizer = pre_tokenizer
    result.decoder = decoder
    result.add_special_tokens(added[:3])
    result.add_tokens(added[3:])
    return json.loads(result.to_str())


def mark_decoder(strip: bool) -> Any:
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(),
             decoders.Fuse()]
    return decoders.Sequence(
        steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def llama2_style() -> Any:
    """Normalizers prepend the mark; special tokens are normalized as well."""
    added = [AddedToken(t, special=True, normalized=True)
             for t in ("<unk>", "<s>", "</s>")]
    return sentencepiece(
        normalizers.Sequence([normalizers.Prepend(MARK),
                              normalizers.Replace(" ", MARK)]),
        None, mark_decoder(strip=True), added, fuse_unk=True)


def mistral_style() -> Any:
    """Metaspace at the beginning of the text only."""
    added = [special("<unk>"), special("<s>"), special("</s>"),
             AddedToken("[INST]", normalized=False)]
    return sentencepiece(
        None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        mark_decoder(strip=True), added, fuse_unk=True)


def gemma_style() -> Any:
    """No mark is added, and the step that cuts at spaces finds none."""
    added = [special("<unk>"), special("<s>"), special("</s>"),
             AddedToken("\n\n", normalized=False),
             AddedToken("pear tree", normalized=True)]
    return sentencepiece(
        normalizers.Replace(" ", MARK),
        pre_tokenizers.Split(" ", "merged_with_previous"),
        mark_decoder(strip=False), added, fuse_unk=True)


def metaspace_style() -> Any:
    """Words begin at marks; unknown characters are unknown, one by one."""
    added = [special("<unk>"), special("<s>"), special("</s>")]
    return sentencepiece(
        normalizers.Sequence([normalizers.NFC(), normalizers.Strip()]),
        pre_tokenizers.Metaspace(prepend_scheme="always", split=True),
        mark_decoder(strip=True), added, with_bytes=False, fuse_unk=False)


def characters() -> Any:
    """A character model: a vocabulary and no merges."""
    kept = "\n !$&',-.3:;?" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    kept += "abcdefghijklmnopqrstuvwxyz"
    mapped = [byte_level().pre_tokenize_str(c)[0][0] for c in kept]
    vocab = {c: i for i, c in enumerate(mapped)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = byte_level()
    tokenizer.decoder = decoders.ByteLevel()
    return json.loads(tokenizer.to_str())


def answers(tokenizer: Any, texts: Iterable[bytes]) -> Iterator[list[Any]]:
    """Per text: ids, ids with special tokens as text, text of every second id."""
    for data in texts:
        text = data.decode("utf-8", "replace")
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        kept = tokenizer.decode(ids[::2], skip_special_tokens=False)
        skipped = tokenizer.decode(ids[::2], skip_special_tokens=True)
        yield [digest(ids), digest(plain),
               digest(kept.encode() + b"|" + skipped.encode())]


def write_answers(name: str, tokenizer: Any, texts: Iterable[bytes]) -> None:
    lines = (" ".join(f"{d:08x}" for d in row)
             for row in answers(tokenizer, texts))
    (TESTDATA / f"{name}.answers").write_text("\n".join(lines) + "\n")


def character_answers(tokenizer: Any, texts: Iterable[bytes]) -> Iterator[list[Any]]:
    """As answers(), but whole characters are decoded: of every second id those
    that are no bytes, as `tokenizers` repairs bytes in another way."""
    byte_ids = {tokenizer.token_to_id(name) for name in BYTES}
    for data in texts:
        text = data.decode("utf-8", "replace")
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        second = [i for i in ids[::2] if i not in byte_ids]
        decoded = [tokenizer.decode(ids, skip_special_tokens=False),
                   tokenizer.decode(second, skip_special_tokens=False),
                   tokenizer.decode(second, skip_special_tokens=True)]
        yield [digest(ids), digest(plain), digest("|".join(decoded).encode())]


def write_character_answers(name: str, tokenizer: Any, texts: Sequence[bytes]) -> None:
    rows = list(character_answers(tokenizer, texts))
    blocks = []
    for begin in range(0, 0x110000, CODE_POINTS_PER_BLOCK):
        if not 0xD800 <= begin < 0xE000:
            codes = range(begin, begin + CODE_POINTS_PER_BLOCK)
            blocks.append("".join(f"a{c} {c}" for c in map(chr, codes)).encode())
    rows += character_answers(tokenizer, blocks)
    lines = (" ".join(f"{d:08x}" for d in row) for row in rows)
    (TESTDATA / f"{name}.answers").write_text("\n".join(lines) + "\n")


def write_words() -> None:
    """Where words end, for every code point in its usual neighbourhoods."""
    lines = []
    for begin in range(0, 0x110000, CODE_POINTS_PER_BLOCK):
        if 0xD800 <= begin < 0xE000:
            continue
        codes = range(begin, begin + CODE_POINTS_PER_BLOCK)
        text = "".join(f"a{c}{c} {c}1{c}!{c}'{c}\n{c}" for c in map(chr, codes))
        row = []
        for pre_tokenizer in (
                with_digits(), byte_level(), split_words(QWEN2_PATTERN),
                split_words(LLAMA3_PATTERN), split_words(GPT4O_PATTERN),
                split_words(*DEEPSEEK_PATTERNS),
                split_words(*DEEPSEEK_LLM_PATTERNS, then_digits=True),
                split_words(*DEEPSEEK_CODER_PATTERNS, then_digits=True),
                split_words(TEKKEN_PATTERN)):
            words = pre_tokenizer.pre_tokenize_str(text)
            row.append(digest(len(word) for word, _ in words))
        lines.append(f"{begin:x} " + " ".join(f"{d:08x}" for d in row))
    (TESTDATA / "code_points.answers").write_text("\n".join(lines) + "\n")


def write_normal_forms() -> None:
    """Every code point among others that it may join or pass, in each form and
    in lower case."""
    lines = []
    for begin in range(0, 0x110000, CODE_POINTS_PER_BLOCK):
        if 0xD800 <= begin < 0xE000:
            continue
        text = "".join(
            f"{c}\u0301 a{c}\u0323{c} \u0345{c} {c}\u1161\u11a8 \u1100{c}"
            f"\u11a8 {c}\u0338e\u0327{c}\u0302"
            for c in map(chr, range(begin, begin + CODE_POINTS_PER_BLOCK)))
        normal = (step.normalize_str(text) for step in (
            normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(),
            normalizers.NFKD(), normalizers.Lowercase()))
        digests = " ".join(f"{digest(n.encode()):08x}" for n in normal)
        lines.append(f"{begin:x} {digests}")
    (TESTDATA / "normal_forms.answers").write_text("\n".join(lines) + "\n")


def conversations(name: str, tokenizer: Any, template: str) -> Iterator[dict[str, Any]]:
    tokenizer.encode_special_tokens = False
    compiled = jinja2.Template(template, keep_trailing_newline=True)
    for conversation in CONVERSATIONS:
        messages = [dict(role=r, content=c) for r, c in conversation]
        text = compiled.render(messages=messages, add_generation_prompt=True)
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        yield dict(tokenizer=name, messages=messages, ids=ids)


def main() -> None:
    if tokenizers.__version__ != PINNED:
        raise SystemExit(f"needs tokenizers=={PINNED}")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    model = parser.parse_args().model

    texts = golden_texts.texts(SEED, NUM_TEXTS)
    escaped = "".join(escape(text) + "\n" for text in texts)
    (TESTDATA / "texts.txt").write_text(escaped)
    for make in (small, gpt2_style, qwen2_style, llama3_style,
                 gpt4o_style, deepseek_style, deepseek_llm_style,
                 deepseek_coder_style, tekken_style, normalized_style,
                 characters):
        document = json.dumps(make(), ensure_ascii=False, separators=(",", ":"))
        name = make.__name__
        folder = TESTDATA / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(document + "\n")
        tokenizer = Tokenizer.from_str(document)
        write_answers(name, tokenizer, texts[:NUM_TEXTS_SMALL])

    for make in (llama2_style, mistral_style, gemma_style, metaspace_style):
        document = json.dumps(make(), ensure_ascii=False, separators=(",", ":"))
        folder = TESTDATA / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(document + "\n")
        write_character_answers(make.__name__, Tokenizer.from_str(document),
                                texts[:NUM_TEXTS_SMALL])

    config = dict(eos_token="<|im_end|>", chat_template=CHAT_TEMPLATE)
    config_file = TESTDATA / "small" / "tokenizer_config.json"
    config_file.write_text(json.dumps(config, indent=1) + "\n")
    chats = list(conversations(
        "small", Tokenizer.from_file(str(TESTDATA / "small/tokenizer.json")),
        CHAT_TEMPLATE))

    default_model = Tokenizer.from_file(str(model / "tokenizer.json"))
    write_answers("default_model", default_model, texts)
    template = json.loads((model / "tokenizer_config.json").read_text())
    chats += conversations("default_model", default_model,
                           template["chat_template"])
    lines = ",\n".join(json.dumps(chat, separators=(",", ":")) for chat in chats)
    (TESTDATA / "chats.json").write_text(f"[\n{lines}\n]\n")
    write_words()
    write_normal_forms()


if __name__ == "__main__":
    main()
