#ifndef ESPALIER_COMMON_NN_KV_TYPE_H_
#define ESPALIER_COMMON_NN_KV_TYPE_H_

namespace espalier::nn {

// Names what keys and values are rounded to. int8: codes -127 .. 127, with a
// float32 scale for each key and for each value of a head; they are read as
// bf16.
enum class KvType { kFloat32, kBf16, kInt8 };

inline constexpr KvType kKvTypes[] = {KvType::kFloat32, KvType::kBf16,
                                      KvType::kInt8};

// Static as all functions that kernels see, see kernels.h.
static inline const char* NameOf(KvType type) {
  switch (type) {
    case KvType::kFloat32:
      return "float32";
    case KvType::kBf16:
      return "bfloat16";
    case KvType::kInt8:
      return "int8";
  }
  return "";
}

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_KV_TYPE_H_
