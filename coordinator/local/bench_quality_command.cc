#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/json/ordered_json.h"
#include "common/model/files/model_identity.h"
#include "common/model/load/load_model.h"
#include "common/tokenizer/tokenizer.h"
#include "coordinator/local/engine_commands.h"
#include "coordinator/local/text_agreement.h"
#include "nlohmann/json.hpp"
#include "verifier/verifier_builder.h"

namespace espalier::local {
namespace {

constexpr char kBenchQualityUsage[] =
    R"(Usage: espalier bench quality --text FILE [FLAGS]

What a compute type costs in quality: runs the target over a text in each of
them and in float32, and compares the distributions of the next token. KL: mean
divergence from float32 in nats; top 1: share of positions with the same
likeliest token; perplexity of the text under the model.)";

struct QualityFlags {
  std::string text;
  std::vector<std::string> compute_types;
  std::string kv_cache_type = "auto";
  uint32_t window = 512;
  uint32_t tokens = 0;
  std::optional<std::string> model;
  std::string device = "cpu";
  std::string cpu_kernels = "auto";
  bool json = false;

  void AddTo(FlagSet& flags);
};

void QualityFlags::AddTo(FlagSet& flags) {
  flags.Add({"--text", "FILE", "UTF-8; line breaks count as spaces"}, &text);
  flags.Add({"--compute-types", "T,T",
             "default float32,bfloat16,int8,int4; on a GPU bfloat16,fp8"},
            &compute_types);
  flags.Add({"--kv-cache-type", "NAME",
             "of these types: float32, bfloat16, int8 or auto"},
            &kv_cache_type);
  flags.Add({"--window", "N", "tokens that follow each other; default 512"},
            &window);
  flags.Add({"--tokens", "N", "of the text, from its start; default 0: all"},
            &tokens);
  flags.Add({"--model", "PATH",
             "a folder or a .gguf file; default the default model"},
            &model);
  flags.Add({"--device", "NAME",
             "that the types run on: cpu (default), cuda, cuda:N or emulated; "
             "the reference runs on the CPU"},
            &device);
  flags.Add({"--cpu-kernels", "NAME", "default auto"}, &cpu_kernels);
  flags.AddSwitch({"--json", "", "one JSON object for each line"}, &json);
}

absl::StatusOr<std::vector<TokenId>> ReadTokens(const QualityFlags& flags,
                                                const Tokenizer& tokenizer) {
  std::ifstream file(flags.text, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.good() || text.empty()) {
    return absl::NotFoundError(
        absl::StrCat("--text: ", flags.text, " cannot be read or is empty"));
  }
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::vector<TokenId> tokens = tokenizer.Encode(text, SpecialText::kPlain);
  if (flags.tokens > 0 && flags.tokens < tokens.size()) {
    tokens.resize(flags.tokens);
  }
  return tokens;
}

v1::VerifierEngineConfig ReferenceEngine(const QualityFlags& flags,
                                         const std::string& model) {
  v1::VerifierEngineConfig config;
  config.set_model(model);
  config.set_device("cpu");
  config.set_cpu_kernels(flags.cpu_kernels);
  config.set_compute_type("float32");
  return config;
}

v1::VerifierEngineConfig EngineOf(const QualityFlags& flags,
                                  const std::string& model,
                                  const std::string& compute_type) {
  v1::VerifierEngineConfig config = ReferenceEngine(flags, model);
  config.set_device(flags.device);
  config.set_compute_type(compute_type);
  config.set_kv_cache_type(flags.kv_cache_type);
  return config;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(
    const v1::VerifierEngineConfig& config) {
  ASSIGN_OR_RETURN(const ModelOptions options,
                   verifier::ModelOptionsFrom(config));
  return LoadModel(options);
}

void Print(const ModelInfo& info, const TextAgreement& agreement, bool json,
           std::ostream& out) {
  if (json) {
    out << ToText(
               nlohmann::ordered_json{{"compute_type", info.compute_dtype},
                                      {"kv_cache_type", info.kv_cache_type},
                                      {"backend", info.backend},
                                      {"positions", agreement.positions},
                                      {"kl", agreement.mean_kl()},
                                      {"top1", agreement.top1()},
                                      {"perplexity", agreement.perplexity()}})
        << std::endl;
  } else {
    out << absl::StrFormat("%12s %10d %12.6f %9.2f %% %12.4f",
                           info.compute_dtype, agreement.positions,
                           agreement.mean_kl(), 100 * agreement.top1(),
                           agreement.perplexity())
        << std::endl;
  }
}

absl::Status BenchQuality(cli::Context& context, cli::Args args) {
  QualityFlags flags;
  FlagSet flag_set(kBenchQualityUsage);
  flags.AddTo(flag_set);
  ASSIGN_OR_RETURN(const bool parsed, flag_set.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();
  if (flags.window < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("--window: ", flags.window, " is below 2"));
  }
  if (flags.compute_types.empty()) {
    flags.compute_types =
        flags.device == "cpu"
            ? std::vector<std::string>{"float32", "bfloat16", "int8", "int4"}
            : std::vector<std::string>{"bfloat16", "fp8"};
  }

  const std::string model = flags.model.value_or(context.places.model.string());
  ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(model));
  ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                   ReadTokens(flags, *tokenizer));
  const WindowedText text = {
      .tokens = tokens, .prefix = tokenizer->prefix(), .window = flags.window};
  ASSIGN_OR_RETURN(const auto reference, Load(ReferenceEngine(flags, model)));
  if (!flags.json) {
    context.out << absl::StrFormat(
        "%d tokens in windows of %d, %s\n%12s %10s %12s %11s %12s\n",
        tokens.size(), flags.window, reference->info().backend, "", "positions",
        "KL", "top 1", "perplexity");
  }
  for (const std::string& type : flags.compute_types) {
    ASSIGN_OR_RETURN(const auto other, Load(EngineOf(flags, model, type)));
    TextAgreement agreement;
    RETURN_IF_ERROR(CompareOnText(*reference, *other, text, agreement));
    Print(other->info(), agreement, flags.json, context.out);
  }
  return absl::OkStatus();
}

}  // namespace

cli::Command BenchQualityCommand() {
  return {.name = "bench quality",
          .summary = "what a compute type costs in quality",
          .run = BenchQuality};
}

}  // namespace espalier::local
