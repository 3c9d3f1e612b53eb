#!/usr/bin/env python3
"""Streams a completion over HTTP from one of several Espalier servers. If the
server is lost in mid-stream, the next one goes on with the text.

    complete.py --address 127.0.0.1:8080 --address 127.0.0.1:8081 "Once upon a time"

Standard library only. deploy/RESUME.md says why the text is the same.
"""

import argparse
import http.client
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

PATIENCE_S = 30  # without a token from any server


# Codes of errors that another server may not have.
PASSING = {"UNAVAILABLE", "DRAINING", "VERIFIER_AWAY", "QUEUE_FULL", "VERIFIER_FULL",
           "RESOURCE_EXHAUSTED", "OTHER_ORIGIN"}


class Lost(Exception):
    """The server is gone, has no room, or is shutting down."""


def fail(error: dict[str, Any]) -> None:
    """Raises Lost, or ends the program if the request itself is wrong."""
    if error.get("code") in PASSING:
        raise Lost(error["message"])
    raise SystemExit(error["message"])


class Answer:
    """What has come of an answer so far, and the request for the rest."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.token_ids: list[int] = []
        self.seed = self.origin = self.finish_reason = None

    def rest(self) -> dict[str, Any]:
        if not self.token_ids:
            return self.request
        return self.request | {"seed": self.seed, "resumption": {
            "outputs": [{"token_ids": self.token_ids}], "origin": self.origin}}

    def add(self, chunk: dict[str, Any]) -> str:
        """Returns the new text."""
        extra = chunk.get("espalier") or {}
        self.seed = extra.get("seed", self.seed)
        self.origin = extra.get("origin", self.origin)
        text = ""
        for choice in chunk["choices"]:
            self.token_ids += choice["token_ids"]
            self.finish_reason = choice["finish_reason"]
            text += choice["text"]
        return text


def chunks(address: str, request: dict[str, Any], api_key: str | None) -> Iterator[Any]:
    """Yields the events of a stream. Raises Lost if another server may go on."""
    connection = http.client.HTTPConnection(address, timeout=10)
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    try:
        connection.request("POST", "/v1/completions", json.dumps(request), headers)
        response = connection.getresponse()
        if response.status != 200:
            fail(json.loads(response.read())["error"])
        for line in response:
            data = line.decode().removeprefix("data: ").strip()
            if data == "[DONE]":
                return
            if data:
                chunk = json.loads(data)
                if "error" in chunk:
                    fail(chunk["error"])
                yield chunk
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Lost(str(error)) from error
    finally:
        connection.close()


def complete(addresses: Sequence[str], request: dict[str, Any],
             api_key: str | None = None) -> Iterator[Any]:
    """Yields the text as it comes."""
    answer = Answer(request | {"stream": True, "return_token_ids": True})
    give_up = time.monotonic() + PATIENCE_S
    turn = 0
    while answer.finish_reason is None:
        address = addresses[turn % len(addresses)]
        try:
            for chunk in chunks(address, answer.rest(), api_key):
                give_up = time.monotonic() + PATIENCE_S
                yield answer.add(chunk)
        except Lost as loss:
            print(f"\n[{address}: {loss}; {len(answer.token_ids)} tokens so far]",
                  file=sys.stderr)
        if answer.finish_reason is None:
            if time.monotonic() > give_up:
                raise SystemExit("no server answers")
            turn += 1
            if turn % len(addresses) == 0:
                time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt")
    parser.add_argument("--address", action="append", required=True, metavar="HOST:PORT")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--api-key")
    arguments = parser.parse_args()
    request = {"prompt": arguments.prompt, "max_tokens": arguments.max_tokens,
               "temperature": arguments.temperature}
    if arguments.seed is not None:
        request["seed"] = arguments.seed
    for text in complete(arguments.address, request, arguments.api_key):
        print(text, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
