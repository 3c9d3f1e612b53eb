"""An unmodified OpenAI client of Dynamo's frontend: streams a completion, or the answer of a
chat, and writes each chunk as a line of JSON. `dynamo_client.py URL REQUEST`."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
request = json.loads(sys.argv[2])
is_chat = "messages" in request
create = client.chat.completions.create if is_chat else client.completions.create
for chunk in create(stream=True, stream_options={"include_usage": True}, **request):
    texts = [choice.delta.content if is_chat else choice.text for choice in chunk.choices]
    print(json.dumps({"text": "".join(text or "" for text in texts),
                      "finish_reason": next((choice.finish_reason for choice in chunk.choices),
                                            None),
                      "completion_tokens": chunk.usage and chunk.usage.completion_tokens}),
          flush=True)
