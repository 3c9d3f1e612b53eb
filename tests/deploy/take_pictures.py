#!/usr/bin/env python3
"""Takes the README's pictures of the default model: the status page and the
dashboard (in our viewer). Needs the set-up of deploy/quickstart.sh, Prometheus
and chromium.

    take_pictures.py [FOLDER]    default deploy/pictures
"""

import pathlib
import subprocess
import sys
import time

import live_cluster
from live_cluster import BIN, REPO

MODEL = pathlib.Path.home() / ".cache/espalier/models/smollm2-135m-instruct"
DRAFTERS = {name: (kind, {"model": MODEL / "drafters" / name})
            for name, kind in (("chat", "eagle"), ("math", "eagle"), ("block", "dflash"))}
TRAFFIC_S = 60


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else REPO / "deploy/pictures").absolute()
    cluster = live_cluster.Cluster(
        ["core.draft_timeout_ms=200"], model=MODEL, shows_text=True,
        drafters=DRAFTERS | {"lookup": ("prompt_lookup", {})})
    try:
        prometheus = live_cluster.Prometheus(cluster, live_cluster.free_port())
        browser = live_cluster.Browser(cluster.folder)
        traffic = subprocess.Popen(
            [BIN / "espalier", "load", "--address", cluster.address("coordinator"), "--rate", "0.3",
             "--requests", "60", "--turns", "15", "--modes", "union,route,plain", "--max-tokens", "100"],
            stdout=subprocess.DEVNULL)
        time.sleep(TRAFFIC_S)
        traffic.kill()  # leaves the cores to the browser
        traffic.wait()
        browser.screenshot(f"{prometheus.url}/user/viewer/?range={TRAFFIC_S - 15}&rate=20s",
                           folder / "dashboard.png", 1500, 1270)
        asked = subprocess.Popen(
            [BIN / "espalier", "generate", "--address", cluster.address("coordinator"), "--chat",
             "Tom has 12 apples and buys 3 bags of 5 apples each. How many has he?", "--max-tokens",
             "8000", "--ignore-eos"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(8)
        browser.screenshot(f"http://{cluster.http_address('coordinator')}/?key="
                           f"{live_cluster.STATUS_KEY}", folder / "status.png",
                           1400, 1180)
        asked.kill()
        asked.wait()
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
