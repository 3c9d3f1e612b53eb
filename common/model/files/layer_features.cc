#include "common/model/files/layer_features.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

// What is left of a layer when the features that have names are taken away.
LayerShape Unnamed(LayerShape layer) {
  layer.experts = {};
  layer.window = 0;
  layer.rotary = 0;
  return layer;
}

bool Needs(LayerFeature feature, const ModelConfig& config) {
  const std::vector<LayerShape>& layers = config.layers;
  const auto any = [&](auto has) {
    return std::any_of(layers.begin(), layers.end(), has);
  };
  switch (feature) {
    case LayerFeature::kExperts:
      return any([](const LayerShape& layer) { return !layer.is_dense(); });
    case LayerFeature::kWindows:
      return any([](const LayerShape& layer) { return layer.window > 0; });
    case LayerFeature::kSeveralRotaryTables:
      return config.rotary.size() > 1;
    case LayerFeature::kUnrotatedLayers:
      return any([](const LayerShape& layer) { return !layer.rotates(); });
    case LayerFeature::kNormsAfter:
      return any([](const LayerShape& layer) { return layer.norms_after; });
    case LayerFeature::kNoNormsBefore:
      return any([](const LayerShape& layer) { return !layer.norms_before; });
    case LayerFeature::kNormOfAllHeads:
      return any([](const LayerShape& layer) {
        return layer.head_norm == HeadNorm::kAllHeads;
      });
    case LayerFeature::kQueryScalar:
      return any(
          [](const LayerShape& layer) { return layer.query_scalar > 0; });
    case LayerFeature::kEmbeddingScale:
      return config.embedding_scale != 1;
    case LayerFeature::kScoreSoftcap:
      return any(
          [](const LayerShape& layer) { return layer.score_softcap > 0; });
    case LayerFeature::kLogitSoftcap:
      return config.logit_softcap > 0;
    case LayerFeature::kUnlikeLayers:
      return any([&](const LayerShape& layer) {
        return Unnamed(layer) != Unnamed(layers.front());
      });
  }
  return false;
}

}  // namespace

const char* NameOf(LayerFeature feature) {
  switch (feature) {
    case LayerFeature::kExperts:
      return "mixtures of experts";
    case LayerFeature::kWindows:
      return "sliding windows";
    case LayerFeature::kSeveralRotaryTables:
      return "rotary tables that differ by layer";
    case LayerFeature::kUnrotatedLayers:
      return "layers that do not rotate";
    case LayerFeature::kNormsAfter:
      return "norms after attention and feed-forward";
    case LayerFeature::kNoNormsBefore:
      return "layers without norms of their inputs";
    case LayerFeature::kNormOfAllHeads:
      return "norms over all heads of a row";
    case LayerFeature::kQueryScalar:
      return "a scale of queries of its own";
    case LayerFeature::kEmbeddingScale:
      return "a scale of embeddings";
    case LayerFeature::kScoreSoftcap:
      return "softcaps of attention's scores";
    case LayerFeature::kLogitSoftcap:
      return "softcaps of logits";
    case LayerFeature::kUnlikeLayers:
      return "layers that differ";
  }
  return "";
}

std::vector<LayerFeature> FeaturesOf(const ModelConfig& config) {
  std::vector<LayerFeature> needed;
  for (LayerFeature feature :
       {LayerFeature::kExperts, LayerFeature::kWindows,
        LayerFeature::kSeveralRotaryTables, LayerFeature::kUnrotatedLayers,
        LayerFeature::kNormsAfter, LayerFeature::kNoNormsBefore,
        LayerFeature::kNormOfAllHeads, LayerFeature::kQueryScalar,
        LayerFeature::kEmbeddingScale, LayerFeature::kScoreSoftcap,
        LayerFeature::kLogitSoftcap, LayerFeature::kUnlikeLayers}) {
    if (Needs(feature, config)) needed.push_back(feature);
  }
  return needed;
}

absl::Status CheckFeatures(const ModelConfig& config,
                           absl::Span<const LayerFeature> has,
                           std::string_view backend) {
  for (LayerFeature feature : FeaturesOf(config)) {
    if (std::find(has.begin(), has.end(), feature) != has.end()) continue;
    return absl::UnimplementedError(
        absl::StrCat(std::string(backend), " has no ", NameOf(feature)));
  }
  return absl::OkStatus();
}

}  // namespace espalier
