// A gateway's request, from the message to one of our own.
#include "common/base/check.h"
#include "common/spec/request_errors.h"
#include "coordinator/vllm/vllm_request.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace {

using vllm::grpc::engine::GenerateRequest;

std::vector<std::string> Seeds() {
  GenerateRequest request;
  request.set_request_id("r");
  request.mutable_tokenized()->add_input_ids(1);
  request.set_stream(true);
  auto& params = *request.mutable_sampling_params();
  params.set_temperature(0.5f);
  params.set_max_tokens(3);
  params.add_stop(std::string("x"));
  params.set_n(2);
  params.set_logprobs(2);
  params.set_prompt_logprobs(1);
  params.set_seed(-4);
  (*params.mutable_logit_bias())[3] = 1;
  GenerateRequest text = request;
  text.set_text("Hello");
  return {request.SerializeAsString(), text.SerializeAsString()};
}

bool Try(std::string_view bytes) {
  GenerateRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return false;
  }
  const auto request = coordinator::FromVllm(message);
  if (!request.ok()) {
    ESPALIER_CHECK(FieldOf(request.status()).has_value());
    return false;
  }
  ESPALIER_CHECK(request->has_temperature() && request->has_max_tokens());
  return true;
}

}  // namespace

FuzzTarget VllmRequestTarget() { return {"vllm_request", Seeds, Try}; }

}  // namespace espalier::testing
