"""Starts the gateway with the API key in a file, so that no list of processes shows it.

    gateway.py KEY_FILE OPTION...   (those of `smg launch`)

The key is asked of clients, and of operators of the gateway.
"""

import pathlib
import sys

from smg.cli import main

key = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").strip()
main(["launch", *sys.argv[2:], "--api-key", key,
      "--control-plane-api-keys", f"operator:operator:admin:{key}"])
