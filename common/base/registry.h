#ifndef ESPALIER_COMMON_BASE_REGISTRY_H_
#define ESPALIER_COMMON_BASE_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"

namespace espalier {

// Factories of a plug-in type by name. One function per kind (e.g.
// RegisterDrafters) lists the plug-ins and fills the registry; then it is only
// read. The lists are explicit because the linker drops objects of a static
// library that only register themselves, and because a reader can find a list.
template <typename Base, typename... Args>
class Registry {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Base>>(Args...)>;

  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  // REQUIRES: `name` is new.
  void Add(std::string name, Factory factory) {
    ESPALIER_CHECK(
        factories_.emplace(std::move(name), std::move(factory)).second);
  }

  // INVALID_ARGUMENT: unknown name; the message lists the known ones.
  absl::StatusOr<std::unique_ptr<Base>> Create(absl::string_view name,
                                               Args... args) const {
    auto found = factories_.find(std::string(name));
    if (found == factories_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown ", kind_, " \"", name,
                       "\"; known: ", absl::StrJoin(Names(), ", ")));
    }
    return found->second(std::forward<Args>(args)...);
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, factory] : factories_) names.push_back(name);
    return names;
  }

 private:
  std::string kind_;
  std::map<std::string, Factory, std::less<>> factories_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_REGISTRY_H_
