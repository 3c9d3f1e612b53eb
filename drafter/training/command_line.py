"""Flags that the commands share."""

import argparse
import os

import torch


def add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)),
        help="CPU threads (the cores this process may use)")


def use_threads(count: int) -> None:
    torch.set_num_threads(count)


def pairs(text: str) -> dict[str, float]:
    """`a=1,b=0.5` as a dictionary."""
    try:
        return {name: float(value) for name, value
                in (item.split("=") for item in text.split(","))}
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text}: expected name=number,...") from error
