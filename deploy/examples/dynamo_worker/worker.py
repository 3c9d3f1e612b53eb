#!/usr/bin/env python3
"""A worker of NVIDIA Dynamo whose engine is an Espalier coordinator.

    worker.py --address 127.0.0.1:50051 --model deploy/models/nanogpt-char \\
        --discovery-backend file

Dynamo's frontend serves OpenAI's API, and with --migration-limit it sends a request whose
worker is lost to another one: the prompt and the tokens that came, as a longer prompt. A
token of Espalier is a function of the tokens before it, the parameters and the seed, so the
text goes on as if nothing had happened (README.md).

Needs the packages of README.md and the stubs of proto/ on the path.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
from dynamo.common.backend import EngineConfig, LLMEngine, LlmRegistration, WorkerConfig
from dynamo.common.backend.run import run
from dynamo.llm.exceptions import Disconnected, InvalidArgument, Unknown
from espalier.v1 import inference_pb2 as pb
from espalier.v1 import inference_pb2_grpc

# Sampling options of Dynamo that mean the same in a request to Espalier, and those that ask
# for nothing at these values. All others are refused.
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
WITHOUT_EFFECT = {"n": (1,), "best_of": (1,), "frequency_penalty": (0,), "presence_penalty": (0,),
                  "length_penalty": (1,), "use_beam_search": (False,),
                  "include_stop_str_in_output": (False,)}
FINISH_REASONS = {pb.FINISH_REASON_STOP: "stop", pb.FINISH_REASON_LENGTH: "length"}


def seed_of(request_id: str) -> int:
    """The seed of a request that names none: the same at each worker that gets the request."""
    return int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:8], "big")


def to_espalier(request: Any, request_id: str) -> Any:
    """The request to Espalier. Raises InvalidArgument for what it would not follow."""
    wanted = pb.GenerateRequest(token_ids=pb.TokenIds(ids=request["token_ids"]), temperature=1.0,
                                seed=seed_of(request_id))
    for name, value in (request.get("sampling_options") or {}).items():
        if value is None or value in WITHOUT_EFFECT.get(name, ()):
            continue
        if name == "guided_decoding":
            wanted.structured_output.CopyFrom(to_structured_output(value))
        elif name == "seed":
            wanted.seed = value
        elif name == "top_k":
            wanted.top_k = max(value, 0)  # -1: all
        elif name in SAMPLING:
            setattr(wanted, name, value)
        else:
            raise InvalidArgument(f"{name}: Espalier's worker does not follow it")
    stop = request.get("stop_conditions") or {}
    for name in ("max_tokens", "min_tokens", "ignore_eos"):
        if stop.get(name) is not None:
            setattr(wanted, name, stop[name])
    if stop.get("max_thinking_tokens") is not None:
        raise InvalidArgument("max_thinking_tokens: Espalier's worker does not follow it")
    # Stop strings are the frontend's: it cuts the text and ends the request.
    for name in ("stop_token_ids", "stop_token_ids_hidden", "stop_token_ids_visible"):
        wanted.stop_token_ids.extend(stop.get(name) or [])
    output = request.get("output_options") or {}
    if output.get("prompt_logprobs") is not None:
        raise InvalidArgument("prompt_logprobs: Espalier's worker does not follow it")
    if output.get("logprobs") is not None:
        wanted.logprobs = output["logprobs"]
    return wanted


def to_structured_output(guided: Any) -> Any:
    import json
    given = {name: value for name, value in guided.items()
             if value is not None and name not in ("backend", "whitespace_pattern")}
    if len(given) != 1 or guided.get("whitespace_pattern") is not None:
        raise InvalidArgument("guided_decoding: one of json, regex, choice, grammar")
    (name, value), = given.items()
    if name == "json":
        return pb.StructuredOutput(
            json_schema=value if isinstance(value, str) else json.dumps(value))
    if name == "choice":
        return pb.StructuredOutput(choice=pb.StructuredOutput.Choice(texts=value))
    if name in ("regex", "grammar"):
        return pb.StructuredOutput(**{name: value})
    raise InvalidArgument(f"guided_decoding.{name}: Espalier's worker does not follow it")


def to_chunk(message: Any) -> dict[str, Any]:
    """What Dynamo gets for a message: its tokens, and at the end the reason and the counts."""
    chunk = {"token_ids": list(message.token_ids), "index": 0}
    if message.logprobs:
        chunk["log_probs"] = [position.chosen.logprob for position in message.logprobs]
        chunk["top_logprobs"] = [
            [{"rank": rank, "token_id": token.token_id, "logprob": token.logprob,
              "token": token.token.decode(errors="replace")}
             for rank, token in enumerate(position.top, 1)] for position in message.logprobs]
    if message.HasField("summary"):
        usage = message.summary.usage
        chunk["finish_reason"] = FINISH_REASONS[message.summary.finish_reason]
        chunk["completion_usage"] = {name: getattr(usage, name) for name in
                                     ("prompt_tokens", "completion_tokens", "total_tokens")}
    return chunk


def to_dynamo(error: Any) -> Any:
    """The exception that tells Dynamo what to do: after Disconnected it tries another worker."""
    text = f"Espalier: {error.details()}"
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
        return Disconnected(text)
    if error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED):
        return InvalidArgument(text)
    return Unknown(text)


class EspalierEngine(LLMEngine):
    def __init__(self, address: str, model: str) -> None:
        self._address, self._model = address, model
        self._channel: Any = None
        self._stub: Any = None
        self._calls: dict[str, Any] = {}  # by the request's id

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple[EspalierEngine, Any]:
        parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
        parser.add_argument("--address", required=True, help="HOST:PORT or unix:PATH")
        parser.add_argument("--model", required=True,
                            help="folder of the model, for the frontend's tokenizer and template")
        parser.add_argument("--namespace", default="dynamo")
        parser.add_argument("--component", default="espalier")
        parser.add_argument("--endpoint", default="generate")
        parser.add_argument("--discovery-backend", default="etcd")
        arguments = parser.parse_args(argv)
        engine = cls(arguments.address, arguments.model)
        return engine, WorkerConfig(
            namespace=arguments.namespace, component=arguments.component,
            endpoint=arguments.endpoint, model_name=arguments.model,
            discovery_backend=arguments.discovery_backend, enable_kv_routing=False)

    async def start(self, worker_id: int) -> Any:
        self._channel = grpc.aio.insecure_channel(self._address)
        self._stub = inference_pb2_grpc.InferenceStub(self._channel)
        served = await self._stub.GetModelInfo(pb.GetModelInfoRequest(), wait_for_ready=True)
        return EngineConfig(model=self._model, served_model_name=served.model,
                            llm=LlmRegistration(context_length=served.max_context))

    async def generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        call = self._stub.Generate(to_espalier(request, context.id()))
        self._calls[context.id()] = call
        try:
            async for message in call:
                yield to_chunk(message)
        except grpc.aio.AioRpcError as error:
            raise to_dynamo(error) from error
        finally:
            call.cancel()
            self._calls.pop(context.id(), None)

    async def abort(self, context: Any) -> None:
        if call := self._calls.get(context.id()):
            call.cancel()

    async def cleanup(self) -> None:
        if self._channel:
            await self._channel.close()


if __name__ == "__main__":
    run(EspalierEngine)
