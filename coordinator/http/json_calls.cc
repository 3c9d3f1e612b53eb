#include "coordinator/http/json_calls.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/http/json_call.h"

namespace espalier::coordinator {
namespace {

bool IsSpace(char byte) {
  return absl::ascii_isspace(static_cast<unsigned char>(byte));
}

class JsonCalls final : public OutputParser {
 public:
  JsonCalls(JsonCallForm form, std::vector<std::string> names)
      : form_(std::move(form)), names_(std::move(names)) {
    state_ = form_.begin.empty() ? State::kBetween : State::kText;
  }

  void Push(absl::string_view text, ParsedText& out) override {
    for (const char byte : text) Step(byte, out);
  }

  void Finish(ParsedText& out) override {
    if (call_ && !call_->announced()) mark_ += call_->text();
    // What is after a call's end, or between calls, says nothing.
    const bool begins_call =
        !form_.begin.empty() && absl::StrContains(mark_, form_.begin);
    const bool is_mark =
        state_ == State::kAfterCall || (call_ && call_->announced()) ||
        (state_ == State::kBetween && num_calls_ > 0 && !begins_call);
    if (!is_mark) held_ = mark_ + held_;
    const bool says = (num_calls_ == 0 && !call_) ||
                      !absl::StripAsciiWhitespace(held_).empty();
    if (says) out.content += held_;
    held_.clear();
    mark_.clear();
    call_.reset();
  }

 private:
  enum class State {
    kText,     // content, or the beginning of form_.begin
    kBetween,  // where a call may begin
    kInCall,
    kAfterCall,  // where form_.end is
  };

  void Step(char byte, ParsedText& out) {
    switch (state_) {
      case State::kText:
        return StepText(byte, out);
      case State::kBetween:
        return StepBetween(byte, out);
      case State::kInCall:
        return StepCall(byte, out);
      case State::kAfterCall:
        return StepAfter(byte, out);
    }
  }

  // Holds back white space, which is dropped before a call, and what may be
  // the beginning of a call.
  void StepText(char byte, ParsedText& out) {
    held_ += byte;
    while (!held_.empty()) {
      const absl::string_view rest = absl::StripLeadingAsciiWhitespace(held_);
      if (rest.empty()) return;
      if (!form_.begin.empty() && rest == form_.begin) {
        mark_ = std::exchange(held_, "");
        state_ = State::kBetween;
        return;
      }
      if (!form_.begin.empty() && absl::StartsWith(form_.begin, rest)) return;
      // The first byte of the rest begins no call.
      const size_t shown = held_.size() - rest.size() + 1;
      out.content += held_.substr(0, shown);
      held_.erase(0, shown);
    }
  }

  void StepBetween(char byte, ParsedText& out) {
    if (byte == '{') {
      call_.emplace(num_calls_, form_.begin.empty() ? &names_ : nullptr);
      state_ = State::kInCall;
      return StepCall(byte, out);
    }
    mark_ += byte;
    if (IsSpace(byte) || absl::StrContains(form_.between, byte)) return;
    GiveUp("", out);
  }

  void StepCall(char byte, ParsedText& out) {
    switch (call_->Push(byte, out)) {
      case JsonCall::Progress::kMore:
        return;
      case JsonCall::Progress::kBad: {
        const std::string text = call_->text();
        call_.reset();
        return GiveUp(text, out);
      }
      case JsonCall::Progress::kDone:
        ++num_calls_;
        call_.reset();
        mark_.clear();
        state_ = form_.end.empty() ? State::kBetween : State::kAfterCall;
    }
  }

  void StepAfter(char byte, ParsedText& out) {
    mark_ += byte;
    const absl::string_view rest = absl::StripLeadingAsciiWhitespace(mark_);
    if (absl::StartsWith(form_.end, rest) && rest.size() < form_.end.size()) {
      return;
    }
    const bool ended = rest == form_.end;
    const std::string other = ended ? "" : mark_;
    mark_.clear();
    state_ = State::kText;
    for (const char again : other) StepText(again, out);
  }

  // What looked like a call is content.
  void GiveUp(const std::string& text, ParsedText& out) {
    out.content += std::exchange(mark_, "") + text;
    state_ = State::kText;
  }

  const JsonCallForm form_;
  const std::vector<std::string> names_;
  State state_;
  std::string held_;  // text that has not gone out
  std::string mark_;  // what was read of the marks around a call
  std::optional<JsonCall> call_;
  int64_t num_calls_ = 0;
};

}  // namespace

std::unique_ptr<OutputParser> NewJsonCalls(JsonCallForm form,
                                           std::vector<std::string> names) {
  return std::make_unique<JsonCalls>(std::move(form), std::move(names));
}

}  // namespace espalier::coordinator
