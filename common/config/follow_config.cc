#include "common/config/follow_config.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"
#include "espalier/v1/config.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/message_differencer.h"

namespace espalier {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

// Collects the paths of fields that differ.
class ChangedFields final : public MessageDifferencer::Reporter {
 public:
  using Path = std::vector<MessageDifferencer::SpecificField>;

  const std::vector<std::string>& paths() const { return paths_; }

  void ReportAdded(const Message& /*a*/, const Message& /*b*/,
                   const Path& path) override {
    Add(path);
  }
  void ReportDeleted(const Message& /*a*/, const Message& /*b*/,
                     const Path& path) override {
    Add(path);
  }
  void ReportModified(const Message& /*a*/, const Message& /*b*/,
                      const Path& path) override {
    // Fields of a changed message are reported themselves.
    const auto* const last = path.back().field;
    if (last == nullptr || last->message_type() == nullptr) Add(path);
  }

 private:
  void Add(const Path& path) {
    std::string name;
    for (const MessageDifferencer::SpecificField& part : path) {
      if (part.field == nullptr) break;  // not a field of ours
      absl::StrAppend(&name, name.empty() ? "" : ".", part.field->name());
      if (part.field->is_repeated() && !part.field->is_map()) {
        absl::StrAppend(&name, ".",
                        part.index >= 0 ? part.index : part.new_index);
      }
    }
    paths_.push_back(std::move(name));
  }

  std::vector<std::string> paths_;
};

// Returns the level that a configuration names, and takes it out of it. A
// node, which has no listener of its own, has the level of its verifier's.
absl::StatusOr<LogLevel> TakeLevel(Message& config,
                                   const std::string& path = "") {
  const auto* const type = config.GetDescriptor();
  const auto* const server = type->FindFieldByName("server");
  const auto* const child =
      server != nullptr ? server : type->FindFieldByName("verifier");
  Message& sub = *config.GetReflection()->MutableMessage(&config, child);
  if (server == nullptr) return TakeLevel(sub, "verifier.");
  auto& listener = static_cast<v1::ServerConfig&>(sub);
  const std::string name = listener.log_level();
  listener.clear_log_level();
  if (name.empty()) return LogLevel::kInfo;
  if (const auto level = LogLevelNamed(name)) return *level;
  return absl::InvalidArgumentError(absl::StrCat(
      path, "server.log_level: \"", name, "\" is not info, warning or error"));
}

void LogWhatStays(const Message& in_force, const Message& wanted) {
  ChangedFields changed;
  MessageDifferencer compare;
  compare.ReportDifferencesTo(&changed);
  if (compare.Compare(in_force, wanted) || changed.paths().empty()) return;
  LogWarning(absl::StrCat("fields that a restart changes: ",
                          absl::StrJoin(changed.paths(), ", ")));
}

}  // namespace

absl::Status FollowConfig(const Message& config,
                          std::function<absl::Status(Message&)> load,
                          Reload& reload) {
  std::shared_ptr<Message> in_force(config.New());
  in_force->CopyFrom(config);
  ASSIGN_OR_RETURN(const LogLevel level, TakeLevel(*in_force));
  SetLogLevel(level);
  reload.Add(
      [in_force, load = std::move(load)]() -> absl::StatusOr<Reload::Install> {
        std::shared_ptr<Message> wanted(in_force->New());
        RETURN_IF_ERROR(load(*wanted));
        ASSIGN_OR_RETURN(const LogLevel next, TakeLevel(*wanted));
        return [in_force, wanted, next] {
          SetLogLevel(next);
          LogWhatStays(*in_force, *wanted);
        };
      });
  return absl::OkStatus();
}

}  // namespace espalier
