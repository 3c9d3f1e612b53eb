#include "common/rpc/read_message.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/speculation/request_errors.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/slice.h"

namespace espalier {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Deeper than any of our messages nests.
constexpr int kMaxDepth = 16;

struct Problem {
  std::string field;  // path from the message down
  std::string what;
};

// Fields of a message and of all messages in it.
struct Totals {
  const MessageLimits limits;
  int64_t fields = 0;
  int64_t unknown = 0;
  std::map<const FieldDescriptor*, int64_t> repeated = {};
};

// Walks over the fields of one message.
class MessageWalk {
 public:
  MessageWalk(const Descriptor& type, absl::string_view bytes, int depth,
              Totals& totals)
      : type_(type),
        bytes_(bytes),
        depth_(depth),
        totals_(totals),
        in_(reinterpret_cast<const uint8_t*>(bytes.data()),
            static_cast<int>(bytes.size())) {}

  std::optional<Problem> Run() {
    if (depth_ > kMaxDepth) return Problem{"", "nested too deep"};
    while (const uint32_t tag = in_.ReadTag()) {
      if (auto problem = Field(tag)) return problem;
    }
    if (in_.ConsumedEntireMessage()) return std::nullopt;
    return Malformed();
  }

 private:
  Problem Malformed() const {
    return {"", absl::StrCat("not a message: malformed at byte ",
                             in_.CurrentPosition())};
  }

  std::optional<Problem> Field(uint32_t tag) {
    const FieldDescriptor* field =
        type_.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (auto problem = Count(field)) return problem;
    if (field != nullptr) {
      if (auto problem = Choice(*field)) return problem;
    }
    if (WireFormatLite::GetTagWireType(tag) !=
        WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in_, tag)) return Malformed();
      return std::nullopt;
    }
    uint32_t size = 0;
    if (!in_.ReadVarint32(&size)) return Malformed();
    const int begin = in_.CurrentPosition();
    if (size > bytes_.size() - begin || !in_.Skip(static_cast<int>(size))) {
      return Malformed();
    }
    if (field == nullptr) return std::nullopt;
    return Content(*field, bytes_.substr(begin, size));
  }

  // Refuses too many fields. `field`: null for one that the type does not have.
  std::optional<Problem> Count(const FieldDescriptor* field) {
    const MessageLimits& most = totals_.limits;
    if (++totals_.fields > most.fields) {
      return TooMany("", most.fields, "fields");
    }
    if (field == nullptr) {
      if (++totals_.unknown <= most.unknown) return std::nullopt;
      return TooMany("", most.unknown, "unknown fields");
    }
    // Numbers may be there one by one, and occupy little more than on the wire.
    if (!field->is_repeated() || field->is_packable()) return std::nullopt;
    if (++totals_.repeated[field] <= most.repeated) return std::nullopt;
    return TooMany(std::string(field->name()), most.repeated, "entries");
  }

  static Problem TooMany(std::string field, int64_t limit,
                         absl::string_view what) {
    return {std::move(field), absl::StrCat("has more than ", limit, " ", what)};
  }

  // Refuses a second member of a oneof: protobuf would keep only the last one.
  std::optional<Problem> Choice(const FieldDescriptor& field) {
    const OneofDescriptor* oneof = field.real_containing_oneof();
    if (oneof == nullptr) return std::nullopt;
    const auto [found, is_first] = chosen_.try_emplace(oneof, &field);
    if (is_first || found->second == &field) return std::nullopt;
    return Problem{std::string(field.name()),
                   absl::StrCat("is there beside ", found->second->name(),
                                "; only one of them may be")};
  }

  std::optional<Problem> Content(const FieldDescriptor& field,
                                 absl::string_view content) {
    if (field.type() == FieldDescriptor::TYPE_STRING) {
      const size_t bad = FindInvalidUtf8(content);
      if (bad == absl::string_view::npos) return std::nullopt;
      return Problem{std::string(field.name()),
                     absl::StrCat("no valid UTF-8 at byte ", bad)};
    }
    if (field.type() != FieldDescriptor::TYPE_MESSAGE) return std::nullopt;
    const int index = field.is_repeated() ? counts_[&field]++ : 0;
    auto problem =
        MessageWalk(*field.message_type(), content, depth_ + 1, totals_).Run();
    if (!problem) return std::nullopt;
    std::string name(field.name());
    if (field.is_repeated()) absl::StrAppend(&name, "[", index, "]");
    problem->field =
        problem->field.empty() ? name : absl::StrCat(name, ".", problem->field);
    return problem;
  }

  const Descriptor& type_;
  const absl::string_view bytes_;
  const int depth_;
  Totals& totals_;
  CodedInputStream in_;
  std::map<const OneofDescriptor*, const FieldDescriptor*> chosen_;
  std::map<const FieldDescriptor*, int> counts_;  // of repeated messages
};

}  // namespace

absl::Status CheckMessageBytes(const Descriptor& type, absl::string_view bytes,
                               const MessageLimits& limits) {
  Totals totals = {.limits = limits};
  const auto problem = MessageWalk(type, bytes, 0, totals).Run();
  if (!problem) return absl::OkStatus();
  return FieldError(problem->field.empty() ? "request" : problem->field,
                    problem->what);
}

absl::Status ReadMessage(const grpc::ByteBuffer& buffer,
                         google::protobuf::Message& message,
                         const MessageLimits& limits) {
  grpc::Slice bytes;
  if (!buffer.DumpToSingleSlice(&bytes).ok()) {
    return FieldError("request", "cannot be read");
  }
  const absl::string_view view(reinterpret_cast<const char*>(bytes.begin()),
                               bytes.size());
  RETURN_IF_ERROR(CheckMessageBytes(*message.GetDescriptor(), view, limits));
  if (message.ParseFromArray(view.data(), static_cast<int>(view.size()))) {
    return absl::OkStatus();
  }
  return FieldError("request", "not a message: malformed");
}

grpc::ByteBuffer WriteMessage(const google::protobuf::Message& message) {
  grpc::Slice bytes(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(bytes.begin()));
  return grpc::ByteBuffer(&bytes, 1);
}

}  // namespace espalier
