#include "coordinator/http/reasoning.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace espalier::coordinator {
namespace {

constexpr absl::string_view kOpen = "<think>";
constexpr absl::string_view kClose = "</think>";

class PlainParser final : public OutputParser {
 public:
  void Push(absl::string_view text, ParsedText& out) override {
    out.content.append(text.data(), text.size());
  }
  void Finish(ParsedText&) override {}
};

// White space around the thoughts belongs to neither part.
class ReasoningParser final : public OutputParser {
 public:
  ReasoningParser(bool is_open, std::unique_ptr<OutputParser> rest)
      : state_(is_open ? State::kThoughts : State::kBegin),
        rest_(std::move(rest)) {}

  void Push(absl::string_view text, ParsedText& out) override {
    for (size_t i = 0; i < text.size(); ++i) {
      if (state_ == State::kAnswer) return rest_->Push(text.substr(i), out);
      Step(text[i], out);
    }
  }

  void Finish(ParsedText& out) override {
    if (state_ == State::kThoughts) {
      absl::StrAppend(&out.reasoning,
                      absl::StripTrailingAsciiWhitespace(held_));
    } else if (state_ == State::kBegin) {
      rest_->Push(held_, out);
    }
    held_.clear();
    rest_->Finish(out);
  }

 private:
  enum class State { kBegin, kThoughts, kGap, kAnswer };

  void Step(char byte, ParsedText& out) {
    switch (state_) {
      case State::kBegin:
        return StepBegin(byte, out);
      case State::kThoughts:
        return StepThoughts(byte, out);
      default:  // kGap
        if (absl::ascii_isspace(static_cast<unsigned char>(byte))) return;
        state_ = State::kAnswer;
        rest_->Push({&byte, 1}, out);
    }
  }

  void StepBegin(char byte, ParsedText& out) {
    held_ += byte;
    const absl::string_view said = absl::StripLeadingAsciiWhitespace(held_);
    if (said == kOpen) {
      held_.clear();
      state_ = State::kThoughts;
    } else if (!absl::StartsWith(kOpen, said)) {
      state_ = State::kAnswer;
      rest_->Push(std::exchange(held_, ""), out);
    }
  }

  void StepThoughts(char byte, ParsedText& out) {
    held_ += byte;
    while (!held_.empty()) {
      const absl::string_view said = absl::StripLeadingAsciiWhitespace(held_);
      if (said == kClose) {
        held_.clear();
        state_ = State::kGap;
        return;
      }
      if (absl::StartsWith(kClose, said)) return;  // also if it is empty
      const size_t shown = held_.size() - said.size() + 1;
      out.reasoning +=
          begun_ ? held_.substr(0, shown) : held_.substr(shown - 1, 1);
      begun_ = true;
      held_.erase(0, shown);
    }
  }

  State state_;
  const std::unique_ptr<OutputParser> rest_;
  std::string held_;    // what may be a mark, and white space before it
  bool begun_ = false;  // a thought has gone out
};

}  // namespace

std::unique_ptr<OutputParser> NewPlainParser() {
  return std::make_unique<PlainParser>();
}

std::unique_ptr<OutputParser> NewReasoningParser(
    bool is_open, std::unique_ptr<OutputParser> rest) {
  return std::make_unique<ReasoningParser>(is_open, std::move(rest));
}

}  // namespace espalier::coordinator
