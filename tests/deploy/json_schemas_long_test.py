#!/usr/bin/env python3
"""Answers to 200 random JSON schemas are valid."""

import random_schemas

if __name__ == "__main__":
    random_schemas.main(200)
