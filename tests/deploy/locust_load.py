"""Users of Locust, a load generator, who ask one after the other and read whole
answers. Run by http_clients_test.py, whose environment says where."""

from locust import task
from locust.contrib.oai import OpenAIUser


class Reader(OpenAIUser):
    @task(3)
    def response(self) -> None:
        self.client.responses.create(model="smollm2-135m-instruct", input="What is a glacier?",
                                     max_output_tokens=16)

    @task(1)
    def chat(self) -> None:
        self.client.chat.completions.create(
            model="smollm2-135m-instruct", max_tokens=16,
            messages=[{"role": "user", "content": "What is a river?"}])
