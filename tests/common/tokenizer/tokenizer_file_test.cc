// Broken and unsupported tokenizer.json files.
#include "common/tokenizer/tokenizer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Tokenizer>> Build(const std::string& text) {
  auto file = ParseTokenizerFile(text);
  if (!file.ok()) return file.status();
  return Tokenizer::Create(*file, {});
}

std::string SmallFile() {
  return absl::StrJoin(ReadLines(Testdata("small/tokenizer.json")), "\n");
}

struct BadFile {
  const char* what;
  std::function<void(json&)> spoil;
  absl::StatusCode code;
  std::vector<std::string> message;  // parts that the message must have
};

const auto kInvalid = absl::StatusCode::kInvalidArgument;
const auto kUnknown = absl::StatusCode::kUnimplemented;

std::vector<BadFile> BadFiles() {
  return {
      {"no model", [](json& f) { f.erase("model"); }, kInvalid, {"model: is"}},
      {"model of the wrong type",
       [](json& f) { f["model"] = 3; },
       kInvalid,
       {"model", "object", "number"}},
      {"vocab as a list",
       [](json& f) {
         f["model"]["vocab"] = {"a", "b"};
       },
       kInvalid,
       {"model.vocab", "object", "array"}},
      {"id as text",
       [](json& f) { f["model"]["vocab"]["a"] = "1"; },
       kInvalid,
       {"model.vocab.a", "integer"}},
      {"fractional id",
       [](json& f) { f["model"]["vocab"]["a"] = 1.5; },
       kInvalid,
       {"model.vocab.a", "integer"}},
      {"negative id",
       [](json& f) { f["model"]["vocab"]["a"] = -1; },
       kInvalid,
       {"model.vocab.a", "-1"}},
      {"huge id",
       [](json& f) { f["model"]["vocab"]["a"] = 4000000000; },
       kInvalid,
       {"model.vocab.a", "4000000000", "1048575"}},
      {"id beyond int64",
       [](json& f) { f["model"]["vocab"]["a"] = 18446744073709551615u; },
       kInvalid,
       {"model.vocab.a"}},
      {"duplicate id",
       [](json& f) { f["model"]["vocab"]["a"] = f["model"]["vocab"]["b"]; },
       kInvalid,
       {"model.vocab", "another token"}},
      {"no merges",
       [](json& f) { f["model"].erase("merges"); },
       kInvalid,
       {"model.merges: is missing"}},
      {"merge of three",
       [](json& f) { f["model"]["merges"][2] = "a b c"; },
       kInvalid,
       {"model.merges[2]"}},
      {"merge of one",
       [](json& f) { f["model"]["merges"][2] = json::array({"a"}); },
       kInvalid,
       {"model.merges[2]"}},
      {"merge of numbers",
       [](json& f) {
         f["model"]["merges"][2] = {1, 2};
       },
       kInvalid,
       {"model.merges[2]"}},
      {"merge of an unknown token",
       [](json& f) { f["model"]["merges"][2] = "a nowhere"; },
       kInvalid,
       {"model.merges[2]", "nowhere"}},
      {"added token without an id",
       [](json& f) { f["added_tokens"][1].erase("id"); },
       kInvalid,
       {"added_tokens[1].id: is missing"}},
      {"added token without text",
       [](json& f) { f["added_tokens"][1]["content"] = ""; },
       kInvalid,
       {"added_tokens[1].content"}},
      {"added token at another's id",
       [](json& f) {
         f["added_tokens"][1] = {{"id", 5}, {"content", "<new>"}};
       },
       kInvalid,
       {"added_tokens[1]", "<new>", "5"}},
      {"added token with two ids",
       [](json& f) { f["added_tokens"][1]["id"] = 100000; },
       kInvalid,
       {"added_tokens[1]", "<|im_start|>"}},
      {"added token listed twice",
       [](json& f) { f["added_tokens"][2] = f["added_tokens"][1]; },
       kInvalid,
       {"added_tokens[2]", "<|im_start|>"}},
      {"special as a number",
       [](json& f) { f["added_tokens"][1]["special"] = 1; },
       kInvalid,
       {"added_tokens[1].special", "true or false"}},
      {"stripping token",
       [](json& f) { f["added_tokens"][1]["lstrip"] = 1; },
       kInvalid,
       {"added_tokens[1].lstrip", "true or false"}},
      {"normalizer",
       [](json& f) {
         f["normalizer"] = {{"type", "StripAccents"}};
       },
       kUnknown,
       {"normalizer", "StripAccents"}},
      {"another pattern",
       [](json& f) {
         f["pre_tokenizer"]["pretokenizers"][0] = {
             {"type", "Split"},
             {"pattern", {{"Regex", "(\\s)+"}}},
             {"behavior", "Isolated"},
             {"invert", false}};
       },
       kUnknown,
       {"pre_tokenizer.pretokenizers[0].pattern.Regex", "(\\\\s)+"}},
      {"another model",
       [](json& f) { f["model"]["type"] = "WordPiece"; },
       kUnknown,
       {"model.type", "WordPiece"}},
      {"dropout",
       [](json& f) { f["model"]["dropout"] = 0.1; },
       kUnknown,
       {"model.dropout", "0.1"}},
      {"byte fallback",
       [](json& f) { f["model"]["byte_fallback"] = true; },
       kUnknown,
       {"model.byte_fallback"}},
      {"suffix",
       [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; },
       kUnknown,
       {"model.end_of_word_suffix", "</w>"}},
      {"no pre-tokenizer",
       [](json& f) { f["pre_tokenizer"] = nullptr; },
       kInvalid,
       {"pre_tokenizer"}},
      {"another pattern",
       [](json& f) {
         f["pre_tokenizer"]["pretokenizers"][0] = {
             {"type", "Split"}, {"pattern", {{"Regex", "\\p{N}{1,3}"}}}};
       },
       kUnknown,
       {"pre_tokenizer.pretokenizers[0]", "\\p{N}{1,3}"}},
      {"digits in groups",
       [](json& f) {
         f["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false;
       },
       kUnknown,
       {"pretokenizers[0]", "individual_digits"}},
      {"digits after bytes",
       [](json& f) {
         json& steps = f["pre_tokenizer"]["pretokenizers"];
         std::swap(steps[0], steps[1]);
       },
       kUnknown,
       {"pretokenizers[1]", "Digits"}},
      {"prefix space",
       [](json& f) {
         f["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
       },
       kUnknown,
       {"pretokenizers[1]", "add_prefix_space"}},
      {"no ByteLevel",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"].erase(1); },
       kUnknown,
       {"pre_tokenizer"}},
      {"another decoder",
       [](json& f) { f["decoder"]["type"] = "Metaspace"; },
       kUnknown,
       {"decoder", "Metaspace"}},
  };
}

TEST(TokenizerFileTest, TakesTheTokensThatATemplatePutsBeforeTheText) {
  json file = json::parse(SmallFile());
  const json bos = json::parse(R"({
      "type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                 {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [1]}}})");
  file["post_processor"] = {{"type", "Sequence"}};
  file["post_processor"]["processors"] =
      json::array({json{{"type", "ByteLevel"}}, bos});
  const auto parsed = ParseTokenizerFile(file.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->prefix, std::vector<TokenId>{1});
  const auto tokenizer = Tokenizer::Create(*parsed, {});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->prefix(), absl::MakeConstSpan(parsed->prefix));

  json suffix = bos;
  std::swap(suffix["single"][0], suffix["single"][1]);
  file["post_processor"] = suffix;
  EXPECT_TRUE(absl::IsUnimplemented(ParseTokenizerFile(file.dump()).status()));
  file["post_processor"] = {{"type", "BertProcessing"}};
  EXPECT_TRUE(absl::IsUnimplemented(ParseTokenizerFile(file.dump()).status()));
}

TEST(TokenizerFileTest, NamesTheFieldThatIsWrong) {
  const json good = json::parse(SmallFile());
  ASSERT_TRUE(Build(good.dump()).ok());
  for (const BadFile& bad : BadFiles()) {
    json file = good;
    bad.spoil(file);
    const absl::Status status = Build(file.dump()).status();
    EXPECT_EQ(status.code(), bad.code) << bad.what << ": " << status;
    for (const std::string& part : bad.message) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part)) << bad.what;
    }
  }
}

TEST(TokenizerFileTest, NamesTheStepOfSentencePieceThatIsNotSupported) {
  const json good = json::parse(
      absl::StrJoin(ReadLines(Testdata("llama2_style/tokenizer.json")), "\n"));
  ASSERT_TRUE(Build(good.dump()).ok());
  const std::vector<BadFile> cases = {
      {"unknown normalizer",
       [](json& f) { f["normalizer"]["normalizers"][1]["type"] = "Nmt"; },
       kUnknown,
       {"normalizer.normalizers[1]", "Nmt"}},
      {"replace by a pattern",
       [](json& f) {
         f["normalizer"]["normalizers"][1]["pattern"] = {{"Regex", " +"}};
       },
       kUnknown,
       {"normalizer.normalizers[1]", "Regex"}},
      {"another pre-tokenizer",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Whitespace"}};
       },
       kUnknown,
       {"pre_tokenizer", "Whitespace"}},
      {"another scheme",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Metaspace"},
                               {"replacement", "_"},
                               {"prepend_scheme", "last"}};
       },
       kUnknown,
       {"pre_tokenizer.prepend_scheme", "last"}},
      {"no decoder",
       [](json& f) { f.erase("decoder"); },
       kInvalid,
       {"decoder: is missing"}},
      {"decoders in another order",
       [](json& f) {
         std::swap(f["decoder"]["decoders"][1], f["decoder"]["decoders"][2]);
       },
       kUnknown,
       {"decoder.decoders[1]", "Fuse"}},
      {"strip at the end",
       [](json& f) { f["decoder"]["decoders"][3]["stop"] = 1; },
       kUnknown,
       {"decoder.decoders[3]", "Strip"}},
      {"unknown token that is none",
       [](json& f) { f["model"]["unk_token"] = "<nothing>"; },
       kInvalid,
       {"model.unk_token", "<nothing>"}},
  };
  for (const BadFile& bad : cases) {
    json file = good;
    bad.spoil(file);
    const absl::Status status = Build(file.dump()).status();
    EXPECT_EQ(status.code(), bad.code) << bad.what << ": " << status;
    for (const std::string& part : bad.message) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part)) << bad.what;
    }
  }
}

TEST(TokenizerFileTest, RefusesWhatIsNotAJsonObject) {
  for (const char* text : {"", " ", "{", "nul", "[]", "3", "\"a\"",
                           "{\"a\":1e999}", "{\"a\":\"\xFF\"}", "{} {}"}) {
    EXPECT_EQ(Build(text).status().code(), kInvalid) << text;
  }
}

TEST(TokenizerFileTest, RefusesDeepNestingBeforeReadingIt) {
  const std::string deep(10'000'000, '[');
  EXPECT_THAT(std::string(Build(deep).status().message()),
              HasSubstr("nested deeper than 64"));
}

TEST(TokenizerFileTest, RefusesEveryTruncation) {
  std::string text = SmallFile();
  while (text.back() != '}') text.pop_back();
  for (size_t size = 0; size < text.size(); size += 5) {
    EXPECT_EQ(Build(text.substr(0, size)).status().code(), kInvalid);
  }
}

// Any file gives either an error with a message or a tokenizer that works.
void ExpectNoHarm(const std::string& text) {
  const auto tokenizer = Build(text);
  if (!tokenizer.ok()) {
    EXPECT_FALSE(tokenizer.status().message().empty());
    return;
  }
  const auto ids = (*tokenizer)->Encode("The tree 42 <|im_end|> \xF0\x9F é\n");
  for (TokenId id : ids) EXPECT_LT(id, (*tokenizer)->vocab_size());
  (*tokenizer)->Decode(ids, /*skip_special=*/false);
}

TEST(TokenizerFileTest, SurvivesSpoiledBytes) {
  const std::string good = SmallFile();
  std::mt19937 random(4);
  const std::string kTelling = "{}[]\",:\\-019eE.ntf \x80\xC3\x00u";
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int i = 0; i < 1 + round % 3; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = kTelling[random() % kTelling.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), 12));
      }
    }
    ExpectNoHarm(text);
  }
}

TEST(TokenizerFileTest, SurvivesAnyFieldOfAnyType) {
  const json good = json::parse(SmallFile());
  const std::vector<json> values = {nullptr,
                                    true,
                                    -1,
                                    1e30,
                                    "x",
                                    "",
                                    json::array(),
                                    json::object(),
                                    9223372036854775807};
  // Every field outside the long lists, and some inside them.
  int index = 0;
  std::set<std::string> seen;
  const json fields = good.flatten();
  for (const auto& [pointer, unused] : fields.items()) {
    const bool in_list = pointer.find("/model/vocab/") == 0 ||
                         pointer.find("/model/merges/") == 0;
    if (in_list && ++index % 40 != 0) continue;
    for (json::json_pointer at(pointer); !at.empty(); at.pop_back()) {
      if (!seen.insert(at.to_string()).second) break;  // and what holds it
      for (const json& value : values) {
        json file = good;
        file[at] = value;
        ExpectNoHarm(file.dump());
      }
    }
  }
}

}  // namespace
}  // namespace espalier
