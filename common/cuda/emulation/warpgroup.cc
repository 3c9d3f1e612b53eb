#include "common/cuda/emulation/warpgroup.h"

#include <algorithm>
#include <cstring>

#include "common/base/bf16.h"
#include "common/cuda/emulation/block.h"

namespace espalier::cuda::emulation {
namespace {

// Sixteen numbers of every row of a tile that is swizzled by 128 bytes.
void ReadTile(uint64_t descriptor, int rows, float (*out)[16]) {
  if (descriptor >> 62 != 1) Block::Fail("wgmma: not the swizzle of 128 bytes");
  const auto start = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
  const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  for (int row = 0; row < rows; ++row) {
    for (int piece = 0; piece < 2; ++piece) {
      uint32_t address = start + row / 8 * stride + row % 8 * 128 + piece * 16;
      address ^= (address >> 7 & 7) << 4;
      uint16_t bits[8];
      std::memcpy(bits, Block::Current().At(address, 16), 16);
      for (int i = 0; i < 8; ++i)
        out[row][8 * piece + i] = Bf16ToFloat(bits[i]);
    }
  }
}

// Reads what the threads hold of `a`, of every warp as for mma.sync.
void ReadRegisters(const Warpgroup::Product& product, float (*out)[16]) {
  for (int thread = 0; thread < 128; ++thread) {
    const auto& [sums, a, as_given] = product.threads[thread];
    if (!std::equal(as_given.begin(), as_given.end(), a))
      Block::Fail("wgmma: registers changed before they were read");
    for (int i = 0; i < 8; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
      const int column = thread % 4 * 2 + i % 2 + i / 4 * 8;
      out[row][column] =
          Bf16ToFloat(static_cast<uint16_t>(a[i / 2] >> i % 2 * 16));
    }
  }
}

}  // namespace

Warpgroup::Product::Registers& Warpgroup::Join(int thread, uint64_t a,
                                               uint64_t b, int n) {
  Thread& self = threads_[thread];
  if (!self.fenced) Block::Fail("wgmma: no fence since its sums were touched");
  if (self.products == products_.size()) products_.push_back({a, b, n, {}});
  Product& product = products_[self.products++];
  if (product.a != a || product.b != b || product.n != n)
    Block::Fail("wgmma: threads disagree on descriptors");
  return product.threads[thread];
}

void Warpgroup::Multiply(int thread, uint64_t a, uint64_t b, int n,
                         float* sums) {
  Join(thread, a, b, n).sums = sums;
}

void Warpgroup::MultiplyHeld(int thread, const uint32_t* a, uint64_t b, int n,
                             float* sums) {
  Product::Registers& registers = Join(thread, /*a=*/0, b, n);
  registers.sums = sums;
  registers.a = a;
  std::copy_n(a, 4, registers.as_given.begin());
}

void Warpgroup::Commit(int thread) {
  threads_[thread].groups.push_back(threads_[thread].products);
}

void Warpgroup::Complete(size_t left) {
  const std::vector<size_t>& groups = threads_[0].groups;
  const size_t ended = groups.size() > left ? groups.size() - left : 0;
  const size_t products = ended > 0 ? groups[ended - 1] : 0;
  for (Thread& thread : threads_) {
    if (thread.groups.size() < ended ||
        (ended > 0 && thread.groups[ended - 1] != products))
      Block::Fail("wgmma: threads committed different groups");
  }
  for (size_t i = 0; i < products; ++i) Run(products_[i]);
  products_.erase(products_.begin(),
                  products_.begin() + static_cast<ptrdiff_t>(products));
  for (Thread& thread : threads_) {
    thread.groups.erase(thread.groups.begin(),
                        thread.groups.begin() + static_cast<ptrdiff_t>(ended));
    for (size_t& end : thread.groups) end -= products;
    thread.products -= products;
    thread.fenced = false;
  }
}

void Warpgroup::Run(const Product& product) {
  for (const Product::Registers& registers : product.threads) {
    if (registers.sums == nullptr) Block::Fail("wgmma: a thread is missing");
  }
  float a[64][16], b[256][16];
  if (product.threads[0].a != nullptr) {
    ReadRegisters(product, a);
  } else {
    ReadTile(product.a, 64, a);
  }
  ReadTile(product.b, product.n, b);
  for (int begin = 0; begin < product.n; begin += 8) {
    EightColumns columns;
    for (int n = 0; n < 8; ++n) {
      for (int k = 0; k < 16; ++k) columns.Set(k, n, b[begin + n][k]);
    }
    for (int row = 0; row < 64; ++row) {
      const std::array<float, 8> sums = columns.Multiply(a[row]);
      const int first = row / 16 * 32 + row % 8 * 4;
      for (int n = 0; n < 8; ++n) {
        float* const held = product.threads[first + n / 2].sums;
        held[begin / 2 + row % 16 / 8 * 2 + n % 2] += sums[n];
      }
    }
  }
}

}  // namespace espalier::cuda::emulation
