#include "coordinator/http/pythonic_calls.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/json/ordered_json.h"
#include "coordinator/http/json_read.h"

namespace espalier::coordinator {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxBytes = size_t{1} << 20;  // of a list of calls

struct Call {
  std::string name;
  Json arguments = Json::object();
};

// Parses a list of calls. Every method returns false, or nullopt, for what is
// none.
class Parser {
 public:
  explicit Parser(absl::string_view text) : rest_(text) {}

  std::optional<std::vector<Call>> Calls() {
    std::vector<Call> calls;
    if (!Take('[')) return std::nullopt;
    while (!Take(']')) {
      if (!calls.empty() && !Take(',')) return std::nullopt;
      std::optional<Call> call = OneCall();
      if (!call) return std::nullopt;
      calls.push_back(*std::move(call));
    }
    if (calls.empty() || !Peek().empty()) return std::nullopt;
    return calls;
  }

 private:
  absl::string_view Peek() {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return rest_;
  }
  bool Take(char byte) { return absl::ConsumePrefix(&rest_, Spaced(byte)); }
  absl::string_view Spaced(char byte) {
    Peek();
    wanted_ = byte;
    return {&wanted_, 1};
  }
  std::string Word() {
    Peek();
    size_t size = 0;
    while (size < rest_.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(rest_[size])) ||
            absl::StrContains("_.-", rest_[size]))) {
      ++size;
    }
    std::string word(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return word;
  }

  std::optional<Call> OneCall() {
    Call call = {.name = Word()};
    if (call.name.empty() || !Take('(')) return std::nullopt;
    while (!Take(')')) {
      if (!call.arguments.empty() && !Take(',')) return std::nullopt;
      const std::string name = Word();
      if (name.empty() || !Take('=')) return std::nullopt;
      std::optional<Json> value = Value(0);
      if (!value) return std::nullopt;
      call.arguments[name] = *std::move(value);
    }
    return call;
  }

  std::optional<Json> Value(int depth) {
    if (depth > kMaxDepth || Peek().empty()) return std::nullopt;
    if (rest_[0] == '"' || rest_[0] == '\'') return Text();
    if (Take('[')) return List(depth);
    if (Take('{')) return Dictionary(depth);
    const std::string word = Word();
    if (word == "True" || word == "true") return Json(true);
    if (word == "False" || word == "false") return Json(false);
    if (word == "None" || word == "null") return Json(nullptr);
    Json number = ReadOrderedJson(word);
    if (number.is_number()) return number;
    return std::nullopt;
  }

  std::optional<Json> List(int depth) {
    Json list = Json::array();
    while (!Take(']')) {
      if (!list.empty() && !Take(',')) return std::nullopt;
      std::optional<Json> value = Value(depth + 1);
      if (!value) return std::nullopt;
      list.push_back(*std::move(value));
    }
    return list;
  }

  std::optional<Json> Dictionary(int depth) {
    Json object = Json::object();
    while (!Take('}')) {
      if (!object.empty() && !Take(',')) return std::nullopt;
      const std::optional<Json> key = Value(depth + 1);
      if (!key || !key->is_string() || !Take(':')) return std::nullopt;
      std::optional<Json> value = Value(depth + 1);
      if (!value) return std::nullopt;
      object[key->get<std::string>()] = *std::move(value);
    }
    return object;
  }

  std::optional<Json> Text() {
    const char quote = rest_[0];
    std::string text;
    for (size_t i = 1; i < rest_.size(); ++i) {
      char byte = rest_[i];
      if (byte == quote) {
        rest_.remove_prefix(i + 1);
        return Json(text);
      }
      if (byte == '\\' && i + 1 < rest_.size()) byte = Escaped(rest_[++i]);
      text += byte;
    }
    return std::nullopt;
  }

  static char Escaped(char byte) {
    return byte == 'n' ? '\n' : byte == 't' ? '\t' : byte == 'r' ? '\r' : byte;
  }

  absl::string_view rest_;
  char wanted_ = 0;
};

class PythonicCalls final : public OutputParser {
 public:
  explicit PythonicCalls(std::vector<std::string> names)
      : names_(std::move(names)) {}

  void Push(absl::string_view text, ParsedText& out) override {
    if (is_text_) {
      out.content.append(text.data(), text.size());
      return;
    }
    held_.append(text.data(), text.size());
    const absl::string_view said = absl::StripLeadingAsciiWhitespace(held_);
    if (said.empty()) return;
    if (said[0] != '[' || held_.size() > kMaxBytes) GiveUp(out);
  }

  void Finish(ParsedText& out) override {
    if (is_text_) return;
    const std::optional<std::vector<Call>> calls = Parser(held_).Calls();
    const bool are_known =
        calls && std::all_of(calls->begin(), calls->end(), [&](const Call& c) {
          return std::find(names_.begin(), names_.end(), c.name) !=
                 names_.end();
        });
    if (!are_known) return GiveUp(out);
    for (size_t i = 0; i < calls->size(); ++i) {
      out.AddCall({.index = static_cast<int64_t>(i),
                   .name = (*calls)[i].name,
                   .arguments = ToText((*calls)[i].arguments)});
    }
  }

 private:
  void GiveUp(ParsedText& out) {
    is_text_ = true;
    out.content += std::exchange(held_, "");
  }

  const std::vector<std::string> names_;
  bool is_text_ = false;  // the output is no list of calls
  std::string held_;
};

}  // namespace

std::unique_ptr<OutputParser> NewPythonicCalls(std::vector<std::string> names) {
  return std::make_unique<PythonicCalls>(std::move(names));
}

}  // namespace espalier::coordinator
