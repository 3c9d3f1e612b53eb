"""Texts that tokenizers get wrong, made from a seed. Used by make_goldens.py."""
import random
from typing import Any

SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\x0b", "\x0c",
          "\x1c", "\x85", "\u00a0", "\u1680", "\u180e", "\u2003", "\u2009",
          "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000",
          "\ufeff", " \n ", "\t ", " \t", "\n  "]
WORDS = ["the", "tree", "Espalier", "wall", "pear", "HTTPServer", "don", "it",
         "we", "I", "naïve", "façade", "Straße", "łódka", "žluťoučký", "дерево",
         "Привет", "δέντρο", "עץ", "שלום", "شجرة", "مرحبا", "पेड़", "नमस्ते",
         "மரம்", "ต้นไม้", "树", "木曜日", "果樹の壁", "나무", "ხე", "ծառ", "እንጨት",
         "ᏣᎳᎩ", "ﬁne", "Ǆ", "İstanbul", "ı", "ſ", "𝒯𝓇𝑒𝑒", "𐍄𐍂𐌴", "𞤀𞤣"]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'x",
                "''s", "’s", "'", "'r", "'l", "'v", " 's", "'s'", "'ſ"]
DIGITS = ["0", "7", "42", "2024", "3.14159", "1,000,000", "0x1F", "٣٤", "१२३",
          "๔", "½", "²", "Ⅷ", "①", "㊷", "零", "一二", "𝟠", "𑁣", "߉", "༳", "〇",
          "𐄇", "🄋", "𞲅", "৴", "፲", "ↈ"]
EMOJI = ["🙂", "👩‍🌾", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷", "🇺🇳🇯", "👍🏽", "☕️", "❤️‍🔥",
         "1️⃣", "🫨", "🪾", "©️", "\u200d", "\ufe0f"]
MARKS = ["e\u0301", "\u0301", "a\u0300\u0323", "n\u20dd", "ก\u0e49",
         "\u093f", "\u1ab0", "Z\u0351\u036b\u0343", "\u0bc6\u0bbe", "\U00016af0"]
ODD = ["\x00", "\x01\x02", "\x04", "\x1b[0m", "\x7f", "\x9f", "\u00ad",
       "\u200e", "\u202e", "\u0378", "\u0e3f", "\ue000", "\ufdd0", "\ufffd",
       "\uffff", "\U0001fffe", "\U000e0041", "\U000f0000", "\U0010ffff",
       "\u2e5e", "\ua7da", "\U0001e030", "\U00031350", "\U0002ebf0"]
CODE = ["def f(x):", "    return x", "i++;", "/* */", "<div>", "{}", "=>",
        "::", "...", "--", "$HOME", "#!", "a_b", "%d%%", "\\n", "\"q\"", "`",
        "https://example.org/?q=1&r=%20", "¿", "«»", "—", "、", "。", "€5", "£"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "<|", "|>",
           "<|im_end|", "<|im_end|>>", "<<|im_start|>", "<repo_name>",
           "<reponame>", "<file_sep>", "<think>", "</think>", "<thi", "<pear>",
           "<pear> tree", "<|IM_END|>", "<|im_start|>assistant\n"]
BROKEN = [b"\x80", b"\xbf", b"\xc0\xaf", b"\xc2", b"\xc3(", b"\xe2\x82",
          b"\xe2(\xa1", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xed\xa0\xbd",
          b"\xf0\x9f", b"\xf0\x9f\x99", b"\xf0\x28\x8c\xbc", b"\xf0\x80\x80",
          b"\xf4\x90\x80\x80", b"\xf5", b"\xf8\x88\x80", b"\xfe", b"\xff",
          b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"]
POOLS = [SPACES, WORDS, WORDS, CONTRACTIONS, DIGITS, EMOJI, MARKS, ODD, CODE,
         SPECIAL]
FIXED = ["", " ", "a", "\n", "Hello, world!", "The capital of France is",
         "a  b", "a \n b", "\n\n\nx", "x\n\n\n", "  1", "1  ", " 12 34",
         "I'm we'll they'd don't o'clock 'tis",
         "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"]


def any_code_point(rng: random.Random) -> str:
    """A code point, mostly from the low planes: most planes are empty."""
    top = rng.choice([0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
    while True:
        code = rng.randrange(top)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def pieces(rng: random.Random, count: int) -> list[bytes]:
    """Pieces of any kind, with or without a space between."""
    parts = []
    for _ in range(count):
        parts.append(rng.choice(rng.choice(POOLS)).encode())
        if rng.random() < 0.3:
            parts.append(rng.choice([b" ", b" ", b"\n", b"  "]))
    return parts


def one_text(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.60:
        return b"".join(pieces(rng, rng.randint(1, 7)))
    if kind < 0.72:
        count = rng.randint(1, 10)
        return "".join(any_code_point(rng) for _ in range(count)).encode()
    if kind < 0.84:
        parts = pieces(rng, rng.randint(1, 4))
        for _ in range(rng.randint(1, 3)):
            parts.insert(rng.randint(0, len(parts)), rng.choice(BROKEN))
        return b"".join(parts)
    if kind < 0.90:
        return rng.randbytes(rng.randint(1, 16))
    if kind < 0.95:
        whole = b"".join(pieces(rng, 4))  # A cut may fall into a character.
        return whole[rng.randint(0, len(whole)) :][: rng.randint(1, 24)]
    unit = rng.choice(rng.choice(POOLS))
    return (unit * rng.randint(2, 12)).encode()


def texts(seed: int, count: int) -> list[bytes]:
    rng = random.Random(seed)
    fixed = [text.encode() for text in FIXED]
    return fixed + [one_text(rng) for _ in range(count - len(fixed))]
