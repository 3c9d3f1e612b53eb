"""Where the time of a pass goes, kernel by kernel, from what kernel_trace wrote."""

import dataclasses
import re
import statistics
from typing import Any

FIRST = "Embed"  # the kernel that begins a pass
LAST_OF_ATTENTION = ("AttendTree", "AttendChain")  # a pass may have both


@dataclasses.dataclass(frozen=True)
class Kernel:
    begin: int  # ns
    end: int
    grid: str
    name: str


def name_of(mangled: str) -> str:
    """Of a kernel template or function: the identifier before its arguments."""
    found = re.findall(r"(?<=\d)[A-Z][A-Za-z0-9]*?(?=I[LNS]|E|$)", mangled)
    return found[0] if found else mangled


def kernels(text: str) -> list[Any]:
    """In the order in which they began."""
    read = []
    for line in text.splitlines():
        fields = line.split(" ", 4)
        if len(fields) == 5:
            read.append(Kernel(int(fields[0]), int(fields[1]), f"{fields[2]}x{fields[3]}",
                               name_of(fields[4])))
    return sorted(read, key=lambda kernel: kernel.begin)


def middle_pass(read: list[Kernel], rows: int) -> list[Kernel]:
    """The kernels of a pass over so many rows, one in the middle of the trace; none: there
    is no whole one."""
    begins = [i for i, kernel in enumerate(read) if kernel.name == FIRST]
    passes = [read[begin:end] for begin, end in zip(begins, begins[1:])
              if read[begin].grid == f"{rows}x1"]
    return passes[len(passes) // 2] if passes else []


def added(of_pass: list[Kernel]) -> list[tuple[Kernel, float]]:
    """Pairs of a kernel and the us that it adds: what it ends later than all before it."""
    pairs, end = [], of_pass[0].begin if of_pass else 0
    for kernel in of_pass:
        pairs.append((kernel, max(0, kernel.end - end) / 1e3))
        end = max(end, kernel.end)
    return pairs


def table(of_pass: list[Kernel]) -> list[Any]:
    """Rows (name, grid, count, median us that it adds, ms that all add), largest first."""
    times: dict[tuple[str, str], list[float]] = {}
    for kernel, us in added(of_pass):
        times.setdefault((kernel.name, kernel.grid), []).append(us)
    rows = [(name, grid, len(us), statistics.median(us), sum(us) / 1e3)
            for (name, grid), us in times.items()]
    return sorted(rows, key=lambda row: -row[-1])


def middle_layer(of_pass: list[Kernel]) -> list[tuple[Kernel, float]]:
    """The pairs of `added` from one attention's last kernel to the next one's."""
    pairs = added(of_pass)
    is_last = [kernel.name in LAST_OF_ATTENTION for kernel, _ in pairs] + [False]
    ends = [i for i in range(len(pairs)) if is_last[i] and not is_last[i + 1]]
    if len(ends) < 2:
        return []
    at = (len(ends) - 1) // 2
    return pairs[ends[at] + 1:ends[at + 1] + 1]
