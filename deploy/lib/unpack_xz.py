#!/usr/bin/env python3
"""Replaces files X.xz by X: unpack_xz.py FILE..."""

import lzma
import pathlib
import shutil
import sys

for name in sys.argv[1:]:
    packed = pathlib.Path(name)
    with lzma.open(packed) as source, open(packed.with_suffix(""), "wb") as target:
        shutil.copyfileobj(source, target)
    packed.unlink()
