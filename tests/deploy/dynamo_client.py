"""An unmodified OpenAI client of Dynamo's frontend: streams a completion, and writes each
chunk as a line of JSON. `dynamo_client.py URL REQUEST`."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
for chunk in client.completions.create(stream=True, stream_options={"include_usage": True},
                                       **json.loads(sys.argv[2])):
    print(json.dumps({"text": "".join(choice.text for choice in chunk.choices),
                      "finish_reason": next((choice.finish_reason for choice in chunk.choices),
                                            None),
                      "completion_tokens": chunk.usage and chunk.usage.completion_tokens}),
          flush=True)
