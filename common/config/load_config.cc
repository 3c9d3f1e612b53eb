#include "common/config/load_config.h"

#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/config/set_field.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace espalier {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::Message;

// Keeps the first error, with its line and column.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(const std::string& file, const DescriptorPool& pool)
      : file_(file), pool_(pool) {}

  void AddError(int line, int column, const std::string& what) override {
    if (!text_.empty()) return;
    text_ = line < 0 ? absl::StrCat(file_, ": ", what)
                     : absl::StrCat(file_, ":", line + 1, ":", column + 1, ": ",
                                    what);
    absl::StrAppend(&text_, KnownFields(what));
  }

  const std::string& text() const { return text_; }

 private:
  // The parser's error is: Message type "a.B" has no field named "c".
  std::string KnownFields(const std::string& what) const {
    if (!absl::StrContains(what, "has no field named")) return "";
    const std::vector<std::string> quoted = absl::StrSplit(what, '"');
    const Descriptor* type =
        quoted.size() > 1 ? pool_.FindMessageTypeByName(quoted[1]) : nullptr;
    if (type == nullptr) return "";
    return absl::StrCat(" Known: ", FieldNames(*type));
  }

  const std::string& file_;
  const DescriptorPool& pool_;
  std::string text_;
};

absl::Status ParseFile(const std::string& file, Message& message) {
  std::ifstream stream(file, std::ios::binary);
  stream.peek();  // sets bad() if reading fails, e.g. for a folder
  if (!stream.is_open() || stream.bad()) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot read the configuration ", file));
  }
  std::ostringstream text;
  text << stream.rdbuf();
  FirstError error(file, *message.GetDescriptor()->file()->pool());
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text.str(), &message)) {
    return absl::InvalidArgumentError(error.text());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadConfig(const std::string& file,
                        const std::vector<std::string>& overrides,
                        Message& message) {
  if (!file.empty()) RETURN_IF_ERROR(ParseFile(file, message));
  for (const std::string& text : overrides) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (!absl::StrContains(text, '=')) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", text, ": is not path=value"));
    }
    absl::Status status = SetField(parts.first, parts.second, message);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace espalier
