#!/usr/bin/env python3
"""A drafter service in Python: proposes what followed the last token before.

    apt-get install python3-grpcio python3-protobuf protobuf-compiler-grpc
    protoc -Iproto --python_out=OUT --grpc_out=OUT \\
        --plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin \\
        espalier/v1/types.proto espalier/v1/drafter.proto
    PYTHONPATH=OUT drafter.py ADDRESS VOCAB_SIZE TOKENIZER_FINGERPRINT

(With pip: grpcio and grpcio-tools.) `espalier info` of a running cluster shows the
vocabulary's size and the tokenizer's fingerprint. `espalier conformance ADDRESS
--model FOLDER` checks what a drafter must do.
"""

import concurrent.futures
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
from espalier.v1 import drafter_pb2 as pb, drafter_pb2_grpc, types_pb2

PROTOCOL_VERSION = 2
INVALID_ARGUMENT, FAILED_PRECONDITION = 3, 9
MASK = (1 << 64) - 1


def prefix_hash(tokens: list[int]) -> int:
    """Of common/speculation/prefix_hash.h: both sides hold the same text."""
    value = 0x9E3779B97F4A7C15
    for token in tokens:
        x = value ^ (token + 0x9E3779B97F4A7C15 & MASK)
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
        x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
        value = x ^ x >> 31
    return value


class Problem(Exception):
    """Why a request is refused; the stream goes on."""

    def __init__(self, code: int, message: str, held: int | None = None) -> None:
        super().__init__(message)
        self.failure = types_pb2.Failure(code=code, message=message, held_length=held)


def draft(tokens: list[int], max_nodes: int, max_depth: int) -> Any:
    """A chain: what came after the last earlier place of the last token."""
    earlier = [i for i, token in enumerate(tokens[:-1]) if token == tokens[-1]]
    chain = tokens[earlier[-1] + 1:] if earlier else []
    chain = chain[:min(max_nodes, max_depth)]
    return types_pb2.TokenTree(token=[tokens[-1], *chain], parent=range(-1, len(chain)),
                               log_prob=[-0.5 * i for i in range(len(chain) + 1)])


class Drafter(drafter_pb2_grpc.DrafterServicer):
    def __init__(self, vocab_size: int, fingerprint: int) -> None:
        self.model = types_pb2.ModelIdentity(vocab_size=vocab_size,
                                             tokenizer_fingerprint=fingerprint)

    def greet(self, hello: Any, context: Any) -> Any:
        ours, theirs = self.model, hello.model
        if (hello.protocol_version, theirs.vocab_size, theirs.tokenizer_fingerprint) != (
                PROTOCOL_VERSION, ours.vocab_size, ours.tokenizer_fingerprint):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "another protocol or tokenizer")
        return pb.DrafterHello(protocol_version=PROTOCOL_VERSION, name="python", type="recency",
                               model=theirs, max_nodes=16, max_depth=16)

    def update(self, held: list[int], message: Any) -> list[int]:
        """The committed tokens after the update; `held` before."""
        if not message.HasField("key") or not message.HasField("sampling"):
            raise Problem(INVALID_ARGUMENT, "update.key and update.sampling are needed")
        if any(token >= self.model.vocab_size for token in message.new_tokens):
            raise Problem(INVALID_ARGUMENT, "update.new_tokens: not of the vocabulary")
        base = message.key.base_length
        if base > len(held) or prefix_hash(held[:base]) != message.key.prefix_hash:
            raise Problem(FAILED_PRECONDITION, "not the text that is held",
                          len(held) if base > len(held) else 0)
        tokens = held[:base] + list(message.new_tokens)
        if not tokens:
            raise Problem(INVALID_ARGUMENT, "update: no tokens")
        return tokens

    def propose(self, texts: dict[int, list[int]], message: Any) -> Any:
        key = message.update.key
        tokens = self.update(texts.get(key.session_id, []), message.update)
        texts[key.session_id] = tokens
        return pb.Proposal(round=key.round, committed_length=len(tokens),
                           tree=draft(tokens, message.max_nodes, message.max_depth))

    def Draft(self, requests: Iterable[Any], context: Any) -> Iterator[Any]:
        texts: dict[int, list[int]] = {}  # by session; they end with the stream
        for number, request in enumerate(requests):
            answer = pb.DraftResponse(request_id=request.request_id)
            if number == 0:
                answer.hello.CopyFrom(self.greet(request.hello, context))
            elif request.HasField("end_sequence"):
                texts.pop(request.end_sequence.session_id, None)
                continue
            else:
                try:
                    answer.proposal.CopyFrom(self.propose(texts, request.propose))
                except Problem as problem:
                    answer.failure.CopyFrom(problem.failure)
            yield answer


def main(address: str, vocab_size: str, fingerprint: str, kind: type[Drafter] = Drafter) -> None:
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
    drafter_pb2_grpc.add_DrafterServicer_to_server(
        kind(int(vocab_size), int(fingerprint, 16)), server)
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
