#include "tests/common/model/reference_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"

namespace espalier::testing {
namespace {

using Vec = std::vector<double>;

class Reference {
 public:
  Reference(const ModelConfig& config, const TinyTensors& tensors)
      : config_(config), tensors_(tensors) {}

  // Runs one more token; `position` counts from 0.
  Vec Step(TokenId token, int position) {
    return config_.kind == DecoderKind::kLlama ? LlamaStep(token, position)
                                               : Gpt2Step(token, position);
  }

  // Returns the states of the last step.
  const std::vector<Vec>& states() const { return states_; }

 private:
  bool IsGemma() const { return config_.layers[0].norms_after; }

  const std::vector<float>& W(const std::string& name) const {
    return tensors_.at(name).values;
  }

  Vec TableRow(const std::string& name, int64_t row) const {
    const auto begin = W(name).begin() + row * config_.hidden_size;
    return Vec(begin, begin + config_.hidden_size);
  }

  // y[o] = sum_i W[o][i] x[i]
  Vec Product(const std::string& name, const Vec& x) const {
    const auto& w = W(name);
    Vec y(w.size() / x.size());
    for (size_t o = 0; o < y.size(); ++o) {
      for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
    }
    return y;
  }

  // y[o] = b[o] + sum_i x[i] W[i][o]
  Vec Conv1D(const std::string& name, const Vec& x) const {
    const auto& w = W(name + ".weight");
    const auto& b = W(name + ".bias");
    Vec y(b.begin(), b.end());
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t o = 0; o < y.size(); ++o) y[o] += x[i] * w[i * y.size() + o];
    }
    return y;
  }

  Vec RmsNorm(const std::string& name, const Vec& x) const {
    double squares = 0;
    for (double value : x) squares += value * value;
    const double scale =
        1 / std::sqrt(squares / x.size() + config_.norm_epsilon);
    Vec y;
    // Gemma's are stored less one.
    const double one = IsGemma() ? 1 : 0;
    for (size_t i = 0; i < x.size(); ++i)
      y.push_back(x[i] * scale * (one + W(name)[i]));
    return y;
  }

  Vec LayerNorm(const std::string& name, const Vec& x) const {
    double mean = 0, variance = 0;
    for (double value : x) mean += value / x.size();
    for (double value : x)
      variance += (value - mean) * (value - mean) / x.size();
    Vec y;
    for (size_t i = 0; i < x.size(); ++i) {
      y.push_back((x[i] - mean) / std::sqrt(variance + config_.norm_epsilon) *
                      W(name + ".weight")[i] +
                  W(name + ".bias")[i]);
    }
    return y;
  }

  // Each head by itself, where the model has such a norm.
  void NormalizeHeads(const std::string& name, Vec& x) const {
    if (!tensors_.contains(name)) return;
    for (size_t head = 0; head < x.size(); head += config_.head_dim) {
      const auto begin = x.begin() + head;
      const Vec y = RmsNorm(name, Vec(begin, begin + config_.head_dim));
      std::copy(y.begin(), y.end(), begin);
    }
  }

  // Rotates each head's pairs (i, i + head_dim / 2).
  void Rotate(const LayerShape& layer, Vec& x, int position) const {
    const RotaryTable& table = config_.rotary[layer.rotary];
    const double factor = table.scaling ? table.scaling->factor : 1;  // linear
    const int64_t dim = config_.head_dim, half = dim / 2;
    for (size_t head = 0; head < x.size(); head += dim) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            position / factor * std::pow(table.theta, -2.0 * i / dim);
        const double a = x[head + i], b = x[head + i + half];
        x[head + i] = a * std::cos(angle) - b * std::sin(angle);
        x[head + i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }

  // Adds k, v to the layer's cache and attends to all of it.
  Vec Attend(int64_t layer, const Vec& q, const Vec& k, const Vec& v) {
    keys_.resize(config_.num_layers);
    values_.resize(config_.num_layers);
    keys_[layer].push_back(k);
    values_[layer].push_back(v);
    const int64_t dim = config_.head_dim;
    const int64_t group = config_.num_heads / config_.num_kv_heads;
    const LayerShape& shape = config_.layers[layer];
    const double scalar = shape.query_scalar > 0 ? shape.query_scalar : dim;
    const size_t tokens = keys_[layer].size(), window = shape.window;
    const size_t first = window > 0 && tokens > window ? tokens - window : 0;
    Vec out(q.size());
    for (int64_t head = 0; head < config_.num_heads; ++head) {
      Vec weights;
      double sum = 0;
      for (size_t t = first; t < tokens; ++t) {
        const Vec& key = keys_[layer][t];
        double dot = 0;
        for (int64_t i = 0; i < dim; ++i) {
          dot += q[head * dim + i] * key[head / group * dim + i];
        }
        weights.push_back(
            std::exp(Capped(shape.score_softcap, dot / std::sqrt(scalar))));
        sum += weights.back();
      }
      for (size_t t = 0; t < weights.size(); ++t) {
        for (int64_t i = 0; i < dim; ++i) {
          out[head * dim + i] +=
              weights[t] / sum *
              values_[layer][first + t][head / group * dim + i];
        }
      }
    }
    return out;
  }

  static double Capped(double softcap, double x) {
    return softcap > 0 ? softcap * std::tanh(x / softcap) : x;
  }

  static void Add(Vec& x, const Vec& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  static double Activate(Activation activation, double x) {
    if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                          (x + 0.044715 * x * x * x)));
  }

  Vec Mlp(const std::string& mlp, const LayerShape& shape, const Vec& x) const {
    Vec gate = Product(mlp + "gate_proj.weight", x);
    const Vec up = Product(mlp + "up_proj.weight", x);
    for (size_t j = 0; j < gate.size(); ++j) {
      gate[j] = Activate(shape.activation, gate[j]) * up[j];
    }
    return Product(mlp + "down_proj.weight", gate);
  }

  // The likeliest experts by a softmax over all, weighted by it.
  Vec Mixture(const std::string& mlp, const LayerShape& shape,
              const Vec& x) const {
    const Vec logits = Product(mlp + "gate.weight", x);
    double all = 0, chosen = 0;
    for (double logit : logits) all += std::exp(logit);
    std::vector<int> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return logits[a] > logits[b]; });
    order.resize(shape.experts.per_row);
    for (int expert : order) chosen += std::exp(logits[expert]);
    Vec sum(x.size());
    for (int expert : order) {
      const double weight = std::exp(logits[expert]) /
                            (shape.experts.weights_sum_to_one ? chosen : all);
      Vec y = Mlp(absl::StrCat(mlp, "experts.", expert, "."), shape, x);
      for (double& value : y) value *= weight;
      Add(sum, y);
    }
    return sum;
  }

  Vec LlamaStep(TokenId token, int position) {
    Vec x = TableRow("model.embed_tokens.weight", token);
    for (double& value : x) value *= config_.embedding_scale;
    states_.clear();
    for (int64_t i = 0; i < config_.num_layers; ++i) {
      states_.push_back(x);
      const LayerShape& shape = config_.layers[i];
      const std::string layer = absl::StrCat("model.layers.", i, ".");
      const Vec a = RmsNorm(layer + "input_layernorm.weight", x);
      Vec q = Product(layer + "self_attn.q_proj.weight", a);
      Vec k = Product(layer + "self_attn.k_proj.weight", a);
      const Vec v = Product(layer + "self_attn.v_proj.weight", a);
      NormalizeHeads(layer + "self_attn.q_norm.weight", q);
      NormalizeHeads(layer + "self_attn.k_norm.weight", k);
      Rotate(shape, q, position);
      Rotate(shape, k, position);
      Vec y = Product(layer + "self_attn.o_proj.weight", Attend(i, q, k, v));
      if (IsGemma()) y = RmsNorm(layer + "post_attention_layernorm.weight", y);
      Add(x, y);
      const char* norm = IsGemma() ? "pre_feedforward_layernorm.weight"
                                   : "post_attention_layernorm.weight";
      const Vec b = RmsNorm(layer + norm, x);
      y = shape.is_dense() ? Mlp(layer + "mlp.", shape, b)
                           : Mixture(layer + "mlp.", shape, b);
      if (IsGemma()) {
        y = RmsNorm(layer + "post_feedforward_layernorm.weight", y);
      }
      Add(x, y);
    }
    states_.push_back(x);
    states_.push_back(RmsNorm("model.norm.weight", x));
    const bool tied = !tensors_.contains("lm_head.weight");
    Vec logits = Product(tied ? "model.embed_tokens.weight" : "lm_head.weight",
                         states_.back());
    for (double& logit : logits) logit = Capped(config_.logit_softcap, logit);
    return logits;
  }

  Vec Gpt2Step(TokenId token, int position) {
    Vec x = TableRow("transformer.wte.weight", token);
    Add(x, TableRow("transformer.wpe.weight", position));
    const int64_t hidden = config_.hidden_size;
    states_.clear();
    for (int64_t i = 0; i < config_.num_layers; ++i) {
      states_.push_back(x);
      const std::string layer = absl::StrCat("transformer.h.", i, ".");
      const Vec qkv =
          Conv1D(layer + "attn.c_attn", LayerNorm(layer + "ln_1", x));
      auto part = [&](int64_t index) {
        const auto begin = qkv.begin() + index * hidden;
        return Vec(begin, begin + hidden);
      };
      Add(x,
          Conv1D(layer + "attn.c_proj", Attend(i, part(0), part(1), part(2))));
      Vec up = Conv1D(layer + "mlp.c_fc", LayerNorm(layer + "ln_2", x));
      for (double& u : up) {
        u = 0.5 * u *
            (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                           (u + 0.044715 * u * u * u)));
      }
      Add(x, Conv1D(layer + "mlp.c_proj", up));
    }
    states_.push_back(x);
    states_.push_back(LayerNorm("transformer.ln_f", x));
    return Product("transformer.wte.weight", states_.back());
  }

  const ModelConfig& config_;
  const TinyTensors& tensors_;
  std::vector<std::vector<Vec>> keys_;    // [layer][position][kv_heads * dim]
  std::vector<std::vector<Vec>> values_;  // as keys_
  std::vector<Vec> states_;
};

}  // namespace

std::vector<std::vector<double>> ReferenceLogits(
    const ModelConfig& config, const TinyTensors& tensors,
    const std::vector<TokenId>& tokens) {
  Reference reference(config, tensors);
  std::vector<Vec> logits;
  for (size_t i = 0; i < tokens.size(); ++i) {
    logits.push_back(reference.Step(tokens[i], static_cast<int>(i)));
  }
  return logits;
}

std::vector<std::vector<std::vector<double>>> ReferenceStates(
    const ModelConfig& config, const TinyTensors& tensors,
    const std::vector<TokenId>& tokens) {
  Reference reference(config, tensors);
  std::vector<std::vector<Vec>> states;
  for (size_t i = 0; i < tokens.size(); ++i) {
    reference.Step(tokens[i], static_cast<int>(i));
    states.push_back(reference.states());
  }
  return states;
}

}  // namespace espalier::testing
