#include "coordinator/http/json_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/json/ordered_json.h"

namespace espalier::coordinator {
namespace {

// The text that a JSON string stands for; empty: it is none.
std::string Unquoted(const std::string& text) {
  const auto json = ReadOrderedJson(text);
  return json.is_string() ? json.get<std::string>() : "";
}

}  // namespace

JsonCall::Progress JsonCall::Push(char byte, ParsedText& out) {
  text_ += byte;
  const Progress progress = Step(byte, out);
  // What has gone out cannot be taken back: the call ends here.
  if (progress == Progress::kBad && announced_) return Progress::kDone;
  return progress;
}

JsonCall::Progress JsonCall::Step(char byte, ParsedText& out) {
  switch (state_) {
    case State::kNested:
      return StepNested(byte, out);
    case State::kScalar:
      return StepScalar(byte, out);
    case State::kInKey: {
      key_ += byte;
      const bool ends = byte == '"' && !escaped_;
      escaped_ = byte == '\\' && !escaped_;
      if (!ends) return Progress::kMore;
      key_ = Unquoted(key_);
      state_ = State::kColon;
      return Progress::kMore;
    }
    default:
      if (absl::ascii_isspace(static_cast<unsigned char>(byte))) {
        return Progress::kMore;
      }
      return StepBetween(byte, out);
  }
}

JsonCall::Progress JsonCall::StepBetween(char byte, ParsedText& out) {
  switch (state_) {
    case State::kStart:
      state_ = State::kKey;
      return byte == '{' ? Progress::kMore : Progress::kBad;
    case State::kKey:
      state_ = State::kInKey;
      key_ = byte;
      escaped_ = false;
      return byte == '"' ? Progress::kMore : Progress::kBad;
    case State::kColon:
      state_ = State::kValue;
      return byte == ':' ? Progress::kMore : Progress::kBad;
    case State::kValue:
      return BeginValue(byte, out);
    default:  // kAfter
      if (byte == '}') return End(out);
      state_ = State::kKey;
      return byte == ',' ? Progress::kMore : Progress::kBad;
  }
}

JsonCall::Progress JsonCall::BeginValue(char byte, ParsedText& out) {
  value_.clear();
  depth_ = 0;
  in_string_ = escaped_ = false;
  is_text_ = byte == '"';
  const bool is_nested = is_text_ || byte == '{' || byte == '[';
  state_ = is_nested ? State::kNested : State::kScalar;
  return Step(byte, out);
}

JsonCall::Progress JsonCall::StepNested(char byte, ParsedText& out) {
  if (IsArguments() && !is_text_) {
    AddArguments({&byte, 1}, out);
  } else {
    value_ += byte;
  }
  if (in_string_) {
    const bool closes = byte == '"' && !escaped_;
    escaped_ = byte == '\\' && !escaped_;
    if (closes) in_string_ = false;
  } else if (byte == '"') {
    in_string_ = true;
  } else if (byte == '{' || byte == '[') {
    ++depth_;
  } else if (byte == '}' || byte == ']') {
    --depth_;
  }
  if (in_string_ || depth_ > 0) return Progress::kMore;
  return EndValue(out);
}

// It ends before the byte that cannot be part of it.
JsonCall::Progress JsonCall::StepScalar(char byte, ParsedText& out) {
  const bool is_part = absl::ascii_isalnum(static_cast<unsigned char>(byte)) ||
                       byte == '.' || byte == '-' || byte == '+';
  if (is_part) {
    value_ += byte;
    return Progress::kMore;
  }
  const Progress ended = EndValue(out);
  return ended == Progress::kMore ? Step(byte, out) : ended;
}

JsonCall::Progress JsonCall::EndValue(ParsedText& out) {
  state_ = State::kAfter;
  if (key_ == "name" && name_.empty()) return SetName(Unquoted(value_), out);
  if (IsArguments() && is_text_) AddArguments(Unquoted(value_), out);
  return Progress::kMore;
}

JsonCall::Progress JsonCall::SetName(const std::string& name, ParsedText& out) {
  const bool is_known =
      known_ == nullptr ||
      std::find(known_->begin(), known_->end(), name) != known_->end();
  if (name.empty() || !is_known) return Progress::kBad;
  name_ = name;
  if (has_arguments_) AddArguments("", out);
  return Progress::kMore;
}

void JsonCall::AddArguments(absl::string_view text, ParsedText& out) {
  has_arguments_ = true;
  arguments_.append(text.data(), text.size());
  if (name_.empty()) return;
  out.AddCall({.index = index_,
               .name = std::exchange(announced_, true) ? "" : name_,
               .arguments = std::exchange(arguments_, "")});
}

JsonCall::Progress JsonCall::End(ParsedText& out) {
  if (name_.empty()) return Progress::kBad;
  if (!has_arguments_) AddArguments("{}", out);
  return Progress::kDone;
}

}  // namespace espalier::coordinator
