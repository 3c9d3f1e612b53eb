#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_FIELDS_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/json/json_fields.h"
#include "common/json/parse_json.h"
#include "common/model/files/model_config.h"
#include "nlohmann/json.hpp"

namespace espalier {

// Metadata of a GGUF file: the fields of one architecture, whose names begin
// with its own. The first mistake sticks, as in JsonFields.
class GgufFields {
 public:
  GgufFields(const nlohmann::json& json, const std::string& path,
             std::string prefix)
      : fields_(json, path), prefix_(std::move(prefix)) {}

  int64_t Size(const char* name, std::optional<int64_t> fallback = {}) {
    return fields_.Size(Key(name).c_str(), fallback);
  }
  double Positive(const char* name, std::optional<double> fallback = {}) {
    return fields_.Positive(Key(name).c_str(), fallback);
  }
  std::string Text(const char* name, const std::string& fallback) {
    return fields_.Text(Key(name), fallback);
  }
  void Unimplemented(const char* name, const std::string& what) {
    fields_.Unimplemented(Key(name) + " " + what);
  }
  void Fail(const char* name, const std::string& problem) {
    fields_.Fail(Key(name).c_str(), problem);
  }
  bool Has(const char* name) const { return fields_.Has(Key(name).c_str()); }

  // Refuses a field that is there with another value than `neutral`.
  void Refuse(const char* name, const nlohmann::json& neutral) {
    if (!Has(name)) return;
    const nlohmann::json& value = fields_.json()[Key(name)];
    if (value != neutral) Unimplemented(name, ToText(value));
  }

  const absl::Status& status() const { return fields_.status(); }

 private:
  std::string Key(const char* name) const { return prefix_ + name; }

  JsonFields fields_;
  std::string prefix_;
};

// Reads what most architectures have: sizes, one rotary table, layers that are
// all alike. Refuses fields that would change the result and that no
// architecture reads.
void ReadGgufFields(GgufFields& fields, ModelConfig& config);

// Refuse experts, and windows below the context's length.
void RefuseGgufExperts(GgufFields& fields);
void RefuseGgufWindow(GgufFields& fields, const ModelConfig& config);

// All three.
void ReadDenseGguf(GgufFields& fields, ModelConfig& config);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_FIELDS_H_
