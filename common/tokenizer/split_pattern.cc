#include "common/tokenizer/split_pattern.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/tokenizer/unicode_classes.h"

namespace espalier {
namespace {

constexpr uint32_t BitOf(CharClass kind) {
  return uint32_t{1} << static_cast<int>(kind);
}
constexpr uint32_t kAllClasses = (BitOf(CharClass::kOther) << 1) - 1;
constexpr uint32_t kLetters =
    BitOf(CharClass::kUpper) | BitOf(CharClass::kLower) |
    BitOf(CharClass::kTitle) | BitOf(CharClass::kModifierLetter) |
    BitOf(CharClass::kOtherLetter);

struct Property {
  std::string_view name;
  uint32_t classes;
};
constexpr Property kProperties[] = {
    {"L", kLetters},
    {"Lu", BitOf(CharClass::kUpper)},
    {"Ll", BitOf(CharClass::kLower)},
    {"Lt", BitOf(CharClass::kTitle)},
    {"Lm", BitOf(CharClass::kModifierLetter)},
    {"Lo", BitOf(CharClass::kOtherLetter)},
    {"M", BitOf(CharClass::kMark)},
    {"N", BitOf(CharClass::kNumber)},
    {"P", BitOf(CharClass::kPunctuation)},
    {"S", BitOf(CharClass::kSymbol)},
};

constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
constexpr int kMaxNested = 20;

}  // namespace

bool SplitPattern::Set::Contains(char32_t c) const {
  if (c < ascii.size()) return ascii[c];
  const bool listed =
      (classes & BitOf(ClassOf(c))) != 0 ||
      std::any_of(ranges.begin(), ranges.end(), [c](const auto& range) {
        return c >= range.first && c <= range.second;
      });
  return listed != negated;
}

// Recursive descent; writes instructions in the order of the pattern.
class SplitPattern::Parser {
 public:
  Parser(std::string_view text, SplitPattern& out) : text_(text), out_(out) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Alternatives(/*any_case=*/false, 0));
    if (at_ < text_.size()) return Unsupported();
    Emit({.op = Op::kMatch});
    return absl::OkStatus();
  }

 private:
  absl::Status Unsupported() const {
    constexpr size_t kShown = 20;
    return absl::UnimplementedError(absl::StrCat(
        "a regular expression with \"",
        absl::Utf8SafeCHexEscape(std::string(text_.substr(at_, kShown))),
        "\" at byte ", at_, " is not supported"));
  }

  bool Take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }
  bool Next(char c) const { return at_ < text_.size() && text_[at_] == c; }

  size_t Emit(const Instruction& instruction) {
    out_.program_.push_back(instruction);
    return out_.program_.size() - 1;
  }
  size_t Here() const { return out_.program_.size(); }

  // A fork to this place is inserted at `place`; what was there moves.
  void InsertFork(size_t place) {
    auto& program = out_.program_;
    for (size_t i = place; i < program.size(); ++i) {
      if (program[i].op != Op::kRepeat) ++program[i].target;
    }
    program.insert(program.begin() + static_cast<std::ptrdiff_t>(place),
                   {.op = Op::kFork, .target = program.size() + 1});
  }

  absl::Status Alternatives(bool any_case, int depth) {
    if (depth > kMaxNested) return Unsupported();
    std::vector<size_t> jumps;  // to the end
    while (true) {
      const size_t begin = Here();
      while (at_ < text_.size() && !Next('|') && !Next(')')) {
        RETURN_IF_ERROR(Item(any_case, depth));
      }
      if (!Take("|")) break;
      jumps.push_back(Emit({.op = Op::kJump}));
      InsertFork(begin);
      ++jumps.back();
    }
    for (size_t jump : jumps) out_.program_[jump].target = Here();
    return absl::OkStatus();
  }

  absl::Status Item(bool any_case, int depth) {
    if (Take("(?!")) return NotAhead(any_case, depth);
    if (Take("$")) {
      Emit({.op = Op::kLineEnd});
      return absl::OkStatus();
    }
    const size_t begin = Here();
    if (Take("(?i:")) {
      RETURN_IF_ERROR(Group(/*any_case=*/true, depth));
      return OptionalGroup(begin);
    }
    if (Take("(?:")) {
      RETURN_IF_ERROR(Group(any_case, depth));
      return OptionalGroup(begin);
    }
    Set set;
    RETURN_IF_ERROR(OneCharacter(any_case, set));
    Instruction repeat = {.op = Op::kRepeat, .least = 1, .most = 1};
    RETURN_IF_ERROR(Quantifier(repeat));
    repeat.set = out_.sets_.size();
    out_.sets_.push_back(std::move(set));
    Emit(repeat);
    return absl::OkStatus();
  }

  absl::Status Group(bool any_case, int depth) {
    RETURN_IF_ERROR(Alternatives(any_case, depth + 1));
    return Take(")") ? absl::OkStatus() : Unsupported();
  }

  absl::Status OptionalGroup(size_t begin) {
    if (Next('*') || Next('+') || Next('{')) return Unsupported();
    if (!Take("?")) return absl::OkStatus();
    if (Next('?') || Next('+')) return Unsupported();
    InsertFork(begin);
    return absl::OkStatus();
  }

  absl::Status NotAhead(bool any_case, int depth) {
    const size_t begin = Emit({.op = Op::kNotAhead});
    RETURN_IF_ERROR(Group(any_case, depth));
    Emit({.op = Op::kMatch});
    out_.program_[begin].target = Here();
    return absl::OkStatus();
  }

  std::optional<size_t> Number() {
    constexpr size_t kMax = 1000;
    const size_t begin = at_;
    size_t number = 0;
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) {
      number = number * 10 + static_cast<size_t>(text_[at_++] - '0');
      if (number > kMax) return std::nullopt;
    }
    if (at_ == begin) return std::nullopt;
    return number;
  }

  absl::Status Quantifier(Instruction& repeat) {
    if (Take("?")) {
      repeat.least = 0;
    } else if (Take("*")) {
      repeat.least = 0;
      repeat.most = kUnbounded;
    } else if (Take("+")) {
      repeat.most = kUnbounded;
    } else if (Take("{")) {
      const auto least = Number();
      const auto most = Take(",") ? Number() : least;
      if (!least || !most || *most < *least || !Take("}")) return Unsupported();
      repeat.least = *least;
      repeat.most = *most;
    } else {
      return absl::OkStatus();
    }
    // Lazy, possessive or repeated quantifiers.
    if (Next('?') || Next('+') || Next('*') || Next('{')) return Unsupported();
    return absl::OkStatus();
  }

  static void AddRange(char32_t first, char32_t last, Set& set) {
    for (char32_t c = first; c <= last && c < set.ascii.size(); ++c) {
      set.ascii[c] = true;
    }
    set.ranges.emplace_back(first, last);
  }

  static void AddClasses(uint32_t classes, Set& set) {
    for (char32_t c = 0; c < set.ascii.size(); ++c) {
      if (classes & BitOf(ClassOf(c))) set.ascii[c] = true;
    }
    set.classes |= classes;
  }

  // The other cases of an ASCII letter; two have one outside ASCII.
  static void AddCharacter(char32_t c, bool any_case, Set& set) {
    AddRange(c, c, set);
    if (!any_case || c >= set.ascii.size()) return;
    const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
    const char upper = absl::ascii_toupper(static_cast<unsigned char>(c));
    AddRange(lower, lower, set);
    AddRange(upper, upper, set);
    if (lower == 's') AddRange(0x17F, 0x17F, set);
    if (lower == 'k') AddRange(0x212A, 0x212A, set);
  }

  absl::Status OneCharacter(bool any_case, Set& set) {
    if (Take("[")) return CharacterSet(any_case, set);
    if (Next('\\')) return Escape(any_case, set).status();
    constexpr std::string_view kReserved = "()?*+{}.^$|]";
    if (kReserved.find(text_[at_]) != std::string_view::npos) {
      return Unsupported();
    }
    const CodePoint c = CodePointAt(text_, at_);
    if (any_case && c.value >= set.ascii.size()) return Unsupported();
    at_ += c.size;
    AddCharacter(c.value, any_case, set);
    return absl::OkStatus();
  }

  // Returns the character that was added; nullopt: a class.
  absl::StatusOr<std::optional<char32_t>> Escape(bool any_case, Set& set) {
    const uint32_t space = BitOf(CharClass::kSpace);
    if (Take("\\s")) {
      AddClasses(space, set);
      return std::nullopt;
    }
    if (Take("\\S")) {
      AddClasses(kAllClasses & ~space, set);
      return std::nullopt;
    }
    for (const Property& property : kProperties) {
      const std::string name =
          absl::StrCat("{", std::string(property.name), "}");
      if (Take("\\p" + name)) {
        AddClasses(property.classes, set);
        return std::nullopt;
      }
      if (Take("\\P" + name)) {
        AddClasses(kAllClasses & ~property.classes, set);
        return std::nullopt;
      }
    }
    char32_t c = 0;
    if (Take("\\r")) {
      c = '\r';
    } else if (Take("\\n")) {
      c = '\n';
    } else if (Take("\\t")) {
      c = '\t';
    } else if (at_ + 1 < text_.size() && absl::ascii_ispunct(text_[at_ + 1])) {
      c = static_cast<char32_t>(text_[at_ + 1]);
      at_ += 2;
    } else {
      return Unsupported();
    }
    AddCharacter(c, any_case, set);
    return c;
  }

  // Returns one character of a set, or a class.
  absl::StatusOr<std::optional<char32_t>> Member(Set& set) {
    if (Next('\\')) return Escape(/*any_case=*/false, set);
    if (at_ >= text_.size() || Next('[') || text_.substr(at_, 2) == "&&") {
      return Unsupported();
    }
    const CodePoint c = CodePointAt(text_, at_);
    at_ += c.size;
    AddRange(c.value, c.value, set);
    return c.value;
  }

  absl::Status CharacterSet(bool any_case, Set& set) {
    if (any_case) return Unsupported();
    const bool negated = Take("^");
    if (Next(']')) return Unsupported();
    while (!Take("]")) {
      ASSIGN_OR_RETURN(const std::optional<char32_t> first, Member(set));
      if (!Next('-') || text_.substr(at_, 2) == "-]") continue;
      ++at_;
      ASSIGN_OR_RETURN(const std::optional<char32_t> last, Member(set));
      if (!first || !last || *last < *first) return Unsupported();
      AddRange(*first, *last, set);
    }
    set.negated = negated;
    if (negated) {
      for (bool& contained : set.ascii) contained = !contained;
    }
    return absl::OkStatus();
  }

  const std::string_view text_;
  size_t at_ = 0;
  SplitPattern& out_;
};

absl::StatusOr<SplitPattern> SplitPattern::Parse(std::string_view pattern) {
  SplitPattern result;
  result.pattern_ = std::string(pattern);
  if (RepairUtf8(pattern) != result.pattern_) {
    return absl::UnimplementedError("a regular expression that is not UTF-8");
  }
  RETURN_IF_ERROR(Parser(result.pattern_, result).Run());
  if (result.MatchEnd("", 0, 0) != kNoMatch) {
    return absl::UnimplementedError(
        "a regular expression that matches no characters is not supported");
  }
  return result;
}

void SplitPattern::ForEachPiece(
    std::string_view text,
    absl::FunctionRef<void(std::string_view)> piece) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = MatchEnd(text, at, 0);
    if (end == kNoMatch || end == at) {
      at += CodePointAt(text, at).size;
      continue;
    }
    if (done < at) piece(text.substr(done, at - done));
    piece(text.substr(at, end - at));
    done = at = end;
  }
  if (done < text.size()) piece(text.substr(done));
}

// Recursion is no deeper than the program is long: it only goes forward.
size_t SplitPattern::MatchEnd(std::string_view text, size_t at,
                              size_t instruction) const {
  while (true) {
    const Instruction& now = program_[instruction];
    switch (now.op) {
      case Op::kRepeat:
        return RepeatEnd(text, at, instruction);
      case Op::kFork: {
        const size_t end = MatchEnd(text, at, instruction + 1);
        if (end != kNoMatch) return end;
        instruction = now.target;
        break;
      }
      case Op::kJump:
        instruction = now.target;
        break;
      case Op::kLineEnd:
        if (at < text.size() && text[at] != '\n') return kNoMatch;
        ++instruction;
        break;
      case Op::kNotAhead:
        if (MatchEnd(text, at, instruction + 1) != kNoMatch) return kNoMatch;
        instruction = now.target;
        break;
      case Op::kMatch:
        return at;
    }
  }
}

size_t SplitPattern::RepeatEnd(std::string_view text, size_t at,
                               size_t instruction) const {
  const Instruction& repeat = program_[instruction];
  const Set& set = sets_[repeat.set];
  size_t count = 0;
  while (count < repeat.most && at < text.size()) {
    const CodePoint c = CodePointAt(text, at);
    if (!set.Contains(c.value)) break;
    at += c.size;
    ++count;
  }
  for (; count >= repeat.least; --count) {
    const size_t end = MatchEnd(text, at, instruction + 1);
    if (end != kNoMatch || count == 0) return end;
    do {
      --at;
    } while ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  }
  return kNoMatch;
}

}  // namespace espalier
