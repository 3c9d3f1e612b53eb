"""What http_fields_test.py sends: every parameter of the HTTP APIs, with a value that
is followed and one that is refused."""

from collections.abc import Callable
from typing import Any, NamedTuple

ASK = "What is a glacier? One sentence."
START = "Count: 1, 2, 3,"
TOKENS = 8  # of each answer
NONE = object()


class Trial(NamedTuple):
    """`value` with the fields `more` is followed, `wrong` is refused.

    `grpc`: the same in our own API, which then gives the same text; None: it has no
    such field, and `seen(body)` says whether the answer has what was asked for.
    `grpc_wrong`: what our own API refuses with the same words."""
    value: object
    grpc: dict | None = None
    wrong: object = NONE
    grpc_wrong: dict | None = None
    more: dict = {}
    grpc_more: dict = {}
    seen: Callable[[dict[str, Any]], object] | None = None


def followed(value: object, field: str, wrong: object) -> Trial:
    """A field of which our own API has one that takes the same values."""
    return Trial(value, {field: value}, wrong, {field: wrong})


def limited(value: object, field: str, wrong: object) -> Trial:
    """As `followed`, where HTTP has narrower limits."""
    return Trial(value, {field: value}, wrong)


def choices(body: dict[str, Any]) -> list[dict[str, Any]]:
    return body.get("choices", [])


ACCEPTED = Trial("x", {})
NEVER_THE_END: dict[str, Any] = {"more": {"logit_bias": {"2": 100}},
                                 "grpc_more": {"logitBias": {"2": 100}}}
SPECIAL: dict[str, Any] = {"more": {"logit_bias": {"1": 100}},
                           "grpc_more": {"logitBias": {"1": 100}}}
SCHEMA, SCHEMA_TEXT = {"enum": ["x", "y"]}, '{"enum":["x","y"]}'
BAD_SCHEMA, BAD_SCHEMA_TEXT = {"minProperties": "x"}, '{"minProperties":"x"}'

# All four APIs have these.
SHARED = {
    "model": Trial("smollm2-135m-instruct", {}, "other", {"model": "other"}),
    "temperature": followed(0.3, "temperature", 101),
    "top_p": followed(0.1, "topP", 2),
    "top_k": limited(1, "topK", -2),
    "min_p": followed(0.9, "minP", 2),
    "typical_p": followed(0.1, "typicalP", 2),
    "repetition_penalty": followed(10, "repetitionPenalty", 1000),
    "frequency_penalty": followed(2, "frequencyPenalty", 3),
    "presence_penalty": followed(2, "presencePenalty", -3),
    "seed": limited(8, "seed", "x"),
    "max_tokens": limited(5, "maxTokens", 0),
    "min_tokens": Trial(4, {"minTokens": 4}, 9999, {"minTokens": 9999}, **NEVER_THE_END),
    "logit_bias": Trial({"6392": -100, "36": -100}, {"logitBias": {"6392": -100, "36": -100}},
                        {"1": 200}, {"logitBias": {"1": 200}}),
    "stop_token_ids": Trial([12197, 10617], {"stopTokenIds": [12197, 10617]}, [1 << 20],
                            {"stopTokenIds": [1 << 20]}),
    "bad_words": followed(["frozen", "Number"], "badWords", [""]),
    "ignore_eos": Trial(True, {"ignoreEos": True}, 1, **NEVER_THE_END),
    "cache_salt": followed("s", "cacheSalt", ""),
    "priority": limited(1, "priority", -1),
    "stream": Trial(True, {}, 1, seen=lambda body: body["events"] > 3),
    "espalier": Trial({"enabled": False}, {"speculation": {"enabled": False}},
                      {"drafters": ["other"]}, {"speculation": {"drafters": ["other"]}},
                      seen=lambda body: body["espalier"]["tau"] == 1),
    "skip_special_tokens": Trial(False, {"showSpecialTokens": True}, 1, **SPECIAL),
    **dict.fromkeys(("user", "metadata", "store", "service_tier", "safety_identifier",
                     "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
                     "spaces_between_special_tokens"), ACCEPTED),
}
SHARED_REFUSED = ("use_beam_search", "length_penalty", "truncate_prompt_tokens",
                  "allowed_token_ids", "logits_processors", "request_id")

# Chats and completions have these, and others as far as their tables do not refuse them.
OPENAI = {
    "n": Trial(2, {"n": 2}, 33, {"n": 33}),
    "stop": followed(["fro", "Num"], "stop", [""]),
    "include_stop_str_in_output": Trial(
        True, {"includeStopStrInOutput": True}, 1, more={"stop": ["fro", "Num"]},
        grpc_more={"stop": ["fro", "Num"]}),
    "prompt_logprobs": Trial(2, {"promptLogprobs": 2}, 21, {"promptLogprobs": 21},
                             seen=lambda body: "prompt_logprobs" in str(body)),
    "stream_options": Trial({"include_usage": True}, {}, {"other": True},
                            more={"stream": True}, seen=lambda body: body["usage_events"] == 1),
    "return_token_ids": Trial(True, {}, 1,
                              seen=lambda body: len(choices(body)[0]["token_ids"]) == TOKENS),
}
FORMS = {
    "response_format": Trial({"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}},
                             {"structuredOutput": {"jsonSchema": SCHEMA_TEXT}},
                             {"type": "other"}),
    "structured_outputs": Trial({"choice": ["yes", "no"]},
                                {"structuredOutput": {"choice": {"texts": ["yes", "no"]}}},
                                {"regex": "["}, {"structuredOutput": {"regex": "["}}),
    "guided_json": Trial(SCHEMA, {"structuredOutput": {"jsonSchema": SCHEMA_TEXT}}, BAD_SCHEMA,
                         {"structuredOutput": {"jsonSchema": BAD_SCHEMA_TEXT}}),
    "guided_regex": Trial("[0-9]{3}", {"structuredOutput": {"regex": "[0-9]{3}"}}, "[",
                          {"structuredOutput": {"regex": "["}}),
    "guided_choice": Trial(["yes", "no"],
                           {"structuredOutput": {"choice": {"texts": ["yes", "no"]}}}, [],
                           {"structuredOutput": {"choice": {}}}),
    "guided_grammar": Trial('root ::= "yes" | "no"',
                            {"structuredOutput": {"grammar": 'root ::= "yes" | "no"'}}, "root",
                            {"structuredOutput": {"grammar": "root"}}),
}
FORMS_REFUSED = ("guided_decoding_backend", "guided_whitespace_pattern")


def message(role: str, content: object) -> dict[str, Any]:
    return {"role": role, "content": content}


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {
        "name": name, "parameters": {"type": "object", "additionalProperties": False,
                                     "required": ["a"],
                                     "properties": {"a": {"enum": ["x", "y"]}}}}}


def called(body: dict[str, Any]) -> list[Any]:
    return [call["function"]["name"] for call in choices(body)[0]["message"].get("tool_calls", [])]


LONG = {"max_tokens": 120}
CONTINUED = {"messages": [message("user", ASK), message("assistant", "A glacier")]}
CONTINUED_CHAT = {"chat": CONTINUED}
CHAT = {
    "messages": Trial([message("user", "Hi.")], {"chat": {"messages": [message("user", "Hi.")]}},
                      [message("nobody", "Hi.")],
                      {"chat": {"messages": [message("nobody", "Hi.")]}}),
    "chat_template_kwargs": Trial({}, {}, {"enable_thinking": True},
                                  {"chat": {"templateArgs": '{"enable_thinking":true}'}}),
    "add_generation_prompt": Trial(False, {"chat": {"end": "CHAT_END_NOTHING"}}, 1),
    "continue_final_message": Trial(True, {"chat": {"end": "CHAT_END_CONTINUE"}}, 1,
                                    more=CONTINUED, grpc_more=CONTINUED_CHAT),
    "tools": Trial([function("f")], None, [{"type": "other"}],
                   more={"tool_choice": "required", "parallel_tool_calls": False, **LONG},
                   seen=lambda body: called(body) == ["f"]),
    "max_completion_tokens": limited(5, "maxTokens", 0),
    "logprobs": Trial(True, {"logprobs": 0}, 1,
                      seen=lambda body: len(choices(body)[0]["logprobs"]["content"]) == TOKENS),
    "top_logprobs": Trial(2, {"logprobs": 2}, 21, {"logprobs": 21}, more={"logprobs": True}, seen=lambda body: [
        len(entry["top_logprobs"]) for entry in choices(body)[0]["logprobs"]["content"]] == [2] * TOKENS),
    "tool_choice": Trial({"type": "function", "function": {"name": "g"}}, None, "other",
                         more={"tools": [function("f"), function("g")], **LONG},
                         seen=lambda body: called(body) == ["g"]),
    "parallel_tool_calls": Trial(False, None, 1,
                                 more={"tools": [function("f")], "tool_choice": "required", **LONG},
                                 seen=lambda body: called(body) == ["f"]),
    "modalities": Trial(["text"], {}, ["audio"]),
}
CHAT_REFUSED = ("chat_template", "reasoning_effort", "audio", "functions", "function_call",
                "prediction", "web_search_options", "moderation", "verbosity")

COMPLETION = {
    "prompt": Trial([1, 4093], {"tokenIds": {"ids": [1, 4093]}}, [1 << 20],
                    {"tokenIds": {"ids": [1 << 20]}}),
    "echo": Trial(True, {"echo": True}, 1,
                  seen=lambda body: choices(body)[0]["text"].startswith(START)),
    "logprobs": Trial(2, {"logprobs": 2}, 21, {"logprobs": 21}, seen=lambda body: [
        len(top) for top in choices(body)[0]["logprobs"]["top_logprobs"]] == [2] * TOKENS),
    "best_of": Trial(1, {}, 2),
    # deploy/resume_test.py resumes answers that have begun.
    "resumption": Trial({"outputs": [{"token_ids": []}]}, {"resumption": {"outputs": [{}]}},
                        {"outputs": []}, {"resumption": {"outputs": []}}),
}
COMPLETION_REFUSED = ("suffix",)


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "input_schema": function(name)["function"]["parameters"]}


def used(body: dict[str, Any]) -> list[Any]:
    return [block["name"] for block in body["content"] if block["type"] == "tool_use"]


MESSAGES = {
    "messages": Trial([message("user", "Hi.")], {"chat": {"messages": [message("user", "Hi.")]}},
                      [message("system", "Hi.")]),
    "system": Trial("Be brief.", {"chat": {"messages": [message("system", "Be brief."),
                                                        message("user", ASK)]}}, 1),
    "stop_sequences": followed(["fro", "Num"], "stop", [""]),
    "tools": Trial([tool("f")], None, [{"name": "f"}],
                   more={"tool_choice": {"type": "any"}, **LONG},
                   seen=lambda body: used(body)[0] == "f"),
    "tool_choice": Trial({"type": "tool", "name": "g"}, None, {"type": "other"},
                         more={"tools": [tool("f"), tool("g")], **LONG},
                         seen=lambda body: used(body) == ["g"]),
    "thinking": Trial({"type": "disabled"}, {}, {"type": "other"}),
    "output_config": Trial({"format": {"type": "json_schema", "schema": SCHEMA}},
                           {"structuredOutput": {"jsonSchema": SCHEMA_TEXT}},
                           {"format": {"type": "json_schema"}}),
    "cache_control": ACCEPTED,
    "inference_geo": ACCEPTED,
}
MESSAGES_REFUSED = (
    "n", "stream_options", "stop", "prompt_logprobs", "return_token_ids", "diagnostics", "speed",
    "user_profile_id", "workspace_id", "container", "mcp_servers", "context_management")


def response_tool(name: str) -> dict[str, Any]:
    return {"type": "function", **function(name)["function"]}


def items(body: dict[str, Any]) -> list[Any]:
    return [item["name"] for item in body["output"] if item["type"] == "function_call"]


LONG_RESPONSE = {"max_output_tokens": 120}
RESPONSES = {
    "input": Trial([message("user", "Hi.")], {"chat": {"messages": [message("user", "Hi.")]}},
                   [{"type": "other"}]),
    "instructions": Trial("Be brief.", {"chat": {"messages": [message("system", "Be brief."),
                                                              message("user", ASK)]}}, 1),
    "max_output_tokens": limited(5, "maxTokens", 0),
    "text": Trial({"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}},
                  {"structuredOutput": {"jsonSchema": SCHEMA_TEXT}},
                  {"format": {"type": "other"}}),
    "tools": Trial([response_tool("f")], None, [{"type": "other"}],
                   more={"tool_choice": "required", **LONG_RESPONSE},
                   seen=lambda body: items(body)[0] == "f"),
    "tool_choice": Trial({"type": "function", "name": "g"}, None, "other",
                         more={"tools": [response_tool("f"), response_tool("g")], **LONG_RESPONSE},
                         seen=lambda body: items(body) == ["g"]),
    "parallel_tool_calls": Trial(False, None, 1, more={
        "tools": [response_tool("f")], "tool_choice": "required", **LONG_RESPONSE},
        seen=lambda body: items(body) == ["f"]),
    "reasoning": Trial({"effort": "low"}, {}, 1,
                       seen=lambda body: "reasoning.effort" in str(body["espalier"]["warnings"])),
    "background": Trial(False, {}, True),
    "include": Trial([], {}, ["reasoning.encrypted_content"]),
    "truncation": Trial("disabled", {}, "auto"),
    "stream_options": Trial({"include_obfuscation": False}, {}, {"other": True},
                            more={"stream": True}),
}
RESPONSES_REFUSED = (
    "previous_response_id", "conversation", "prompt", "access_programs", "background_options",
    "context_management", "image", "moderation", "max_tool_calls", "top_logprobs", "n", "stop",
    "max_tokens", "prompt_logprobs", "return_token_ids")

TOKENIZE = {
    "prompt": Trial(START, None, 1, seen=lambda body: body["count"] == 11),
    "messages": Trial([message("user", ASK)], None, [], seen=lambda body: body["count"] == 38),
    "return_token_strs": Trial(True, None, 1, more={"prompt": START},
                               seen=lambda body: "".join(body["token_strs"]) == START),
    "add_special_tokens": Trial(True, None, False, more={"prompt": START},
                                seen=lambda body: body["count"] == 11),
}
DETOKENIZE = {
    "tokens": Trial([49, 25077], None, [1 << 20], seen=lambda body: body["prompt"] == "A glacier"),
}
