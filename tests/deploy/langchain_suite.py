"""LangChain's standard suite for chat models, with the unmodified client of OpenAI's
API against our HTTP. Run by http_clients_test.py under pytest, in the environment of these
clients; ESPALIER_URL, ESPALIER_KEY and ESPALIER_MODEL say what is called."""

import os
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestChat(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict:
        return {"model": os.environ["ESPALIER_MODEL"], "temperature": 0, "max_tokens": 300,
                "frequency_penalty": 0.6, "model_kwargs": {"parallel_tool_calls": False},
                "base_url": os.environ["ESPALIER_URL"] + "/v1", "max_retries": 0,
                "api_key": os.environ["ESPALIER_KEY"], "stream_usage": True}

    @property
    def has_tool_choice(self) -> bool:
        return True

    @property
    def structured_output_kwargs(self) -> dict:
        return {"method": "function_calling"}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @pytest.mark.xfail(reason="the model of 135M parameters calls no tool of its own accord")
    def test_agent_loop(self, model: Any) -> None:
        super().test_agent_loop(model)

    @pytest.mark.xfail(reason="a model of 135M parameters writes any object, not the one it is asked for")
    def test_json_mode(self, model: Any) -> None:
        super().test_json_mode(model)
