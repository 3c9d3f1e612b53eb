#ifndef ESPALIER_COMMON_MODEL_KV_LAYERS_H_
#define ESPALIER_COMMON_MODEL_KV_LAYERS_H_

#include <cstdint>
#include <vector>

#include "common/model/files/model_config.h"
#include "common/model/kv_groups.h"

namespace espalier {

// How the layers of a model are divided into groups of K/V, whole and windowed
// ones: a page of K/V has the layers of one group.
struct KvLayers {
  struct Place {
    int64_t group = 0;
    int64_t layer = 0;  // of the group
  };
  int64_t per_group = 0;  // layers
  KvGroups groups;
  std::vector<Place> places;  // by layer of the model

  static KvLayers Of(const ModelConfig& config, int64_t block_tokens);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_KV_LAYERS_H_
