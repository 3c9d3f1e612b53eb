#include "coordinator/vllm/vllm_request.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/spec/request_errors.h"

namespace espalier::coordinator {
namespace {

namespace engine = vllm::grpc::engine;

absl::Status NotImplemented(absl::string_view field) {
  return FieldError(field, "is not implemented by this server");
}

// What belongs to other kinds of models and of deployments.
absl::Status CheckImplemented(const engine::GenerateRequest& request) {
  if (request.has_mm_inputs()) return NotImplemented("mm_inputs");
  if (request.extra_mm_inputs_size() > 0) {
    return NotImplemented("extra_mm_inputs");
  }
  if (request.has_media_refs()) return NotImplemented("media_refs");
  if (request.has_kv_transfer_params()) {
    return NotImplemented("kv_transfer_params");
  }
  if (request.has_kv_transfer_params_json()) {
    return NotImplemented("kv_transfer_params_json");
  }
  if (request.data_parallel_rank() != 0) {
    return NotImplemented("data_parallel_rank");
  }
  if (request.sampling_params().has_truncate_prompt_tokens()) {
    return NotImplemented("truncate_prompt_tokens");
  }
  return absl::OkStatus();
}

// Compiled and checked where constraints of our own API are.
void SetConstraint(const engine::SamplingParams& params,
                   v1::GenerateRequest& out) {
  using Params = engine::SamplingParams;
  if (params.constraint_case() == Params::CONSTRAINT_NOT_SET) return;
  v1::StructuredOutput& constraint = *out.mutable_structured_output();
  switch (params.constraint_case()) {
    case Params::kJsonSchema:
      constraint.set_json_schema(params.json_schema());
      break;
    case Params::kRegex:
      constraint.set_regex(params.regex());
      break;
    case Params::kGrammar:
      constraint.set_grammar(params.grammar());
      break;
    case Params::kStructuralTag:
      constraint.set_structural_tag(params.structural_tag());
      break;
    case Params::kJsonObject:
      constraint.set_json_object(params.json_object());
      break;
    case Params::kChoice:
      *constraint.mutable_choice()->mutable_texts() = params.choice().choices();
      break;
    case Params::CONSTRAINT_NOT_SET:
      break;
  }
}

absl::StatusOr<uint32_t> LogprobCount(absl::string_view field, int32_t count) {
  if (count >= 0) return static_cast<uint32_t>(count);
  return FieldError(field, absl::StrCat(count,
                                        " is negative; the whole "
                                        "vocabulary is not returned"));
}

absl::Status SetLogprobs(const engine::SamplingParams& params,
                         v1::GenerateRequest& out) {
  if (params.has_logprobs()) {
    ASSIGN_OR_RETURN(const uint32_t count,
                     LogprobCount("logprobs", params.logprobs()));
    out.set_logprobs(count);
  }
  if (params.has_prompt_logprobs()) {
    ASSIGN_OR_RETURN(const uint32_t count,
                     LogprobCount("prompt_logprobs", params.prompt_logprobs()));
    out.set_prompt_logprobs(count);
  }
  return absl::OkStatus();
}

absl::Status SetLogitBias(const engine::SamplingParams& params,
                          v1::GenerateRequest& out) {
  for (const auto& [token, bias] : params.logit_bias()) {
    if (token < 0) {
      return FieldError("logit_bias", absl::StrCat("token ", token));
    }
    (*out.mutable_logit_bias())[static_cast<uint32_t>(token)] = bias;
  }
  return absl::OkStatus();
}

void SetSampling(const engine::SamplingParams& params,
                 v1::GenerateRequest& out) {
  out.set_temperature(params.has_temperature() ? params.temperature() : 1.0f);
  if (params.top_p() != 0) out.set_top_p(params.top_p());
  out.set_top_k(params.top_k());
  out.set_min_p(params.min_p());
  out.set_frequency_penalty(params.frequency_penalty());
  out.set_presence_penalty(params.presence_penalty());
  if (params.repetition_penalty() != 0) {
    out.set_repetition_penalty(params.repetition_penalty());
  }
  if (params.has_seed()) {
    out.set_seed(static_cast<uint64_t>(int64_t{params.seed()}));
  }
  if (params.n() != 0) out.set_n(params.n());
}

void SetStops(const engine::SamplingParams& params, v1::GenerateRequest& out) {
  out.set_max_tokens(params.has_max_tokens()
                         ? params.max_tokens()
                         : std::numeric_limits<uint32_t>::max());
  out.set_min_tokens(params.min_tokens());
  *out.mutable_stop() = params.stop();
  *out.mutable_stop_token_ids() = params.stop_token_ids();
  out.set_include_stop_str_in_output(params.include_stop_str_in_output());
  out.set_ignore_eos(params.ignore_eos());
}

}  // namespace

absl::StatusOr<v1::GenerateRequest> FromVllm(
    const engine::GenerateRequest& request) {
  RETURN_IF_ERROR(CheckImplemented(request));
  v1::GenerateRequest out;
  if (!request.request_id().empty()) out.set_request_id(request.request_id());
  if (request.has_tokenized()) {
    *out.mutable_token_ids()->mutable_ids() = request.tokenized().input_ids();
  } else if (request.has_text()) {
    out.set_prompt(request.text());
  }
  const engine::SamplingParams& params = request.sampling_params();
  SetSampling(params, out);
  SetStops(params, out);
  RETURN_IF_ERROR(SetLogitBias(params, out));
  RETURN_IF_ERROR(SetLogprobs(params, out));
  SetConstraint(params, out);
  return out;
}

}  // namespace espalier::coordinator
