"""Calls an HTTP gateway with OpenAI's and Anthropic's own clients, and prints a
JSON object of what they saw. Run by gateway_test.py in the clients' environment.

    http_clients.py URL KEY MODEL SCENARIO
"""

import json
import sys
import threading

import anthropic
import openai

URL, KEY, MODEL, SCENARIO = sys.argv[1:]
# No retries: the tests count what fails.
OPENAI = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
ANTHROPIC = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
ASK = [{"role": "user", "content": "What is a glacier? One sentence."}]


def chat(**options):
    return OPENAI.chat.completions.create(model=MODEL, **{"messages": ASK, "max_tokens": 24,
                                                          "temperature": 0} | options)


def complete(**options):
    return OPENAI.completions.create(model=MODEL, **{"prompt": "Count: 1, 2, 3,",
                                                     "max_tokens": 24, "temperature": 0} | options)


def error_of(call):
    try:
        call()
    except openai.APIStatusError as error:
        return {"status": error.status_code, "message": error.message}
    return {"status": 200, "message": ""}


def everything():
    whole = chat()
    pieces, usage = [], None
    for chunk in chat(stream=True, stream_options={"include_usage": True}):
        pieces += [choice.delta.content or "" for choice in chunk.choices]
        usage = chunk.usage or usage
    stopped = complete(stop=["7"])
    streamed = "".join(c.choices[0].text for c in complete(stop=["7"], stream=True) if c.choices)
    several = complete(prompt="The capital of France is", temperature=1, seed=3, n=3, max_tokens=8)
    logprobs = chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
    said = ANTHROPIC.messages.create(model=MODEL, max_tokens=24, messages=ASK,
                                     extra_body={"temperature": 0})
    with ANTHROPIC.messages.stream(model=MODEL, max_tokens=24, messages=ASK,
                                   extra_body={"temperature": 0}) as stream:
        said_in_pieces = "".join(stream.text_stream)
    return {
        "models": [model.id for model in OPENAI.models.list()],
        "chat": whole.choices[0].message.content,
        "chat_usage": whole.usage.to_dict(),
        "finish_reason": whole.choices[0].finish_reason,
        "streamed": "".join(pieces),
        "num_pieces": len(pieces),
        "streamed_usage": usage.to_dict(),
        "stopped": stopped.choices[0].text,
        "stopped_reason": stopped.choices[0].finish_reason,
        "stopped_tokens": stopped.usage.completion_tokens,
        "stopped_stream": streamed,
        "outputs": [choice.text for choice in several.choices],
        "outputs_alone": [complete(prompt="The capital of France is", temperature=1, seed=3 + i,
                                   max_tokens=8).choices[0].text for i in range(3)],
        "logprobs": [{"token": entry.token, "logprob": entry.logprob,
                      "top": [[top.token, top.logprob] for top in entry.top_logprobs]}
                     for entry in logprobs],
        "seeded": [chat(temperature=1, seed=7).choices[0].message.content for _ in range(2)],
        "anthropic": said.content[0].text,
        "anthropic_usage": [said.usage.input_tokens, said.usage.output_tokens],
        "anthropic_stream": said_in_pieces,
        "responses": OPENAI.responses.create(model=MODEL, input="Say hello",
                                             max_output_tokens=8, temperature=0).output_text,
    }


SCHEMA = {"type": "object", "additionalProperties": False, "required": ["color", "count"],
          "properties": {"color": {"enum": ["red", "green"]},
                         "count": {"type": "integer", "minimum": 0, "maximum": 9}}}


def constrained():
    weather = {"type": "function", "function": {
        "name": "weather", "description": "The weather in a city.",
        "parameters": {"type": "object", "additionalProperties": False, "required": ["city"],
                       "properties": {"city": {"enum": ["Rome", "Oslo"]}}}}}
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA,
                                                     "strict": True}}
    forced = chat(tools=[weather], max_tokens=60,
                  tool_choice={"type": "function", "function": {"name": "weather"}})
    call = forced.choices[0].message.tool_calls[0].function
    return {
        "schema": [chat(response_format=schema, temperature=1, seed=i,
                        max_tokens=60).choices[0].message.content for i in range(4)],
        "schema_stream": "".join(
            chunk.choices[0].delta.content or ""
            for chunk in chat(response_format=schema, temperature=1, seed=0, max_tokens=60,
                              stream=True) if chunk.choices),
        "object": chat(response_format={"type": "json_object"}, max_tokens=40
                       ).choices[0].message.content,
        "tool": [call.name, call.arguments],
        "bad_schema": error_of(lambda: chat(response_format={
            "type": "json_schema", "json_schema": {"name": "s", "schema": {
                "not": {"type": "string"}}}})),
    }


def errors():
    return {
        "no_key": error_of(lambda: openai.OpenAI(base_url=f"{URL}/v1", api_key="wrong",
                                                 max_retries=0).chat.completions.create(
                                                     model=MODEL, messages=ASK)),
        "too_long": error_of(lambda: chat(messages=[{"role": "user", "content": "a b " * 9000}])),
        "other_model": error_of(lambda: OPENAI.chat.completions.create(model="nope",
                                                                       messages=ASK)),
        "min_tokens": error_of(lambda: chat(extra_body={"min_tokens": 30})),
    }


def leave():
    """A client that goes away after the first piece of a long answer."""
    stream = chat(stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    return {}


def many():
    """Prints a line when the tenth of 40 answers is there, then all texts."""
    texts, lock = [], threading.Lock()

    def ask(thread):
        for number in range(10):
            text = chat(temperature=1, seed=number, max_tokens=16).choices[0].message.content
            with lock:
                texts.append([number, text])
                if len(texts) == 10:
                    print("ten", flush=True)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"texts": texts}


print(json.dumps({"everything": everything, "constrained": constrained, "errors": errors, "leave": leave,
                  "many": many}[SCENARIO]()))
