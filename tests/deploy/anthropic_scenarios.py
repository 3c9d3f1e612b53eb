"""Calls our HTTP with Anthropic's own client, and prints a JSON object of what it
saw. Run by http_clients_test.py in the clients' environment.

    anthropic_scenarios.py URL KEY MODEL
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import anthropic

URL, KEY, MODEL = sys.argv[1:]
CLIENT = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
ASK = [{"role": "user", "content": "What is a glacier? One sentence."}]
WEATHER = {"name": "weather", "description": "The weather in a city.", "input_schema": {
    "type": "object", "additionalProperties": False, "required": ["city"],
    "properties": {"city": {"enum": ["Rome", "Oslo"]}}}}


def options(more: dict[str, Any]) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 24, "messages": ASK,
            "extra_body": {"temperature": 0}} | more


def say(**more: Any) -> Any:
    return CLIENT.messages.create(**options(more))


def stream(**more: Any) -> Any:
    with CLIENT.messages.stream(**options(more)) as events:
        return events.get_final_message()


def error_of(call: Callable[[], object]) -> dict[str, Any]:
    try:
        call()
    except anthropic.APIStatusError as error:
        return {"status": error.status_code, "type": error.body["error"]["type"],
                "message": error.body["error"]["message"], "kind": type(error).__name__}
    return {"status": 200}


def seen(message: Any) -> dict[str, Any]:
    return {"content": [block.to_dict() for block in message.content],
            "stop_reason": message.stop_reason, "stop_sequence": message.stop_sequence,
            "usage": message.usage.to_dict()}


def main() -> dict[str, Any]:
    forced = {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "weather"},
              "max_tokens": 120}
    call = say(**forced)
    again = say(tools=[WEATHER], messages=[
        *ASK, {"role": "assistant", "content": [block.to_dict() for block in call.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.content[0].id,
                                      "content": "rain"}]}], tool_choice={"type": "none"})
    wrong = anthropic.Anthropic(base_url=URL, api_key="wrong", max_retries=0)
    return {
        "whole": seen(say()),
        "stream": seen(stream()),
        "stopped": seen(say(stop_sequences=["mass"])),
        "system": seen(say(system="Answer in one word.")),
        "call": seen(call),
        "call_stream": seen(stream(**forced)),
        "any": seen(say(tools=[WEATHER], max_tokens=120, tool_choice={
            "type": "any", "disable_parallel_tool_use": True})),
        "again": seen(again),
        "counted": CLIENT.messages.count_tokens(model=MODEL, messages=ASK).input_tokens,
        "no_key": error_of(lambda: wrong.messages.create(**options({}))),
        "other_model": error_of(lambda: say(model="nope")),
        "unknown": error_of(lambda: say(extra_body={"no_such_field": 1})),
    }


print(json.dumps(main()))
