// json.dumps, as Python's standard library has it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

std::string JsonNumber(const Value& value) {
  if (value.IsBool()) return value.boolean() ? "true" : "false";
  if (value.IsInt()) return ToString(value.integer());
  const std::string text = ToString(value.real());
  if (text == "nan") return "NaN";
  if (text == "inf") return "Infinity";
  return text == "-inf" ? "-Infinity" : text;
}

class JsonWriter {
 public:
  JsonWriter(Interpreter& interpreter, const JsonOptions& options)
      : interpreter_(interpreter),
        options_(options),
        item_separator_(options.item_separator.value_or(
            options.indent.has_value() ? U"," : U", ")) {}

  void Write(const Value& value, size_t level) {
    interpreter_.budget().Spend(1);
    if (value.IsNone()) {
      AppendAscii("null", out_);
    } else if (value.IsNumber()) {
      AppendAscii(JsonNumber(value), out_);
    } else if (value.IsText()) {
      WriteText(value.characters());
    } else if (value.IsSequence()) {
      WriteSequence(value.sequence(), level);
    } else if (value.IsDict()) {
      WriteDict(value.dict(), level);
    } else {
      throw Error(absl::StrCat("Object of type ", TypeName(value),
                               " is not JSON serializable"));
    }
  }

  Characters Take() { return std::move(out_); }

 private:
  void WriteText(CharactersView text) {
    interpreter_.budget().SpendCharacters(text.size());
    out_.push_back(U'"');
    for (char32_t c : text) WriteCharacter(c);
    out_.push_back(U'"');
  }

  void WriteCharacter(char32_t marked) {
    constexpr CharactersView kEscapedCharacters = U"\"\\\n\r\t\f\b";
    constexpr CharactersView kEscapeLetters = U"\"\\nrtfb";
    const char32_t c = Bare(marked);
    const size_t at = kEscapedCharacters.find(c);
    if (at != kNowhere) {
      out_.push_back(Marked(U'\\', marked));
      out_.push_back(Marked(kEscapeLetters[at], marked));
    } else if (c < 0x20 || (options_.ensure_ascii && c > 0x7E)) {
      WriteUnicode(marked);
    } else {
      out_.push_back(marked);
    }
  }

  // \uXXXX, twice above the 16 bits of UTF-16.
  void WriteUnicode(char32_t marked) {
    const char32_t c = Bare(marked);
    if (c > 0xFFFF) {
      const char32_t rest = c - 0x10000;
      AppendEscape(Marked(0xD800 + (rest >> 10), marked), out_);
      AppendEscape(Marked(0xDC00 + (rest & 0x3FF), marked), out_);
      return;
    }
    Characters escape = U"\\u";
    for (int shift = 12; shift >= 0; shift -= 4) {
      escape.push_back(U"0123456789abcdef"[(c >> shift) & 15]);
    }
    for (char32_t e : escape) out_.push_back(Marked(e, marked));
  }

  void NewLine(size_t level) {
    if (!options_.indent.has_value()) return;
    interpreter_.budget().SpendCharacters(level * options_.indent->size());
    out_.push_back(U'\n');
    for (size_t i = 0; i < level; ++i) out_.append(*options_.indent);
  }

  void Separate(bool& first, size_t level) {
    interpreter_.budget().SpendCharacters(item_separator_.size());
    if (!first) out_.append(item_separator_);
    first = false;
    NewLine(level);
  }

  void WriteSequence(const Sequence& sequence, size_t level) {
    out_.push_back(U'[');
    bool first = true;
    for (const Value& item : sequence.items) {
      Separate(first, level + 1);
      Write(item, level + 1);
    }
    if (!first) NewLine(level);
    out_.push_back(U']');
  }

  void WriteDict(const Dict& dict, size_t level) {
    std::vector<std::pair<Value, Value>> items = dict.items();
    if (options_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [this](const auto& a, const auto& b) {
                         return Less(interpreter_, a.first, b.first);
                       });
    }
    out_.push_back(U'{');
    bool first = true;
    for (const auto& [key, value] : items) {
      Separate(first, level + 1);
      WriteKey(key);
      interpreter_.budget().SpendCharacters(options_.key_separator.size());
      out_.append(options_.key_separator);
      Write(value, level + 1);
    }
    if (!first) NewLine(level);
    out_.push_back(U'}');
  }

  void WriteKey(const Value& key) {
    if (key.IsText()) return WriteText(key.characters());
    if (!key.IsNumber() && !key.IsNone()) {
      throw Error(absl::StrCat(
          "keys must be str, int, float, bool or None, not ", TypeName(key)));
    }
    out_.push_back(U'"');
    AppendAscii(key.IsNone() ? "null" : JsonNumber(key), out_);
    out_.push_back(U'"');
  }

  Interpreter& interpreter_;
  const JsonOptions& options_;
  Characters item_separator_;
  Characters out_;
};

}  // namespace

Characters ToJson(Interpreter& interpreter, const Value& value,
                  const JsonOptions& options) {
  JsonWriter writer(interpreter, options);
  writer.Write(value, 0);
  return writer.Take();
}

}  // namespace espalier::jinja
