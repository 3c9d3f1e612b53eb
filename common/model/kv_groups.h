#ifndef ESPALIER_COMMON_MODEL_KV_GROUPS_H_
#define ESPALIER_COMMON_MODEL_KV_GROUPS_H_

#include <algorithm>
#include <cstdint>

namespace espalier {

// How the K/V of a position is divided: into groups of equally many layers,
// each of which takes a token of room. Windowed groups give back what no later
// row sees.
struct KvGroups {
  int64_t block_tokens = 1;  // sequences hold room in blocks of this size
  int64_t whole = 1;
  int64_t windowed = 0;
  int64_t window = 0;  // positions that a row sees, its own among them

  int64_t count() const { return whole + windowed; }
  int64_t BlocksFor(int64_t positions) const {
    return (positions + block_tokens - 1) / block_tokens;
  }
  // Returns the most blocks of a windowed group that a pass of `rows` rows
  // needs.
  int64_t WindowBlocks(int64_t rows) const {
    return BlocksFor(window - 1 + rows) + 1;
  }
  // Returns room for a pass whose last `rows` of `positions` positions are not
  // committed.
  int64_t RoomFor(int64_t positions, int64_t rows) const {
    const int64_t blocks = BlocksFor(positions);
    return (whole * blocks + windowed * std::min(blocks, WindowBlocks(rows))) *
           block_tokens;
  }
  // Returns the room that whole blocks of `positions` committed positions keep.
  int64_t RoomOfPrefix(int64_t positions) const {
    const int64_t blocks = positions / block_tokens;
    const int64_t first_seen =
        std::max<int64_t>(0, blocks * block_tokens - window + 1) / block_tokens;
    return (whole * blocks + windowed * (blocks - first_seen)) * block_tokens;
  }
  // Returns the positions whose K/V of all layers takes `room`.
  int64_t TokensIn(int64_t room) const { return room / count(); }
  // Returns the longest sequence for which `room` suffices, in passes of up
  // to `rows` rows.
  int64_t LongestIn(int64_t room, int64_t rows) const {
    const int64_t blocks = room / block_tokens;
    const int64_t unbounded = blocks / count();
    const int64_t bounded = blocks - windowed * WindowBlocks(rows);
    if (windowed == 0 || bounded < 0) return unbounded * block_tokens;
    if (whole == 0) return INT64_MAX;
    return std::max(unbounded, bounded / whole) * block_tokens;
  }
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_KV_GROUPS_H_
