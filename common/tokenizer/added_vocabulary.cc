#include "common/tokenizer/added_vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace espalier {
namespace {

// Returns the id of the first token that is in neither vocabulary.
int64_t NextId(const TokenizerFile& file) {
  auto next = static_cast<int64_t>(file.vocabulary.size());
  for (const AddedToken& token : file.added_tokens) {
    next = std::max<int64_t>(next, token.id + int64_t{1});
  }
  return next;
}

}  // namespace

void AddTokens(absl::Span<const AddedToken> tokens, TokenizerFile& file) {
  int64_t next_id = NextId(file);
  absl::flat_hash_map<std::string, size_t> places;  // in file.added_tokens
  for (size_t i = 0; i < file.added_tokens.size(); ++i) {
    places.emplace(file.added_tokens[i].content, i);
  }
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    const auto [place, is_new] =
        places.emplace(token.content, file.added_tokens.size());
    AddedToken added = token;
    if (is_new) {
      const auto known = file.vocabulary.find(token.content);
      added.id = known != file.vocabulary.end()
                     ? known->second
                     : static_cast<TokenId>(next_id++);
      file.added_tokens.push_back(added);
    } else {
      AddedToken& earlier = file.added_tokens[place->second];
      added.id = earlier.id;
      added.special |= earlier.special;
      earlier = added;
    }
  }
}

}  // namespace espalier
