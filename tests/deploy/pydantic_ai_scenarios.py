"""Calls our HTTP through agents of pydantic-ai, and prints a JSON object of what it
saw. Run by http_clients_test.py.

    pydantic_ai_scenarios.py URL KEY MODEL
"""

import asyncio
import json
import sys
from typing import Any, Literal, Optional, Union

from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, ToolOutput, capture_run_messages
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

URL, KEY, NAME = sys.argv[1:]
PROVIDER = OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY)
CHAT = OpenAIChatModel(NAME, provider=PROVIDER)
RESPONSES = OpenAIResponsesModel(NAME, provider=PROVIDER)
SETTINGS = {"temperature": 0, "max_tokens": 200, "seed": 1}
ASK = "What is a glacier? One sentence."


class Rain(BaseModel):
    kind: Literal["rain"]
    millimetres: int = Field(ge=0, le=9)


class Sun(BaseModel):
    kind: Literal["sun"]
    hours: int = Field(ge=0, le=9)


class Report(BaseModel):
    """The weather of a city."""
    city: Literal["Rome", "Oslo"]
    weather: Union[Rain, Sun]
    wind: Optional[Literal["north", "south"]] = None


def ask(agent: Any, text: str = ASK) -> Any:
    return agent.run_sync(text, model_settings=SETTINGS)


async def stream(agent: Any) -> list[Any]:
    """The pieces of a text."""
    async with agent.run_stream(ASK, model_settings=SETTINGS | {"max_tokens": 24}) as result:
        return [piece async for piece in result.stream_text(delta=True)]


def called_tools() -> dict[str, Any]:
    """The tools that an agent calls; the model of 135M parameters need not find the end."""
    agent = Agent(CHAT, output_type=Report)
    cities = []

    @agent.tool_plain
    def weather(city: Literal["Rome", "Oslo"]) -> str:
        """The weather in a city."""
        cities.append(city)
        return "rain"

    with capture_run_messages() as messages:
        try:
            agent.run_sync("How is the weather in Rome?", model_settings=SETTINGS,
                           usage_limits=UsageLimits(request_limit=3))
        except (UnexpectedModelBehavior, UsageLimitExceeded):
            pass
    parts = [part for message in messages for part in message.parts]
    return {"cities": cities, "calls": [part.tool_name for part in parts
                                        if part.part_kind == "tool-call"]}


plain = ask(Agent(CHAT))
print(json.dumps({
    "text": plain.output,
    "tokens": [plain.usage.input_tokens, plain.usage.output_tokens],
    "streamed": asyncio.run(stream(Agent(CHAT))),
    "whole": Agent(CHAT).run_sync(ASK, model_settings=SETTINGS | {"max_tokens": 24}).output,
    "by_tool": ask(Agent(CHAT, output_type=Report)).output.model_dump(),
    "native": ask(Agent(CHAT, output_type=NativeOutput(Report))).output.model_dump(),
    # Unasked, this client says that a call need not follow its schema.
    "response": ask(Agent(RESPONSES, output_type=ToolOutput(Report, strict=True))
                    ).output.model_dump(),
    "tools": called_tools(),
}))
