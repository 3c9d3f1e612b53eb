#ifndef ESPALIER_COMMON_CUDA_EMULATION_WARPGROUP_H_
#define ESPALIER_COMMON_CUDA_EMULATION_WARPGROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::cuda::emulation {

// The asynchronous products (wgmma) of four warps. They read shared memory as
// late as the wait for them allows, so that what was released too early has
// been overwritten. A broken rule ends the process.
class Warpgroup {
 public:
  // d[64 x n] += a[64 x 16] b[n x 16]^T, in shared memory, by descriptors.
  struct Product {
    uint64_t a = 0, b = 0;
    int n = 0;
    std::array<float*, 128> sums = {};  // by thread; null: not there yet
  };

  // By each of the threads 0 .. 127 for itself.
  void Fence(int thread) { threads_[thread].fenced = true; }
  void Multiply(int thread, uint64_t a, uint64_t b, int n, float* sums);
  void Commit(int thread);

  // All threads are here: runs what was committed, but the last `left` groups.
  void Complete(size_t left);

 private:
  struct Thread {
    size_t products = 0;         // that it joined, of those in products_
    std::vector<size_t> groups;  // ends of its committed groups
    bool fenced = false;
  };

  static void Run(const Product& product);

  std::vector<Product> products_;
  std::array<Thread, 128> threads_ = {};
};

}  // namespace espalier::cuda::emulation

#endif  // ESPALIER_COMMON_CUDA_EMULATION_WARPGROUP_H_
