#!/usr/bin/env python3
"""Checks the trainers on tiny random targets, on one core in about a minute.

    selfcheck.py [TEST ...]

TEST: only this one, like selfcheck_pipeline.PipelineTest.test_eagle. Skips, with
a message, where a package that the trainers need is missing.
"""

import sys
import unittest

try:
    import safetensors
    import tokenizers
    import torch
    import transformers
except (ImportError, OSError) as error:  # OSError: torch without its libraries
    print("skipped: the trainers need the Python packages torch, transformers, "
          f"safetensors and tokenizers, which no set-up here installs: {error}")
    sys.exit(0)

if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(module=None, argv=[sys.argv[0], *(
        sys.argv[1:] or ["selfcheck_networks", "selfcheck_pipeline"])])
