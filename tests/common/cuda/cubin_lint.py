#!/usr/bin/env python3
"""Looks at the machine code of the kernels.

    cubin_lint.py CUOBJDUMP OBJECT

Every kernel has its row below: the registers that it may take, and the
instructions that it is written for. But for those of SPILLS, no kernel has a
stack, spills, or reads and writes local memory. A kernel's block fits the
registers of a multiprocessor, and some pairs of kernels fit it together.
"""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

WAITS = ["ACQBULK", "PREEXIT"]  # of dependent launches
WIDENS = ["HMUL2.BF16_V2", "LDS.128"]  # of e4m3
COPIES = ["UBLKCP", "SYNCS.PHASECHK", "SYNCS.ARRIVE"]
NORMS = WAITS + ["MUFU.RSQ", "LDG.E.128", "STG.E.128"]
ATTENDS = WAITS + COPIES + ["HMMA.16816.F32.BF16", "LDSM.16.M88.4",
                            "LDSM.16.MT88.4", "MUFU.EX2"]
# Three of four warpgroups have 160 registers, the fourth 32.
MOVES_REGISTERS = ["USETMAXREG.DEALLOC.CTAPOOL 0x20", "USETMAXREG.TRY_ALLOC"]


def multiplies(shape: str) -> list[str]:
    return WAITS + COPIES + [f"HGMMA.{shape}.F32.BF16", "WARPGROUP.DEPBAR",
                             "WARPGROUP.ARRIVE"]


def widens(shape: str) -> list[str]:
    return multiplies(shape) + WIDENS


def stays(shape: str) -> list[str]:
    return multiplies(shape) + ["FENCE.VIEW.ASYNC.G", "REDG.E.ADD.STRONG.GPU",
                                "LDG.E.STRONG.GPU", "CCTL.IVALL", "BPT.TRAP",
                                "MUFU.RSQ", "LDG.E.128", "STG.E.128"]


# Three of four warpgroups have 152 registers, the fourth 56.
def attends_inside(shape: str) -> list[str]:
    return stays(shape) + ATTENDS + ["USETMAXREG.DEALLOC.CTAPOOL 0x38",
                                     "USETMAXREG.TRY_ALLOC"]


# Kernel: threads of a block, most registers, instructions.
KERNELS = {
    "Embed": (128, 40, WAITS),
    "ResidualNorm<1, false>": (512, 48, NORMS),
    "ResidualNorm<1, true>": (512, 48, NORMS),
    "ResidualNorm<2, false>": (512, 56, NORMS),
    "ResidualNorm<2, true>": (512, 56, NORMS),
    "ResidualNorm<4, false>": (512, 64, NORMS),
    "ResidualNorm<4, true>": (512, 72, NORMS),
    "ResidualNorm<8, false>": (512, 72, NORMS),
    "ResidualNorm<8, true>": (512, 96, NORMS),
    "ResidualNorm<16, false>": (512, 112, NORMS),
    "Product<2, 16>": (288, 48, multiplies("64x16x16")),
    "Product<2, 32>": (288, 56, multiplies("64x32x16")),
    "Product<2, 64>": (288, 72, multiplies("64x64x16")),
    "Product<2, 80>": (288, 88, multiplies("64x80x16")),
    "Product<2, 128>": (288, 104, multiplies("64x128x16")),
    "Product<2, 144>": (288, 120, multiplies("64x144x16")),
    "Product<2, 256>": (288, 168, multiplies("64x256x16")),
    "Product<3, 16>": (416, 48, multiplies("64x16x16")),
    "Product<3, 32>": (416, 56, multiplies("64x32x16")),
    "Product<3, 64>": (416, 72, multiplies("64x64x16")),
    "Product<3, 80>": (416, 88, multiplies("64x80x16")),
    "Product<3, 128>": (416, 104, multiplies("64x128x16")),
    "Product<3, 144>": (416, 120, multiplies("64x144x16")),
    "LargeProduct": (512, 128, multiplies("64x128x16") + MOVES_REGISTERS),
    "E4m3Product<2, 16>": (288, 72, widens("64x16x16")),
    "E4m3Product<2, 32>": (288, 72, widens("64x32x16")),
    "E4m3Product<2, 64>": (288, 96, widens("64x64x16")),
    "E4m3Product<2, 80>": (288, 96, widens("64x80x16")),
    "E4m3Product<2, 128>": (288, 128, widens("64x128x16")),
    "E4m3Product<2, 144>": (288, 136, widens("64x144x16")),
    "E4m3Product<2, 256>": (288, 168, widens("64x256x16")),
    "E4m3Product<3, 16>": (416, 72, widens("64x16x16")),
    "E4m3Product<3, 32>": (416, 72, widens("64x32x16")),
    "E4m3Product<3, 64>": (416, 96, widens("64x64x16")),
    "E4m3Product<3, 80>": (416, 96, widens("64x80x16")),
    "E4m3Product<3, 128>": (416, 128, widens("64x128x16")),
    "E4m3Product<3, 144>": (416, 128, widens("64x144x16")),
    "Chain<16, false>": (448, 96, stays("64x16x16")),
    "Chain<32, false>": (448, 104, stays("64x32x16")),
    "Chain<64, false>": (448, 112, stays("64x64x16")),
    "Chain<80, false>": (448, 120, stays("64x80x16")),
    "Chain<128, false>": (448, 128, stays("64x128x16")),
    "Chain<144, false>": (448, 128, stays("64x144x16")),
    "Chain<16, true>": (448, 120, stays("64x16x16") + WIDENS),
    "Chain<32, true>": (448, 120, stays("64x32x16") + WIDENS),
    "Chain<64, true>": (448, 128, stays("64x64x16") + WIDENS),
    "Chain<80, true>": (448, 128, stays("64x80x16") + WIDENS),
    "LayerChain<16, false, 64>": (512, 128, attends_inside("64x16x16")),
    "LayerChain<32, false, 64>": (512, 128, attends_inside("64x32x16")),
    "LayerChain<64, false, 64>": (512, 128, attends_inside("64x64x16")),
    "LayerChain<80, false, 64>": (512, 128, attends_inside("64x80x16")),
    "LayerChain<128, false, 64>": (512, 128, attends_inside("64x128x16")),
    "LayerChain<144, false, 64>": (512, 128, attends_inside("64x144x16")),
    "LayerChain<16, false, 128>": (512, 128, attends_inside("64x16x16")),
    "LayerChain<32, false, 128>": (512, 128, attends_inside("64x32x16")),
    "LayerChain<64, false, 128>": (512, 128, attends_inside("64x64x16")),
    "LayerChain<80, false, 128>": (512, 128, attends_inside("64x80x16")),
    "LayerChain<128, false, 128>": (512, 128, attends_inside("64x128x16")),
    "LayerChain<144, false, 128>": (512, 128, attends_inside("64x144x16")),
    "LayerChain<16, true, 64>": (512, 128, attends_inside("64x16x16") + WIDENS),
    "LayerChain<32, true, 64>": (512, 128, attends_inside("64x32x16") + WIDENS),
    "LayerChain<64, true, 64>": (512, 128, attends_inside("64x64x16") + WIDENS),
    "LayerChain<80, true, 64>": (512, 128, attends_inside("64x80x16") + WIDENS),
    "LayerChain<16, true, 128>": (512, 128, attends_inside("64x16x16") + WIDENS),
    "LayerChain<32, true, 128>": (512, 128, attends_inside("64x32x16") + WIDENS),
    "LayerChain<64, true, 128>": (512, 128, attends_inside("64x64x16") + WIDENS),
    "LayerChain<80, true, 128>": (512, 128, attends_inside("64x80x16") + WIDENS),
    "Prepare<64>": (128, 48, WAITS + ["MUFU.RSQ"]),
    "Prepare<128>": (128, 48, WAITS + ["MUFU.RSQ"]),
    "Prepare<256>": (128, 56, WAITS + ["MUFU.RSQ"]),
    "AttendPrefix<64, false>": (128, 144, ATTENDS),
    "AttendPrefix<64, true>": (128, 144, ATTENDS),
    "AttendPrefix<128, false>": (128, 184, ATTENDS),
    "AttendPrefix<128, true>": (128, 240, ATTENDS),
    "AttendPrefix<256, false>": (128, 255, ATTENDS),
    "AttendPrefix<256, true>": (128, 255, ATTENDS),
    "AttendTree<64, false>": (128, 184, ATTENDS),
    "AttendTree<64, true>": (128, 184, ATTENDS),
    "AttendTree<128, false>": (128, 255, ATTENDS),
    "AttendTree<128, true>": (128, 255, ATTENDS),
    "AttendTree<256, false>": (128, 255, ATTENDS),
    "AttendTree<256, true>": (128, 255, ATTENDS),
    "AttendChain<64, false>": (128, 160, ATTENDS),
    "AttendChain<64, true>": (128, 144, ATTENDS),
    "AttendChain<128, false>": (128, 184, ATTENDS),
    "AttendChain<128, true>": (128, 216, ATTENDS),
    "Route": (256, 48, WAITS + ["MUFU.EX2", "LDG.E.128"]),
    "GroupRows": (512, 40, WAITS),
    "PlaceRows": (128, 40, WAITS + ["LDG.E.128", "STG.E.128"]),
    "ExpertProduct<2, 16>": (288, 48, multiplies("64x16x16")),
    "ExpertProduct<2, 64>": (288, 72, multiplies("64x64x16")),
    "ExpertProduct<3, 16>": (416, 48, multiplies("64x16x16")),
    "ExpertProduct<3, 64>": (416, 72, multiplies("64x64x16")),
    "E4m3ExpertProduct<2, 16>": (288, 72, widens("64x16x16")),
    "E4m3ExpertProduct<2, 64>": (288, 96, widens("64x64x16")),
    "E4m3ExpertProduct<3, 16>": (416, 72, widens("64x16x16")),
    "E4m3ExpertProduct<3, 64>": (416, 96, widens("64x64x16")),
    "Keep": (128, 40, WAITS),
    "GatherTaps": (128, 40, WAITS),
    "TakeRows<1>": (512, 40, NORMS),
    "TakeRows<2>": (512, 48, NORMS),
    "TakeRows<4>": (512, 56, NORMS),
    "TakeRows<8>": (512, 72, NORMS),
    "TakeRows<16>": (512, 112, NORMS),
    "Perturb": (256, 48, WAITS),
    "DrawOfChunks": (256, 56, WAITS),
    "DrawOfRows": (256, 40, WAITS),
    "Filter": (1024, 64, WAITS + ["ATOMS", "MUFU.EX2"]),
    "RankOfParts": (1024, 64, WAITS + ["ATOMS", "LDG.E.128"]),
    "RankOfRows": (1024, 64, WAITS + ["MUFU.EX2", "LDG.E.128"]),
    "Gather": (1024, 64, WAITS + ["MUFU.EX2"]),
    "CarryMail": (1024, 64, WAITS + ["LDG.E.128.STRONG.SYS", "STG.E.128", "MEMBAR.ALL.SYS",
                                     "STG.E.STRONG.SYS"]),
    "RandomWeights": (128, 48, WAITS + ["STG.E.128"]),
    "Read": (256, 64, WAITS + ["LDG.E.128"]),
}
# Bytes of stack of kernels whose sums leave too few registers.
SPILLS = {"AttendTree<256, false>": 16, "AttendTree<256, true>": 24,
          "LayerChain<144, false, 64>": 8, "LayerChain<16, true, 128>": 16,
          "LayerChain<32, true, 128>": 8}
# How often, in every product and chain: more of them, and products wait for each other.
COUNTS = {"WARPGROUP.ARRIVE": 1, "WARPGROUP.DEPBAR": 2}
REGISTERS = 65536  # of a multiprocessor
PARTITIONS = 4  # of it, each with every fourth warp of a block and its registers
# Kernels a block of each of which fits one multiprocessor, so that a product
# brings its first weights while the norm before it still runs.
PAIRS = [("ResidualNorm<2, false>", "Product<3, 64>"),
         ("ResidualNorm<2, false>", "Product<3, 80>"),
         ("ResidualNorm<2, false>", "Product<2, 80>")]
LOCAL_MEMORY = ["LDL", "STL"]


def dump(tool: str, flag: str, path: str) -> str:
    folder = str(pathlib.Path(tool).resolve().parent)  # nvdisasm is there too
    environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}
    mangled = subprocess.run([tool, flag, path], check=True, text=True,
                             stdout=subprocess.PIPE, env=environment).stdout
    return subprocess.run(["c++filt"], input=mangled, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def name_of(signature: str) -> str:
    found = re.search(r"(\w+(<[\w, ]+>)?)\([\w:]+\)", signature)
    assert found, signature
    return found[1]


# Pairs of a kernel's name and the text of it.
def functions(text: str) -> dict[str, Any]:
    parts = re.split(r"^\s*Function\s*:?\s+(\S.*?)\s*:?$", text,
                     flags=re.MULTILINE)
    return {name_of(signature): body
            for signature, body in zip(parts[1::2], parts[2::2])}


def of_partition(name: str, resources: Any) -> int:
    """The registers, in units of eight, that a block takes of its fullest
    partition."""
    used = re.search(r"REG:(\d+)", resources[name])
    assert used, name
    warps = -(-KERNELS[name][0] // 32)
    return -(-warps // PARTITIONS) * 32 * ((int(used[1]) + 7) // 8 * 8)


def complaints(resources: Any, code: Any) -> Iterator[str]:
    for pair in PAIRS:
        if sum(of_partition(name, resources) for name in pair) > REGISTERS // PARTITIONS:
            yield f"{pair[0]} and {pair[1]}: they do not fit one multiprocessor"
    for name in sorted(KERNELS.keys() ^ resources.keys()):
        yield f"{name}: in one of the table and the object only"
    for name in sorted(KERNELS.keys() & resources.keys()):
        _, most, instructions = KERNELS[name]
        used = {key: int(value) for key, value in
                re.findall(r"(REG|STACK|LOCAL):(\d+)", resources[name])}
        if used["REG"] > most:
            yield f"{name}: {used['REG']} registers, more than {most}"
        if of_partition(name, resources) > REGISTERS // PARTITIONS:
            yield f"{name}: a block does not fit the registers"
        spills = SPILLS.get(name, 0)
        if used["STACK"] > spills or used["LOCAL"] > 0:
            yield f"{name}: it has a stack or local memory"
        for instruction in instructions:
            if instruction not in code[name]:
                yield f"{name}: no {instruction}"
        for instruction, times in COUNTS.items():
            found = code[name].count(instruction)
            if re.search(r"Product|Chain<\d+, \w+(, \d+)?>", name) and "Attend" not in name and found != times:
                yield f"{name}: {found} {instruction}, not {times}"
        for instruction in LOCAL_MEMORY:
            if not spills and re.search(rf"\b{instruction}\b", code[name]):
                yield f"{name}: {instruction}, it spills"


def main() -> int:
    tool, path = sys.argv[1:]
    if not os.access(tool, os.X_OK):
        print("skipped: no cuobjdump; deploy/setup.sh --nvcc brings it")
        return 0
    resources = functions(dump(tool, "-res-usage", path))
    found = list(complaints(resources, functions(dump(tool, "-sass", path))))
    print("\n".join(found) or f"{len(resources)} kernels looked at")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
