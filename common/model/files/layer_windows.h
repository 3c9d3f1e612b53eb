#ifndef ESPALIER_COMMON_MODEL_FILES_LAYER_WINDOWS_H_
#define ESPALIER_COMMON_MODEL_FILES_LAYER_WINDOWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/json/json_fields.h"
#include "common/model/files/model_config.h"

namespace espalier {

// Fields of config.json that say which layers have a window. Mistakes stay in
// `fields`, as of llama_fields.h.

// Gives a layer a window, unless every text fits into it.
void SetWindow(int64_t layer, int64_t window, ModelConfig& config);

// Reads layer_types: by layer, whether it has a window. Nullopt: there is no
// such field, or a mistake in it.
std::optional<std::vector<bool>> ReadLayerTypes(JsonFields& fields,
                                                const ModelConfig& config);

// Reads sliding_window for all layers. In transformers, absent is not null:
// that is 4096, this is no window.
void ReadCommonWindow(JsonFields& fields, ModelConfig& config);

// Reads what Qwen2 and Qwen3 say: use_sliding_window, and then sliding_window
// for the layers of layer_types, or else from max_window_layers on.
void ReadQwenWindows(JsonFields& fields, ModelConfig& config);

// Reads what draft heads say: sliding_window for the layers of layer_types.
// Returns by layer whether it is such a one; all false without layer_types.
std::vector<bool> ReadHeadWindows(JsonFields& fields, ModelConfig& config);

// Fails unless every layer sees the whole text, as Qwen's fields say it.
void CheckFullAttention(JsonFields& fields);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_LAYER_WINDOWS_H_
