#!/usr/bin/env python3
"""Answers to a few random JSON schemas are valid; json_schemas_long_test.py has more."""

import random_schemas

if __name__ == "__main__":
    random_schemas.main(12)
