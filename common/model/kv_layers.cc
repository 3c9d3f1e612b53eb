#include "common/model/kv_layers.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace espalier {

KvLayers KvLayers::Of(const ModelConfig& config, int64_t block_tokens) {
  KvLayers layers = {.groups = {.block_tokens = block_tokens}, .places = {}};
  int64_t windowed = 0;
  for (const LayerShape& layer : config.layers) {
    windowed += layer.window > 0 ? 1 : 0;
    layers.groups.window = std::max(layers.groups.window, layer.window);
  }
  const int64_t whole = std::ssize(config.layers) - windowed;
  layers.per_group = std::gcd(whole, windowed);
  layers.groups.whole = whole / layers.per_group;
  layers.groups.windowed = windowed / layers.per_group;
  int64_t next_whole = 0, next_windowed = whole;
  for (const LayerShape& layer : config.layers) {
    const int64_t index = layer.window > 0 ? next_windowed++ : next_whole++;
    layers.places.push_back(
        {index / layers.per_group, index % layers.per_group});
  }
  return layers;
}

}  // namespace espalier
