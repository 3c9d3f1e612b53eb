// A client's request, from the message to the plan.
#include <map>
#include <memory>

#include "common/base/check.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/merge/merge_policies.h"
#include "coordinator/session/request_plan.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/testing/source_path.h"

namespace espalier::testing {
namespace generate_request_fuzz {

constexpr int64_t kContext = 256;
// ChatML with whatever a chat may have.
constexpr const char* kTemplate =
    "{{ tools }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + "
    "m.content }}{{ m.tool_calls }}{{ m.reasoning_content }}{{ '<|im_end|>' }}"
    "{% endfor %}{{ enable_thinking }}";

// The served model, and what requests can use.
struct Service {
  Service() {
    const auto file = ParseTokenizerFile(
        SourceFile("tests/common/tokenizer/testdata/small/tokenizer.json"));
    ESPALIER_CHECK(file.ok());
    auto created = Tokenizer::Create(*file, {.chat_template = kTemplate});
    ESPALIER_CHECK(created.ok());
    tokenizer = *std::move(created);
    model = {.name = "tiny", .tokenizer = tokenizer.get()};
    if (auto chat = NewChatTemplate(tokenizer.get()); chat.ok()) {
      model.chat_template = *std::move(chat);
    }
    policies["budgeted"] = coordinator::NewBudgetedMerge();
    policies["union"] = coordinator::NewUnionMerge();
    scope.verifier.model = {.name = "tiny",
                            .vocab_size = tokenizer->vocab_size()};
    scope.verifier.max_context = kContext;
    scope.verifier.max_tree_nodes = 32;
    scope.verifier.rules = {"walk", "trv"};
    scope.verifier.distribution_rules = {"trv"};
    scope.verifier.eos_token_ids = {0};
    scope.drafters = {"chat", "math"};
    scope.policies = &policies;
  }

  std::unique_ptr<Tokenizer> tokenizer;
  coordinator::ServedModel model;
  std::map<std::string, std::unique_ptr<coordinator::MergePolicy>> policies;
  coordinator::RequestScope scope;
};

std::vector<std::string> Seeds() {
  v1::GenerateRequest text;
  text.set_prompt("What is a glacier?");
  text.set_temperature(0.5f);
  text.set_top_k(3);
  text.set_top_p(0.9f);
  text.set_seed(1);
  text.set_max_tokens(9);
  text.add_stop_token_ids(2);
  text.set_n(2);
  text.set_logprobs(3);
  text.set_prompt_logprobs(1);
  text.set_echo(true);
  text.add_stop(std::string("x"));
  auto& speculation = *text.mutable_speculation();
  speculation.set_enabled(true);
  speculation.set_max_nodes(8);
  speculation.set_max_depth(4);
  speculation.add_drafters("chat");
  speculation.set_strategy("union");
  speculation.set_rule("trv");
  v1::GenerateRequest ids;
  ids.mutable_token_ids()->add_ids(1);
  ids.set_request_id("r");
  v1::GenerateRequest chat;
  auto* message = chat.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("Hello");
  v1::GenerateRequest tools = chat;
  tools.mutable_chat()->set_tools(R"([{"type": "function"}])");
  tools.mutable_chat()->set_template_args(R"({"enable_thinking": true})");
  auto* call = tools.mutable_chat()->add_messages();
  call->set_role("assistant");
  call->set_tool_calls(R"([{"name": "f", "arguments": "{}"}])");
  call->set_content("Wait");
  call->set_reasoning_content("So");
  std::vector<std::string> seeds = {text.SerializeAsString(),
                                    ids.SerializeAsString(),
                                    chat.SerializeAsString()};
  seeds.push_back(tools.SerializeAsString());
  return seeds;
}

bool Try(std::string_view bytes) {
  static const Service service;
  v1::GenerateRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return false;
  }
  auto params = coordinator::ParseGenerateRequest(message, service.model,
                                                  absl::InfiniteFuture());
  if (!params.ok() ||
      !coordinator::CheckPromptSize(message, service.model, kContext).ok()) {
    return false;
  }
  auto prompt = coordinator::EncodePrompt(message, service.model);
  if (!prompt.ok()) return false;
  ESPALIER_CHECK(params->num_outputs >= 1 &&
                 params->num_outputs <= coordinator::kMaxOutputs);
  ESPALIER_CHECK(params->new_text != nullptr);
  const auto plan =
      coordinator::PlanRequest({*std::move(params), *std::move(prompt),
                                coordinator::PromptField(message)},
                               service.scope);
  if (!plan.ok()) return false;
  ESPALIER_CHECK(plan->session.max_tokens >= 1);
  ESPALIER_CHECK(plan->session.prompt.size() + plan->session.max_tokens <=
                 kContext);
  ESPALIER_CHECK(plan->budget.max_nodes <= 32);
  ESPALIER_CHECK((plan->policy == nullptr) == (plan->budget.max_nodes == 0));
  return true;
}

}  // namespace generate_request_fuzz

FuzzTarget GenerateRequestTarget() {
  return {"generate_request", generate_request_fuzz::Seeds,
          generate_request_fuzz::Try};
}

}  // namespace espalier::testing
