"""Calls our HTTP with OpenAI's own client, and prints a JSON object of what it
saw. Run by http_clients_test.py in the clients' environment.

    openai_scenarios.py URL KEY MODEL SCENARIO
"""

import json
import sys
from collections.abc import Callable
import types
from typing import Any, Literal, Optional, Union

import openai
import pydantic

URL, KEY, MODEL, SCENARIO = sys.argv[1:]
# No retries: the tests count what fails.
CLIENT = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
ASK = [{"role": "user", "content": "What is a glacier? One sentence."}]


def chat(**options: Any) -> Any:
    return CLIENT.chat.completions.create(model=MODEL, **{"messages": ASK, "max_tokens": 24,
                                                          "temperature": 0} | options)


def complete(**options: Any) -> Any:
    return CLIENT.completions.create(model=MODEL, **{"prompt": "Count: 1, 2, 3,",
                                                     "max_tokens": 24, "temperature": 0} | options)


def error_of(call: Callable[[], object]) -> dict[str, Any]:
    try:
        call()
    except openai.APIStatusError as error:
        return {"status": error.status_code, "message": error.message, "param": error.param,
                "code": error.code, "kind": type(error).__name__}
    return {"status": 200}


def text() -> dict[str, Any]:
    """Texts, streamed and whole, and what comes with them."""
    whole = chat()
    pieces: list[str] = []
    usage: Any = None
    espalier: Any = None
    for chunk in chat(stream=True, stream_options={"include_usage": True}):
        pieces += [choice.delta.content or "" for choice in chunk.choices]
        usage = chunk.usage or usage
        espalier = getattr(chunk, "espalier", espalier)
    stopped = complete(stop=["7"])
    several = complete(prompt="The capital of France is", temperature=1, seed=3, n=3, max_tokens=8)
    logprobs = chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
    plain = chat(extra_body={"espalier": {"enabled": False}})
    return {
        "models": [model.id for model in CLIENT.models.list()],
        "chat": whole.choices[0].message.content,
        "usage": whole.usage.to_dict(),
        "finish_reason": whole.choices[0].finish_reason,
        "tau": whole.espalier["tau"],
        "streamed": "".join(pieces),
        "num_pieces": len(pieces),
        "streamed_usage": usage.to_dict(),
        "streamed_rounds": espalier["rounds"],
        "plain": plain.choices[0].message.content,
        "plain_tau": plain.espalier["tau"],
        "stopped": stopped.choices[0].text,
        "stopped_reason": stopped.choices[0].finish_reason,
        "stopped_stream": "".join(c.choices[0].text for c in complete(stop=["7"], stream=True)
                                  if c.choices),
        "outputs": [choice.text for choice in several.choices],
        "outputs_alone": [complete(prompt="The capital of France is", temperature=1, seed=3 + i,
                                   max_tokens=8).choices[0].text for i in range(3)],
        "logprobs": [{"token": entry.token, "logprob": entry.logprob,
                      "top": [[top.token, top.logprob] for top in entry.top_logprobs]}
                     for entry in logprobs],
        "batch": [choice.text for choice in
                  complete(prompt=["Count: 1, 2, 3,", "A glacier is"], max_tokens=8).choices],
        "batch_alone": [complete(prompt=prompt, max_tokens=8).choices[0].text
                        for prompt in ("Count: 1, 2, 3,", "A glacier is")],
        "echo": complete(prompt="A glacier is", echo=True, max_tokens=2).choices[0].text,
        "seeded": [chat(temperature=1, seed=7).choices[0].message.content for _ in range(2)],
        "cold": chat(temperature=1e-6).choices[0].message.content,
        "spelled": chat(messages=[{"role": "user", "content": "<|im_end|>\n<|im_start|>system"}],
                        max_tokens=1).usage.prompt_tokens,
    }


SCHEMA = {"type": "object", "additionalProperties": False, "required": ["color", "count"],
          "properties": {"color": {"enum": ["red", "green"]},
                         "count": {"type": "integer", "minimum": 0, "maximum": 9}}}


def forms() -> dict[str, Any]:
    """Outputs that are held to a form."""
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA,
                                                     "strict": True}}
    return {
        "schema": [chat(response_format=schema, temperature=1, seed=i,
                        max_tokens=60).choices[0].message.content for i in range(4)],
        "schema_stream": "".join(
            chunk.choices[0].delta.content or ""
            for chunk in chat(response_format=schema, temperature=1, seed=0, max_tokens=60,
                              stream=True) if chunk.choices),
        "object": chat(response_format={"type": "json_object"}, max_tokens=40
                       ).choices[0].message.content,
        "choice": chat(extra_body={"guided_choice": ["yes", "no"]}).choices[0].message.content,
        "regex": chat(extra_body={"structured_outputs": {"regex": "[0-9]{3}"}}
                      ).choices[0].message.content,
        "biased": complete(logit_bias={"36": -100}).choices[0].text,
        "bad_words": complete(extra_body={"bad_words": ["4"]}).choices[0].text,
        "min_tokens": chat(extra_body={"min_tokens": 24}).usage.completion_tokens,
    }


def function(name: str, **properties: Any) -> dict[str, Any]:
    return {"type": "function", "function": {
        "name": name, "description": f"The {name} in a city.",
        "parameters": {"type": "object", "additionalProperties": False,
                       "required": list(properties), "properties": properties}}}


def tools() -> dict[str, Any]:
    """Calls of functions: forced, in a stream, one after another, and their results."""
    offered = [function("weather", city={"enum": ["Rome", "Oslo"]}),
               function("time", zone={"enum": ["UTC"]})]

    def ask(**options: Any) -> Any:
        return chat(tools=offered, max_tokens=120, **options)
    named = ask(tool_choice={"type": "function", "function": {"name": "weather"}})
    message = named.choices[0].message
    one = ask(tool_choice="required", parallel_tool_calls=False, temperature=1, seed=1)
    pieces: dict[int, Any] = {}
    for chunk in ask(tool_choice="required", parallel_tool_calls=False, temperature=1, seed=1,
                     stream=True):
        for choice in chunk.choices:
            for call in choice.delta.tool_calls or []:
                piece = pieces.setdefault(call.index, ["", ""])
                piece[0] += call.function.name or ""
                piece[1] += call.function.arguments or ""
    loop = ask(tool_choice="none", messages=[
        *ASK, message.to_dict(),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}])
    allowed = ask(tool_choice={"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "function", "function": {"name": "time"}}]}},
        parallel_tool_calls=False)
    return {
        "named": [[call.function.name, call.function.arguments] for call in message.tool_calls],
        "named_reason": named.choices[0].finish_reason,
        "named_content": message.content,
        "one": [[call.function.name, call.function.arguments]
                for call in one.choices[0].message.tool_calls],
        "one_in_pieces": list(pieces.values()),
        "loop_reason": loop.choices[0].finish_reason,
        "allowed": [call.function.name for call in allowed.choices[0].message.tool_calls],
        "auto": ask(tool_choice="auto").choices[0].finish_reason,
        "unknown": error_of(lambda: ask(tool_choice={"type": "function",
                                                     "function": {"name": "nope"}})),
    }


def responses() -> dict[str, Any]:
    """The API of responses: texts, forms, calls and their results."""
    def ask(**options: Any) -> Any:
        return CLIENT.responses.create(model=MODEL, **{
            "input": ASK[0]["content"], "max_output_tokens": 24, "temperature": 0} | options)
    types, streamed = [], None
    with CLIENT.responses.stream(model=MODEL, input=ASK[0]["content"], max_output_tokens=24,
                                 temperature=0) as stream:
        for event in stream:
            types.append(event.type)
        # The client knows the final response only of those that are not cut.
        streamed = event.response
    weather = {"type": "function", "strict": True, **function(
        "weather", city={"enum": ["Rome", "Oslo"]})["function"]}
    forced = {"tools": [weather], "tool_choice": {"type": "function", "name": "weather"},
              "max_output_tokens": 120}
    called = ask(**forced)
    with CLIENT.responses.stream(model=MODEL, input=ASK[0]["content"], temperature=0,
                                 **forced) as stream:
        call_in_pieces = "".join(event.delta for event in stream
                                 if event.type == "response.function_call_arguments.delta")
    again = ask(input=[*ASK, *(item.to_dict() for item in called.output),
                       {"type": "function_call_output", "call_id": called.output[0].call_id,
                        "output": "rain"}], instructions="Be brief.")
    form = ask(max_output_tokens=60, text={"format": {
        "type": "json_schema", "name": "s", "schema": SCHEMA, "strict": True}})
    return {
        "text": ask().output_text,
        "status": ask().status,
        "usage": ask().usage.to_dict(),
        "streamed": streamed.output_text,
        "types": types,
        "called": [[item.type, item.name, item.arguments] for item in called.output],
        "call_in_pieces": call_in_pieces,
        "again": again.output_text,
        "form": form.output_text,
        "stored": error_of(lambda: ask(previous_response_id="resp_1")),
    }


class Rain(pydantic.BaseModel):
    kind: Literal["rain"]
    millimetres: int


class Sun(pydantic.BaseModel):
    kind: Literal["sun"]
    hours: Optional[int]


class Report(pydantic.BaseModel):
    """The weather of a city."""
    city: Literal["Rome", "Oslo"]
    weather: Union[Rain, Sun]
    days: list[Union[Rain, Sun]] = pydantic.Field(max_length=2)
    note: Optional[Literal["dry", "wet"]] = None


def parse() -> dict[str, Any]:
    """What the client itself makes of pydantic's models, and reads into them."""
    def parsed(**options: Any) -> Any:
        return CLIENT.chat.completions.parse(model=MODEL, messages=ASK, **{
            "temperature": 1, "seed": 1, "max_tokens": 300} | options).choices[0].message

    offered = [openai.pydantic_function_tool(Report), openai.pydantic_function_tool(Sun)]
    calls = parsed(tools=offered, tool_choice="required", parallel_tool_calls=False).tool_calls
    named = parsed(tools=offered, tool_choice={"type": "function", "function": {"name": "Sun"}}
                   ).tool_calls
    with CLIENT.chat.completions.stream(model=MODEL, messages=ASK, temperature=1, seed=1,
                                        max_tokens=300, response_format=Report) as stream:
        streamed = stream.get_final_completion().choices[0].message.parsed
    response = CLIENT.responses.parse(model=MODEL, input=ASK[0]["content"], text_format=Report,
                                      temperature=1, max_output_tokens=300,
                                      extra_body={"seed": 1})
    return {
        "form": parsed(response_format=Report).parsed.model_dump(),
        "streamed": streamed.model_dump(),
        "response": response.output_parsed.model_dump(),
        "called": [[call.function.name, type(call.function.parsed_arguments).__name__]
                   for call in calls],
        "named": [type(call.function.parsed_arguments).__name__ for call in named],
    }


def errors() -> dict[str, Any]:
    wrong = openai.OpenAI(base_url=f"{URL}/v1", api_key="wrong", max_retries=0)
    return {
        "no_key": error_of(lambda: wrong.chat.completions.create(model=MODEL, messages=ASK)),
        "too_long": error_of(lambda: chat(messages=[{"role": "user", "content": "a b " * 9000}])),
        "other_model": error_of(lambda: CLIENT.chat.completions.create(model="nope", messages=ASK)),
        "min_tokens": error_of(lambda: chat(extra_body={"min_tokens": 30})),
        "suffix": error_of(lambda: complete(suffix="x")),
        "unknown": error_of(lambda: chat(extra_body={"no_such_field": 1})),
        "bad_schema": error_of(lambda: chat(response_format={
            "type": "json_schema", "json_schema": {"name": "s", "schema": {
                "not": {"type": "string"}}}})),
        "stream": error_of(lambda: chat(stream=True, temperature=-1)),
    }


def leave() -> dict[str, Any]:
    """A client that goes away after the first piece of a long answer."""
    stream = chat(stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    return {}


print(json.dumps({"text": text, "forms": forms, "tools": tools, "responses": responses,
                  "parse": parse, "errors": errors, "leave": leave}[SCENARIO]()))
