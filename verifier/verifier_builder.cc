#include "verifier/verifier_builder.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/cpu_group.h"
#include "common/base/idle_spin.h"
#include "common/base/notification.h"
#include "common/base/registry.h"
#include "common/base/serial_executor.h"
#include "common/base/status_macros.h"
#include "common/grammar/vocabulary.h"
#include "common/model/cuda/feature_ring.h"
#include "common/model/files/model_identity.h"
#include "common/obs/log.h"
#include "verifier/costs/measure_pass_costs.h"
#include "verifier/engine/grammar_masks.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

constexpr uint32_t kMaxTreeNodes = 255;
constexpr uint32_t kDefaultTreeNodes = 128;
// With this many rows a CPU is fully used, and more only make sessions wait for
// each other; a GPU can take more.
constexpr int64_t kCpuBatchRows = 64;
constexpr int64_t kGpuBatchRows = 256;
// Nobody waits between two tokens for a pass of prompts alone, and twice the
// rows read the weights of a GPU as often.
constexpr int64_t kGpuPromptRows = 512;

bool IsCpu(const v1::VerifierEngineConfig& config) {
  return config.device().empty() || config.device() == "cpu";
}
bool IsCuda(const v1::VerifierEngineConfig& config) {
  return config.device().rfind("cuda", 0) == 0;
}

// nullopt: auto.
absl::StatusOr<std::optional<ComputeDType>> ComputeType(
    const v1::VerifierEngineConfig& c) {
  const std::string& name = c.compute_type();
  if (name.empty() || name == "auto") return std::nullopt;
  for (ComputeDType dtype : kComputeDTypes) {
    if (name == NameOf(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("engine.compute_type: unknown \"", name,
                   "\"; known: auto, bfloat16, float32, fp8, int4, int8"));
}

// nullopt: auto.
absl::StatusOr<std::optional<nn::KvType>> KvCacheType(
    const v1::VerifierEngineConfig& c) {
  const std::string& name = c.kv_cache_type();
  if (name.empty() || name == "auto") return std::nullopt;
  for (nn::KvType type : nn::kKvTypes) {
    if (name == nn::NameOf(type)) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("engine.kv_cache_type: unknown \"", name,
                   "\"; known: auto, bfloat16, float32, int8"));
}

absl::StatusOr<uint32_t> TreeNodes(const v1::VerifierEngineConfig& config) {
  const uint32_t nodes =
      config.has_max_tree_nodes() ? config.max_tree_nodes() : kDefaultTreeNodes;
  if (nodes < 1 || nodes > kMaxTreeNodes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "engine.max_tree_nodes: ", nodes, " is not in 1 .. ", kMaxTreeNodes));
  }
  return nodes;
}

// `wanted`: max_context as configured; 0: the model's own.
void LogRoom(const LanguageModel& model, int64_t wanted) {
  const ModelInfo& info = model.info();
  const int64_t tokens = info.kv_groups.TokensIn(model.kv_usage().total_tokens);
  LogInfo(absl::StrFormat(
      "K/V pool (%s): up to %d MiB, %d tokens; a request may have %d",
      info.kv_cache_type, tokens * info.kv_bytes_per_token >> 20, tokens,
      info.max_context));
  const int64_t limit = info.config.max_positions;
  if (info.max_context < (wanted > 0 ? std::min(wanted, limit) : limit)) {
    LogWarning(
        "no request may have more tokens than the K/V pool: raise "
        "engine.kv_cache_mib to serve the model's whole context");
  }
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadTarget(
    const ModelLoader& load, const ModelOptions& options) {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, load(options));
  const double megabytes =
      static_cast<double>(model->info().weight_bytes) / 1e6;
  LogInfo(absl::StrFormat("loaded %.1f MB of weights in %.2f s (%s)", megabytes,
                          absl::ToDoubleSeconds(absl::Now() - start),
                          model->info().backend));
  LogRoom(*model, options.max_context);
  return model;
}

absl::StatusOr<int64_t> BatchRows(const v1::VerifierEngineConfig& config) {
  if (!config.has_max_batch_rows()) {
    return IsCuda(config) ? kGpuBatchRows : kCpuBatchRows;
  }
  if (config.max_batch_rows() > 0) return config.max_batch_rows();
  return absl::InvalidArgumentError("engine.max_batch_rows: 0 is below 1");
}

// Returns what a pass for prompts alone takes, if more.
int64_t PromptRows(const v1::VerifierEngineConfig& config) {
  const bool is_default = !config.has_max_batch_rows();
  return is_default && IsCuda(config) ? kGpuPromptRows : 0;
}

// Null: this build has no structured output, or no text of the model ends.
std::shared_ptr<TreeMasker> NewGrammarMasks(const Tokenizer& tokenizer,
                                            int64_t vocab_size,
                                            absl::Span<const TokenId> ends) {
  if (ends.empty()) return nullptr;
  auto backend =
      grammar::NewBackend(grammar::VocabularyOf(tokenizer, vocab_size, ends));
  if (backend == nullptr) return nullptr;
  return std::make_shared<GrammarMasks>(
      std::make_unique<grammar::GrammarCompiler>(
          std::move(backend), grammar::GrammarCompiler::Limits()),
      std::make_unique<SerialExecutor>("grammar masks"));
}

// Measures on the model's own thread: libtorch keeps a team of threads for
// every thread that calls it.
absl::StatusOr<MeasuredCosts> MeasureOn(Executor& executor,
                                        LanguageModel& model,
                                        int64_t max_rows) {
  absl::StatusOr<MeasuredCosts> costs;
  Notification done;
  executor.Post([&] {
    costs = MeasurePassCosts(model, executor, {.max_rows = max_rows});
    done.Notify();
  });
  done.Wait();
  return costs;
}

TableTrust TrustIn(const MeasuredCosts& measured,
                   const v1::VerifierEngineConfig& config) {
  if (measured.is_doubtful) return TableTrust::kDoubtful;
  return IsCuda(config) ? TableTrust::kSteady : TableTrust::kUsual;
}

}  // namespace

absl::StatusOr<ModelOptions> ModelOptionsFrom(
    const v1::VerifierEngineConfig& config) {
  ModelOptions options = {.folder = config.model(),
                          .threads = config.threads(),
                          .max_context = config.max_context(),
                          .max_rows = kMaxTreeNodes + 1};
  if (config.has_random_weights()) {
    options.random_weights = config.random_weights();
  }
  if (!config.device().empty()) options.device = config.device();
  if (!config.backend().empty()) options.backend = config.backend();
  if (!config.cpu_kernels().empty()) {
    options.cpu_kernels = config.cpu_kernels();
  }
  ASSIGN_OR_RETURN(options.compute_dtype, ComputeType(config));
  ASSIGN_OR_RETURN(options.kv_cache_type, KvCacheType(config));
  if (config.has_kv_cache_mib()) {
    if (config.kv_cache_mib() == 0) {
      return absl::InvalidArgumentError("engine.kv_cache_mib: 0 is below 1");
    }
    options.kv_pool_bytes = int64_t{config.kv_cache_mib()} << 20;
  }
  if (config.has_prefix_cache_mib()) {
    options.prefix_cache_bytes = int64_t{config.prefix_cache_mib()} << 20;
  }
  if (config.cuda_graphs() && IsCpu(config)) {
    return absl::InvalidArgumentError(
        "engine.cuda_graphs: needs a GPU (engine.device \"cuda\")");
  }
  options.cuda_graphs = config.cuda_graphs();
  return options;
}

absl::StatusOr<std::shared_ptr<FeatureRing>> OpenFeatureRing(
    const v1::VerifierEngineConfig& config) {
  if (IsCpu(config) ||
      (config.has_feature_ring_mib() && config.feature_ring_mib() == 0)) {
    return nullptr;
  }
  auto ring = FeatureRing::Open(config.device(),
                                int64_t{config.feature_ring_mib()} << 20);
  if (ring.ok()) {
    LogInfo(absl::StrFormat("ring of features: %d MiB",
                            (*ring)->info().data_bytes >> 20));
  }
  if (!absl::IsResourceExhausted(ring.status())) return ring;
  LogWarning(absl::StrCat("drafters get features over gRPC: ",
                          ring.status().message()));
  return nullptr;
}

absl::StatusOr<std::unique_ptr<VerifyEngine>> BuildVerifier(
    const v1::VerifierEngineConfig& config, prometheus::Registry& metrics,
    const VerifierHooks& hooks) {
  ASSIGN_OR_RETURN(const TargetIdentity target,
                   IdentifyTarget(config.model(), config.model_name()));
  ASSIGN_OR_RETURN(ModelOptions model_options, ModelOptionsFrom(config));
  model_options.feature_ring = hooks.feature_ring;
  ASSIGN_OR_RETURN(const uint32_t tree_nodes, TreeNodes(config));
  ASSIGN_OR_RETURN(const int64_t batch_rows, BatchRows(config));
  ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                   LoadTarget(hooks.load, model_options));
  auto executor =
      std::make_unique<SerialExecutor>("verifier", SpinBeside(config.device()));
  ASSIGN_OR_RETURN(MeasuredCosts measured,
                   MeasureOn(*executor, *model, tree_nodes + 1));
  if (measured.is_doubtful) {
    LogInfo("pass times varied, so they are measured again");
  }

  const ModelInfo& info = model->info();
  const int64_t pool_bytes =
      info.kv_groups.TokensIn(model->kv_usage().total_tokens) *
      info.kv_bytes_per_token;
  const int64_t prefix_bytes =
      model_options.prefix_cache_bytes.value_or(pool_bytes / 4);

  Registry<VerificationRule> rules("verification rule");
  RegisterVerificationRules(rules);
  VerifyEngine::Options options = {
      .identity = target.identity,
      .end_tokens = target.end_tokens,
      .cpu_group = IsCuda(config) ? 0 : CpuGroup(),
      .epoch = absl::Uniform<uint64_t>(absl::BitGen()),
      .max_tree_nodes = tree_nodes,
      .max_batch_rows = batch_rows,
      .max_prompt_rows = PromptRows(config),
      .pass_costs = std::move(measured.costs),
      .pass_costs_trust = TrustIn(measured, config),
      .unlike_experts = std::move(measured.unlike),
      .shares_prefixes = prefix_bytes > 0,
      .max_feature_bytes = prefix_bytes / 2,
      .grammars =
          NewGrammarMasks(*target.tokenizer, model->info().config.vocab_size,
                          target.end_tokens),
      .on_model_lost = hooks.on_model_lost};
  if (config.has_compared_rounds()) {
    options.compared_rounds = config.compared_rounds();
  }
  if (config.has_max_sessions()) options.max_sessions = config.max_sessions();
  return VerifyEngine::Create(options, std::move(model), std::move(executor),
                              rules, metrics);
}

}  // namespace espalier::verifier
