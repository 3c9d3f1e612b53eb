#!/usr/bin/env python3
"""A rolling upgrade from older programs, in the folder that ESPALIER_OLD_BIN names, to today's,
and back: two coordinators, two verifiers and two replicas of each drafter, under load. No
request fails, and every text is the same."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest
from collections.abc import Callable
from typing import Any

import live_cluster
import stubs
from live_cluster import BIN, CHAR_DRAFTERS
from pools import TWO, Pools
from resuming_client import LoadedTest, Resuming

OLD = pathlib.Path(os.environ.get("ESPALIER_OLD_BIN", ""))


def version(programs: pathlib.Path) -> tuple[Any, ...]:
    """(major, minor) of the programs in a folder."""
    text = subprocess.run([programs / "espalier-coordinator", "--version"], capture_output=True,
                          text=True, check=True).stdout
    return tuple(int(number) for number in live_cluster.found(r"(\d+)\.(\d+)", text).groups())


class UpgradeTest(LoadedTest):
    def roll(self, pools: Pools, programs: pathlib.Path, await_more: Callable[[int], None]) -> None:
        """Ends each service and starts that of `programs`, one after the other."""
        pools.programs = programs
        for name in (*CHAR_DRAFTERS, "verifier", "coordinator"):
            for number in TWO:
                service = name + number
                pools.process(service).send_signal(signal.SIGTERM)
                self.assertEqual(pools.process(service).wait(timeout=60), 0, service)
                if name == "coordinator":
                    pools.start_coordinator(number, self.knows_pools(programs))
                else:
                    pools.start_replica(name, number)
                pools.await_serving(service)
                pools.await_replicas()
                await_more(3)

    def knows_pools(self, programs: pathlib.Path) -> bool:
        return version(programs) >= (0, 3)

    def test_up_and_back(self) -> None:
        pools = Pools(programs=OLD, pooled=self.knows_pools(OLD))
        self.addCleanup(pools.close)
        client = Resuming([pools.address(f"coordinator{number}") for number in TWO],
                          strategy="union")
        self.addCleanup(client.close)
        for what, programs in (("up", BIN), ("back", OLD)):
            old, new = version(pools.programs), version(programs)
            with self.load(client, f"{what}, {old} to {new}") as await_more:
                self.roll(pools, programs, await_more)
        self.assertEqual(pools.gone(), {})


if __name__ == "__main__":
    if why := stubs.missing():
        print(f"skipped: {why}")
        sys.exit(0)
    if not (OLD / "espalier-coordinator").exists():
        print("skipped: ESPALIER_OLD_BIN names no folder with older programs")
        sys.exit(0)
    unittest.main(verbosity=2)
