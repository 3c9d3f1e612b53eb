#include "coordinator/cli/text/generate_flags.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "coordinator/cli/input_file.h"

namespace espalier::cli {
namespace {

// Protobuf strings must be UTF-8; input from a terminal or a file may not be.
absl::Status CheckUtf8(const char* flag, const std::string& text) {
  if (RepairUtf8(text) == text) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": the text is not valid UTF-8"));
}

}  // namespace

void GenerateFlags::AddTo(FlagSet& flags) {
  AddInputTo(flags);
  AddDecodingTo(flags);
  AddOutputTo(flags);
  structured_.AddTo(flags);
}

void GenerateFlags::AddDecodingTo(FlagSet& flags) {
  AddSamplingTo(flags);
  AddSpeculationTo(flags);
  AddServingTo(flags);
}

void GenerateFlags::AddInputTo(FlagSet& flags) {
  flags.Add({"--prompt", "TEXT", "text to continue, as it is"}, &prompt_);
  flags.Add({"--chat", "TEXT", "what the user says, in the chat template"},
            &chat_);
  template_.AddTo(flags);
  flags.Add({"--prompt-file", "FILE", "as --prompt; - is standard input"},
            &prompt_file_);
  flags.Add({"--token-ids", "1,2,3", "tokens to continue"}, &token_ids_);
}

void GenerateFlags::AddSamplingTo(FlagSet& flags) {
  flags.Add({"--max-tokens", "N", "tokens to generate at most; default 256"},
            &max_tokens_);
  flags.Add({"--temperature", "T", "0 (greedy, the default) or 0.01 .. 100"},
            &temperature_);
  flags.Add({"--top-k", "K", "the K most likely tokens; default 0: all"},
            &top_k_);
  flags.Add({"--top-p", "P", "the likeliest tokens of mass P; default 1"},
            &top_p_);
  flags.Add({"--seed", "S", "of the sampling; default: an unguessable one"},
            &seed_);
  flags.Add({"--stop-token-ids", "1,2", "stop after any of these tokens"},
            &stop_token_ids_);
  flags.AddSwitch({"--ignore-eos", "", "go on after the model's end tokens"},
                  &ignore_eos_);
  flags.Add(
      {"--stop", "TEXT", "stop where the text contains this; may be repeated"},
      &stop_);
  flags.AddSwitch({"--include-stop", "", "end the text with --stop's"},
                  &include_stop_);
  AddAdjustmentsTo(flags);
}

void GenerateFlags::AddAdjustmentsTo(FlagSet& flags) {
  flags.Add({"--min-p", "P",
             "tokens at least P times as likely as the likeliest; default 0"},
            &min_p_);
  flags.Add({"--typical-p", "P", "locally typical tokens of mass P; default 1"},
            &typical_p_);
  flags.Add({"--repetition-penalty", "X",
             "divides logits of tokens in prompt or output; default 1"},
            &repetition_penalty_);
  flags.Add({"--frequency-penalty", "X",
             "subtracted for each time in the output; default 0"},
            &frequency_penalty_);
  flags.Add({"--presence-penalty", "X",
             "subtracted for tokens in the output; default 0"},
            &presence_penalty_);
  flags.Add({"--logit-bias", "ID:X,ID:X", "added to the tokens' logits"},
            &logit_bias_);
  flags.Add({"--bad-word", "TEXT",
             "text that the output does not contain; may be repeated"},
            &bad_words_);
  flags.Add({"--min-tokens", "N", "tokens before which nothing stops the text"},
            &min_tokens_);
}

void GenerateFlags::AddOutputTo(FlagSet& flags) {
  flags.Add({"--n", "N", "outputs, output i with the seed S + i; default 1"},
            &n_);
  flags.Add({"--logprobs", "N",
             "with --json: log-probabilities of the tokens and of the N "
             "likeliest, 0 .. 20"},
            &logprobs_);
  flags.Add({"--prompt-logprobs", "N", "the same of the prompt's tokens"},
            &prompt_logprobs_);
  flags.AddSwitch({"--echo", "", "print the prompt before the answer"}, &echo_);
}

void GenerateFlags::AddSpeculationTo(FlagSet& flags) {
  flags.AddSwitch({"--no-speculation", "", "plain decoding"}, &no_speculation_);
  flags.Add({"--drafters", "A,B", "drafters to ask; default: all"}, &drafters_);
  flags.Add({"--strategy", "NAME",
             "how drafts become one tree; `espalier info` lists them"},
            &strategy_);
  flags.Add({"--rule", "NAME", "verification rule; `espalier info` lists them"},
            &rule_);
  flags.Add({"--nodes", "N", "drafted tokens verified in a pass at most"},
            &nodes_);
}

void GenerateFlags::AddServingTo(FlagSet& flags) {
  flags.Add({"--cache-salt", "TEXT",
             "share a prompt's work only with requests of this salt"},
            &cache_salt_);
  flags.Add(
      {"--priority", "N", "wait as if it came N seconds later; default 0"},
      &priority_);
}

absl::StatusOr<v1::GenerateRequest> GenerateFlags::ToRequest(
    std::istream& in) const {
  v1::GenerateRequest request = ToDecoding();
  SetOutput(request);
  RETURN_IF_ERROR(SetInput(in, request));
  RETURN_IF_ERROR(structured_.Set(in, request));
  return request;
}

v1::GenerateRequest GenerateFlags::ToDecoding() const {
  v1::GenerateRequest request;
  SetSampling(request);
  SetSpeculation(request);
  SetServing(request);
  return request;
}

absl::Status GenerateFlags::SetInput(std::istream& in,
                                     v1::GenerateRequest& request) const {
  if (prompt_.has_value() + chat_.has_value() + prompt_file_.has_value() +
          token_ids_.has_value() !=
      1) {
    return absl::InvalidArgumentError(
        "give exactly one of --prompt, --chat, --prompt-file, --token-ids");
  }
  if (template_.given() && !chat_) {
    return absl::InvalidArgumentError(
        "--template-args and --tools are for --chat");
  }
  if (prompt_) {
    RETURN_IF_ERROR(CheckUtf8("--prompt", *prompt_));
    request.set_prompt(*prompt_);
  } else if (chat_) {
    RETURN_IF_ERROR(CheckUtf8("--chat", *chat_));
    RETURN_IF_ERROR(template_.Set(*request.mutable_chat()));
    auto* message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(*chat_);
  } else if (prompt_file_) {
    ASSIGN_OR_RETURN(std::string text, ReadInput(*prompt_file_, in));
    RETURN_IF_ERROR(CheckUtf8("--prompt-file", text));
    request.set_prompt(std::move(text));
  } else {
    request.mutable_token_ids()->mutable_ids()->Assign(token_ids_->begin(),
                                                       token_ids_->end());
  }
  return absl::OkStatus();
}

void GenerateFlags::SetSampling(v1::GenerateRequest& request) const {
  if (max_tokens_) request.set_max_tokens(*max_tokens_);
  if (temperature_) request.set_temperature(*temperature_);
  if (top_p_) request.set_top_p(*top_p_);
  if (top_k_) request.set_top_k(*top_k_);
  if (seed_) request.set_seed(*seed_);
  if (ignore_eos_) request.set_ignore_eos(true);
  request.mutable_stop()->Assign(stop_.values.begin(), stop_.values.end());
  if (include_stop_) request.set_include_stop_str_in_output(true);
  if (min_tokens_) request.set_min_tokens(*min_tokens_);
  if (min_p_) request.set_min_p(*min_p_);
  if (typical_p_) request.set_typical_p(*typical_p_);
  if (repetition_penalty_) request.set_repetition_penalty(*repetition_penalty_);
  if (frequency_penalty_) request.set_frequency_penalty(*frequency_penalty_);
  if (presence_penalty_) request.set_presence_penalty(*presence_penalty_);
  request.mutable_logit_bias()->insert(logit_bias_.begin(), logit_bias_.end());
  request.mutable_bad_words()->Assign(bad_words_.values.begin(),
                                      bad_words_.values.end());
  request.mutable_stop_token_ids()->Assign(stop_token_ids_.begin(),
                                           stop_token_ids_.end());
}

void GenerateFlags::SetOutput(v1::GenerateRequest& request) const {
  if (n_) request.set_n(*n_);
  if (logprobs_) request.set_logprobs(*logprobs_);
  if (prompt_logprobs_) request.set_prompt_logprobs(*prompt_logprobs_);
  if (echo_) request.set_echo(true);
}

void GenerateFlags::SetSpeculation(v1::GenerateRequest& request) const {
  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  if (no_speculation_) speculation.set_enabled(false);
  if (strategy_) speculation.set_strategy(*strategy_);
  if (rule_) speculation.set_rule(*rule_);
  if (nodes_) speculation.set_max_nodes(*nodes_);
  speculation.mutable_drafters()->Assign(drafters_.begin(), drafters_.end());
}

void GenerateFlags::SetServing(v1::GenerateRequest& request) const {
  if (cache_salt_) request.set_cache_salt(*cache_salt_);
  if (priority_) request.set_priority(*priority_);
}

}  // namespace espalier::cli
