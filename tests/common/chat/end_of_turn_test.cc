#include "common/chat/end_of_turn.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/chat/conversation.h"

namespace espalier {
namespace {

struct TurnCase {
  const char* what;
  const char* jinja;
  std::string expected;  // empty: none
};

// Every byte, and marks of several families.
std::unique_ptr<Tokenizer> WithTemplate(const std::string& jinja) {
  TokenizerFile file;
  for (int c = 0x21; c < 0x7F; ++c) {
    file.vocabulary[std::string(1, static_cast<char>(c))] = c;
  }
  file.vocabulary["Ġ"] = 32;
  file.vocabulary["Ċ"] = 10;
  TokenId id = 200;
  for (const char* mark :
       {"<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>",
        "<|end_header_id|>", "<start_of_turn>", "<end_of_turn>", "<s>", "</s>",
        "<|user|>", "<|assistant|>", "<turn-over>"}) {
    file.added_tokens.push_back({.id = id++, .content = mark, .special = true});
  }
  file.added_tokens.push_back({.id = id, .content = "[/answer]"});
  auto tokenizer = Tokenizer::Create(
      file, {.named_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
             .chat_template = jinja});
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(EndOfTurnTest, FollowsTheAssistantsTextInTheTemplate) {
  const std::vector<TurnCase> cases = {
      {"the built-in ChatML", "", "<|im_end|>"},
      {"ChatML",
       "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
       "<|im_end|>\n{% endfor %}",
       "<|im_end|>"},
      {"Llama 3",
       "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}"
       "<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endfor %}",
       "<|eot_id|>"},
      {"Gemma",
       "{% for m in messages %}<start_of_turn>{{ 'model' if m.role == "
       "'assistant' else m.role }}\n{{ m.content }}<end_of_turn>\n"
       "{% endfor %}",
       "<end_of_turn>"},
      {"Llama 2, with a space before the mark",
       "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] "
       "{{ m.content }} [/INST]{% else %} {{ m.content }} {{ eos_token }}"
       "{% endif %}{% endfor %}",
       "</s>"},
      {"a name that nobody knows",
       "{% for m in messages %}{{ m.role }}: {{ m.content }}<turn-over>"
       "{% endfor %}",
       "<turn-over>"},
      {"a mark that is not special",
       "{% for m in messages %}{{ m.content }}[/answer]{% endfor %}",
       "[/answer]"},
      {"the next turn's mark",
       "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
       "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
       "<|user|>"},
      {"one exchange at most",
       "{% if messages | length > 2 %}{{ raise_exception('too many') }}"
       "{% endif %}{{ messages[1].content }}<turn-over>",
       "<turn-over>"},
      {"words only",
       "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
       ""},
      {"text before the mark",
       "{% for m in messages %}{{ m.content }} (end)</s>{% endfor %}", ""},
      {"no assistant's text",
       "{% for m in messages %}{{ m.role }}</s>{% endfor %}", ""},
      {"a template that is refused", "{% for %}", ""},
  };
  for (const TurnCase& c : cases) {
    SCOPED_TRACE(c.what);
    const auto tokenizer = WithTemplate(c.jinja);
    const std::optional<TokenId> id = EndOfTurn(*tokenizer);
    EXPECT_EQ(id.has_value() ? std::string(tokenizer->BytesOf(*id)) : "",
              c.expected);
  }
}

}  // namespace
}  // namespace espalier
