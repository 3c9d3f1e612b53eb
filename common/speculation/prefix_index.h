#ifndef ESPALIER_COMMON_SPECULATION_PREFIX_INDEX_H_
#define ESPALIER_COMMON_SPECULATION_PREFIX_INDEX_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/speculation/types.h"

namespace espalier {

// Values by block of text: a block is known by the block before it and its own
// tokens, so two texts have the same block only if they agree up to its end.
// Tokens are compared, not only their hashes, and a block's number is never
// given again: a collision of hashes is harmless.
//
// Blocks are held, by any number of holders, or idle. The idle one that was
// released first is the first to be evicted. Who holds a block also holds those
// before it, and releases the last first; then no block goes before those after
// it. One thread.
template <typename Value>
class PrefixIndex {
 public:
  class Block {
   public:
    absl::Span<const TokenId> tokens() const { return tokens_; }
    int64_t holders() const { return holders_; }

    Value value;

   private:
    friend class PrefixIndex;
    explicit Block(Value v) : value(std::move(v)) {}

    uint64_t number_ = 0;
    uint64_t before_ = 0;  // number of the block before; 0: none
    std::string salt_;     // of a first block
    std::vector<TokenId> tokens_;
    int64_t holders_ = 0;
    typename std::list<Block*>::iterator idle_;  // while there is no holder
  };

  // A block's name. Texts of different salts have no block in common.
  struct Name {
    const Block* before = nullptr;  // null: the text begins here
    absl::string_view salt;
    absl::Span<const TokenId> tokens;
  };

  // Null: there is none.
  Block* Find(const Name& name) const {
    const auto found = blocks_.find(KeyOf(name));
    return found == blocks_.end() ? nullptr : found->get();
  }

  // The new block has one holder. REQUIRES: there is no block of this name.
  Block* Insert(const Name& name, Value value) {
    auto block = std::unique_ptr<Block>(new Block(std::move(value)));
    const Key key = KeyOf(name);
    block->number_ = next_number_++;
    block->before_ = key.before;
    block->salt_ = std::string(key.salt);
    block->tokens_.assign(key.tokens.begin(), key.tokens.end());
    block->holders_ = 1;
    Block* const inserted = block.get();
    ESPALIER_CHECK(blocks_.insert(std::move(block)).second);
    return inserted;
  }

  void Hold(Block* block) {
    if (block->holders_++ == 0) idle_.erase(block->idle_);
  }
  // Returns whether it is idle now. REQUIRES: it is held.
  bool Release(Block* block) {
    ESPALIER_CHECK(block->holders_ > 0);
    if (--block->holders_ > 0) return false;
    block->idle_ = idle_.insert(idle_.end(), block);
    return true;
  }

  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t num_idle() const { return static_cast<int64_t>(idle_.size()); }

  // Removes the idle block that was released first. REQUIRES: there is one.
  Value EvictOldest() {
    Block* const oldest = idle_.front();
    idle_.pop_front();
    return Remove(oldest);
  }
  // Removes a block with one holder, who keeps the value. Blocks after it are
  // not found any more.
  Value Withdraw(Block* block) {
    ESPALIER_CHECK(block->holders_ == 1);
    return Remove(block);
  }

 private:
  struct Key {
    uint64_t before = 0;
    absl::string_view salt;
    absl::Span<const TokenId> tokens;

    friend bool operator==(const Key& a, const Key& b) {
      return a.before == b.before && a.salt == b.salt && a.tokens == b.tokens;
    }
  };
  static Key KeyOf(const Name& name) {
    if (name.before == nullptr) return {0, name.salt, name.tokens};
    return {name.before->number_, {}, name.tokens};
  }
  static Key KeyOf(const Key& key) { return key; }
  static Key KeyOf(const std::unique_ptr<Block>& block) {
    return {block->before_, block->salt_, block->tokens_};
  }
  struct HashKey {
    using is_transparent = void;
    template <typename T>
    size_t operator()(const T& block) const {
      const Key key = KeyOf(block);
      return absl::HashOf(key.before, key.salt, key.tokens);
    }
  };
  struct SameKey {
    using is_transparent = void;
    template <typename T, typename U>
    bool operator()(const T& a, const U& b) const {
      return KeyOf(a) == KeyOf(b);
    }
  };

  Value Remove(Block* block) {
    Value value = std::move(block->value);
    blocks_.erase(
        blocks_.find(Key{block->before_, block->salt_, block->tokens_}));
    return value;
  }

  absl::flat_hash_set<std::unique_ptr<Block>, HashKey, SameKey> blocks_;
  std::list<Block*> idle_;  // released first, first
  uint64_t next_number_ = 1;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPECULATION_PREFIX_INDEX_H_
