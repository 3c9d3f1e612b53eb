#include "coordinator/http/field_table.h"

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

constexpr size_t kMaxShownBytes = 64;

const Field* Row(absl::Span<const FieldTable> tables, absl::string_view name) {
  for (const FieldTable& table : tables) {
    for (const Field& field : table) {
      if (field.name == name) return &field;
    }
  }
  return nullptr;
}

}  // namespace

absl::Status ReadFields(const Json& body, absl::Span<const FieldTable> tables,
                        ApiRequest& out) {
  for (const auto& [name, value] : body.items()) {
    const Field* field = Row(tables, name);
    if (field == nullptr) {
      return FieldError(Printable(name, kMaxShownBytes),
                        "this server does not know the field");
    }
    if (value.is_null()) continue;
    if (field->follow == nullptr) return FieldError(name, field->meaning);
    RETURN_IF_ERROR(field->follow(name, value, out));
  }
  return absl::OkStatus();
}

void NameMessages(int first, const std::string& path, ApiRequest& out) {
  const int messages = out.generate.chat().messages_size();
  for (int i = first; i < messages; ++i) {
    out.names.emplace_back(absl::StrCat("chat.messages[", i, "]"), path);
  }
}

void NameLastMessage(absl::string_view field, ApiRequest& out) {
  const int last = out.generate.chat().messages_size() - 1;
  out.names.emplace_back(absl::StrCat("chat.messages[", last, "].content"),
                         field);
  NameMessages(last, std::string(field), out);
}

absl::Status FollowModel(absl::string_view name, const Json& value,
                         ApiRequest& out) {
  ASSIGN_OR_RETURN(const std::string model, ReadText(name, value));
  out.generate.set_model(model);
  return absl::OkStatus();
}

absl::Status Accept(absl::string_view, const Json&, ApiRequest&) {
  return absl::OkStatus();
}

}  // namespace espalier::coordinator
