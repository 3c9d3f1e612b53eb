#include "coordinator/cli/text/generate_flags.h"

#include <map>
#include <utility>

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

using Request = v1::GenerateRequest;

// Adds flags that set a field of a request. Borrows both.
class FieldFlags {
 public:
  FieldFlags(FlagSet& flags, Request& request)
      : flags_(flags), request_(request) {}

  template <typename T>
  void Add(FlagSpec spec, void (Request::*set)(T)) const {
    flags_.AddSetter<T>(std::move(spec), [&request = request_, set](T value) {
      (request.*set)(value);
    });
  }
  void AddSwitch(FlagSpec spec, void (Request::*set)(bool)) const {
    flags_.AddSwitch(std::move(spec),
                     [&request = request_, set] { (request.*set)(true); });
  }

 private:
  FlagSet& flags_;
  Request& request_;
};

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
  const FieldFlags fields(flags, request_);
  fields.Add({"--max-tokens", "N", "tokens to generate at most; default 256"},
             &Request::set_max_tokens);
  fields.Add({"--temperature", "T", "0 (greedy, the default) or 0.01 .. 100"},
             &Request::set_temperature);
  fields.Add({"--top-k", "K", "the K most likely tokens; default 0: all"},
             &Request::set_top_k);
  fields.Add({"--top-p", "P", "the likeliest tokens of mass P; default 1"},
             &Request::set_top_p);
  fields.Add({"--seed", "S", "of the sampling; default: an unguessable one"},
             &Request::set_seed);
  flags.AddSetter<std::vector<uint32_t>>(
      {"--stop-token-ids", "1,2", "stop after any of these tokens"},
      [this](const std::vector<uint32_t>& ids) {
        request_.mutable_stop_token_ids()->Assign(ids.begin(), ids.end());
      });
  fields.AddSwitch({"--ignore-eos", "", "go on after the model's end tokens"},
                   &Request::set_ignore_eos);
  flags.AddSetter<std::string>(
      {"--stop", "TEXT", "stop where the text contains this; may be repeated"},
      [this](const std::string& text) { request_.add_stop(text); });
  fields.AddSwitch({"--include-stop", "", "end the text with --stop's"},
                   &Request::set_include_stop_str_in_output);
  AddAdjustmentsTo(flags);
}

void GenerateFlags::AddAdjustmentsTo(FlagSet& flags) {
  const FieldFlags fields(flags, request_);
  fields.Add({"--min-p", "P",
              "tokens at least P times as likely as the likeliest; default 0"},
             &Request::set_min_p);
  fields.Add(
      {"--typical-p", "P", "locally typical tokens of mass P; default 1"},
      &Request::set_typical_p);
  fields.Add({"--repetition-penalty", "X",
              "divides logits of tokens in prompt or output; default 1"},
             &Request::set_repetition_penalty);
  fields.Add({"--frequency-penalty", "X",
              "subtracted for each time in the output; default 0"},
             &Request::set_frequency_penalty);
  fields.Add({"--presence-penalty", "X",
              "subtracted for tokens in the output; default 0"},
             &Request::set_presence_penalty);
  flags.AddSetter<std::map<uint32_t, float>>(
      {"--logit-bias", "ID:X,ID:X", "added to the tokens' logits"},
      [this](const std::map<uint32_t, float>& bias) {
        *request_.mutable_logit_bias() = {bias.begin(), bias.end()};
      });
  flags.AddSetter<std::string>(
      {"--bad-word", "TEXT",
       "text that the output does not contain; may be repeated"},
      [this](const std::string& text) { request_.add_bad_words(text); });
  fields.Add(
      {"--min-tokens", "N", "tokens before which nothing stops the text"},
      &Request::set_min_tokens);
}

void GenerateFlags::AddOutputTo(FlagSet& flags) {
  const FieldFlags fields(flags, request_);
  fields.Add({"--n", "N", "outputs, output i with the seed S + i; default 1"},
             &Request::set_n);
  fields.Add({"--logprobs", "N",
              "with --json: log-probabilities of the tokens and of the N "
              "likeliest, 0 .. 20"},
             &Request::set_logprobs);
  fields.Add({"--prompt-logprobs", "N", "the same of the prompt's tokens"},
             &Request::set_prompt_logprobs);
  fields.AddSwitch({"--echo", "", "print the prompt before the answer"},
                   &Request::set_echo);
}

void GenerateFlags::AddSpeculationTo(FlagSet& flags) {
  v1::SpeculationOptions& speculation = *request_.mutable_speculation();
  flags.AddSwitch({"--no-speculation", "", "plain decoding"},
                  [&speculation] { speculation.set_enabled(false); });
  flags.AddSetter<std::vector<std::string>>(
      {"--drafters", "A,B", "drafters to ask; default: all"},
      [&speculation](const std::vector<std::string>& names) {
        speculation.mutable_drafters()->Assign(names.begin(), names.end());
      });
  flags.AddSetter<std::string>(
      {"--strategy", "NAME",
       "how drafts become one tree; `espalier info` lists them"},
      [&speculation](const std::string& name) {
        speculation.set_strategy(name);
      });
  flags.AddSetter<std::string>(
      {"--rule", "NAME", "verification rule; `espalier info` lists them"},
      [&speculation](const std::string& name) { speculation.set_rule(name); });
  flags.AddSetter<uint32_t>(
      {"--nodes", "N", "drafted tokens verified in a pass at most"},
      [&speculation](uint32_t nodes) { speculation.set_max_nodes(nodes); });
}

void GenerateFlags::AddServingTo(FlagSet& flags) {
  flags.AddSetter<std::string>(
      {"--cache-salt", "TEXT",
       "share a prompt's work only with requests of this salt"},
      [this](const std::string& salt) { request_.set_cache_salt(salt); });
  FieldFlags(flags, request_)
      .Add({"--priority", "N", "wait as if it came N seconds later; default 0"},
           &Request::set_priority);
}

absl::StatusOr<v1::GenerateRequest> GenerateFlags::ToRequest(
    std::istream& in) const {
  v1::GenerateRequest request = request_;
  RETURN_IF_ERROR(SetInput(in, request));
  RETURN_IF_ERROR(structured_.Set(in, request));
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

}  // namespace espalier::cli
