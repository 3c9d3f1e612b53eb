#include "common/config/load_config.h"
#include "coordinator/coordinator_config.h"
#include "coordinator/http/api_keys.h"
#include "coordinator/tenants_config.h"
#include "espalier/v1/config.pb.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/memory_file.h"
#include "tests/testing/source_path.h"

namespace espalier::testing {
namespace service_config_fuzz {

std::vector<std::string> Seeds() {
  return {SourceFile("deploy/config/coordinator.textproto"),
          SourceFile("deploy/config/verifier.textproto"),
          SourceFile("deploy/config/chat.textproto"),
          "core.max_nodes=3",
          "drafters.0.name=a",
          "tenants { name: 'a' weight: 3 tokens_per_minute: 10 }",
          "# keys\nacme key-of-sixteen-bytes\n"};
}

// Reads the bytes as a file, and as an override.
bool Try(std::string_view bytes) {
  const MemoryFile file(bytes);
  v1::CoordinatorConfig coordinator;
  bool accepted = LoadConfig(file.path(), {}, coordinator).ok();
  if (accepted) {
    (void)coordinator::OptionsFromConfig(coordinator.core());
    (void)coordinator::MaxPromptBytes(coordinator.core());
  }
  v1::CoordinatorConfig overridden;
  if (LoadConfig("", {std::string(bytes)}, overridden).ok()) {
    (void)coordinator::OptionsFromConfig(overridden.core());
    accepted = true;
  }
  v1::TenantsConfig tenants;
  if (LoadConfig(file.path(), {}, tenants).ok()) {
    (void)coordinator::TenantsFromConfig(tenants);
    accepted = true;
  }
  accepted |= coordinator::ApiKeys::ReadFile(file.path()).ok();
  v1::VerifierConfig verifier;
  accepted |= LoadConfig(file.path(), {}, verifier).ok();
  v1::DrafterConfig drafter;
  accepted |= LoadConfig(file.path(), {}, drafter).ok();
  return accepted;
}

}  // namespace service_config_fuzz

FuzzTarget ServiceConfigTarget() {
  return {"service_config", service_config_fuzz::Seeds,
          service_config_fuzz::Try};
}

}  // namespace espalier::testing
