#ifndef ESPALIER_COMMON_BASE_FREED_MEMORY_H_
#define ESPALIER_COMMON_BASE_FREED_MEMORY_H_

#include <cstdint>

namespace espalier {

// Bytes of this process.
struct HeapUse {
  int64_t resident = 0;  // in memory, without mapped files
  int64_t in_use = 0;    // allocated and not freed

  // Asks the system and the C library, which takes well below a millisecond.
  static HeapUse Now();
};

// Decides when memory that was freed is worth giving back to the system. glibc
// keeps what was freed, and nothing says when the memory of a connection that
// has ended is freed at last: so this looks at how much the process holds
// beyond what it uses, compared with the least that it ever managed to hold.
// Not thread-safe.
class FreedMemory {
 public:
  // Bytes worth the work of giving them back.
  static constexpr int64_t kWorthwhile = int64_t{8} << 20;

  bool IsWorthGivingBack(const HeapUse& use);

  // Memory was given back; `use` is what was left.
  void GaveBack(const HeapUse& use) { least_ = Held(use); }

 private:
  static int64_t Held(const HeapUse& use) { return use.resident - use.in_use; }

  int64_t least_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_FREED_MEMORY_H_
