#include "common/tokenizer/normalizer.h"

#include "common/base/utf8.h"
#include "common/tokenizer/unicode_classes.h"

namespace espalier {
namespace {

std::string Stripped(std::string_view text, const Normalizer::Step& step) {
  size_t begin = text.size(), end = 0;  // of what is not white space
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    const bool is_space = ClassOf(c.value) == CharClass::kSpace;
    if (!is_space && begin == text.size()) begin = at;
    at += c.size;
    if (!is_space) end = at;
  }
  if (!step.left) begin = 0;
  if (!step.right) end = text.size();
  return begin < end ? std::string(text.substr(begin, end - begin)) : "";
}

std::string Apply(const Normalizer::Step& step, std::string_view text) {
  switch (step.kind) {
    case Normalizer::Kind::kForm:
      return ToNormalForm(text, step.form);
    case Normalizer::Kind::kLower:
      return LowerCase(text);
    case Normalizer::Kind::kPrepend:
      return text.empty() ? "" : step.to + std::string(text);
    case Normalizer::Kind::kReplace:
      return ReplaceAll(text, step.from, step.to);
    case Normalizer::Kind::kStrip:
      return Stripped(text, step);
  }
  return std::string(text);
}

}  // namespace

std::string Normalizer::Normalize(std::string_view text) const {
  std::string normalized(text);
  for (const Step& step : steps_) normalized = Apply(step, normalized);
  return normalized;
}

std::string ReplaceAll(std::string_view text, std::string_view from,
                       std::string_view to) {
  std::string replaced;
  replaced.reserve(text.size());
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string_view::npos;
       at = text.find(from, done)) {
    replaced.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  return replaced.append(text, done);
}

}  // namespace espalier
