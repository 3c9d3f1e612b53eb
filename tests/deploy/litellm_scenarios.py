"""Calls our HTTP through LiteLLM's router, as a gateway in front of several servers
does, and prints a JSON object of what it saw. Run by http_clients_test.py.

    litellm_scenarios.py KEY MODEL URL...
"""

import json
import sys
import threading
from typing import Any

import litellm

KEY, MODEL, *URLS = sys.argv[1:]
ROUTER = litellm.Router(
    model_list=[{"model_name": MODEL, "litellm_params": {
        "model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": KEY}} for url in URLS],
    num_retries=3, retry_after=0, allowed_fails=1, cooldown_time=60)
NUM_THREADS, NUM_SEEDS = 4, 10


def ask(seed: int, **more: Any) -> Any:
    return ROUTER.completion(
        model=MODEL, messages=[{"role": "user", "content": "What is a glacier?"}], seed=seed,
        temperature=1, max_tokens=16, **more)


def many() -> list[list[Any]]:
    """Prints a line when the tenth of 40 answers is there, then all texts."""
    texts, lock = [], threading.Lock()

    def ask_each() -> None:
        for seed in range(NUM_SEEDS):
            text = ask(seed).choices[0].message.content
            with lock:
                texts.append([seed, text])
                if len(texts) == 10:
                    print("ten", flush=True)
    threads = [threading.Thread(target=ask_each) for _ in range(NUM_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return texts


streamed = "".join(chunk.choices[0].delta.content or "" for chunk in ask(0, stream=True))
print(json.dumps({"whole": ask(0).choices[0].message.content, "streamed": streamed,
                  "texts": many()}))
