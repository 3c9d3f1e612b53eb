#!/usr/bin/env bash
# Espalier beside llama.cpp: the same GGUF files, the same threads, the two taking
# turns. Prints one table for each format.
#
#   compare.sh [--threads N] [--model FILE.gguf] [--formats F,F] [--rounds R]
#       [--parts P,P] [--quality TOKENS]
#
# Formats: BF16, Q8_0, Q4_0 and Q4_1, or also Q4_K_M, Q5_K_M and Q6_K. llama.cpp
# makes the files from MODEL, by its own rules (a vocabulary of Q8_0 in files of 4
# bits; Q5_0 and Q8_0 where rows are not whole super-blocks). AS_IS is MODEL itself.
#
# Times of forward passes with the logits of all rows, after 512 cached tokens;
# tokens/s of prompts, and of greedy decoding, plain and with prompt lookup (8
# drafted tokens at most), prefill excluded. Prompts are ChatML where the vocabulary
# has its marks, else the bare text. With --quality, both also score so many tokens
# of tests/benchmark/quality.txt. --rounds 0 leaves the speed out; --parts of
# forward, plain (with the prompts) and lookup, others than all three. llama.cpp takes part twice, with its default and with
# flash attention off, which is faster for few rows on a CPU; the ratio is to the
# faster one. libllama has no speculation: the loop on its API is ours.
#
# Builds the libllama of the source package llama-cpp-python once, for this CPU
# (with AMX where it has that), in $ESPALIER_CACHE/llama.cpp, and measures it and
# build/release. Not a test: it wants a quiet machine, or the threads of both wait
# for those of others.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deploy=$here/../../../deploy
# shellcheck source=deploy/versions.env
source "$deploy/versions.env"
# shellcheck source=deploy/lib/paths.sh
source "$deploy/lib/paths.sh"
# shellcheck source=deploy/lib/steps.sh
source "$deploy/lib/steps.sh"
# shellcheck source=deploy/lib/wheels.sh
source "$deploy/lib/wheels.sh"

readonly home=$cache/llama.cpp
readonly package=llama_cpp_python-$ESPALIER_LLAMA_CPP_PYTHON_VERSION
readonly source_tree=$home/$package/vendor/llama.cpp
readonly build_tree=$home/build-$ESPALIER_LLAMA_CPP_PYTHON_VERSION
readonly measure=$home/llama_measure

# GCC 12's _tile_loadconfig tells the compiler that it reads 8 bytes. So the rest
# of the configuration is never stored, and AMX faults.
mend_tiles() {
  sed -i 's/^    _tile_loadconfig(&tc);/    __asm__ volatile("" : : "m"(tc));\n&/' "$1"
}

# pip looks into a source package with the package's own build tools.
fetch_source() {
  local new=$home/new
  rm -rf "$new"
  mkdir -p "$new"
  echo "llama-cpp-python==$ESPALIER_LLAMA_CPP_PYTHON_VERSION \
--hash=sha256:$ESPALIER_LLAMA_CPP_PYTHON_SHA256" >"$new/requirements.txt"
  pip download --no-deps --no-binary=llama-cpp-python --require-hashes \
    -r "$new/requirements.txt" -d "$new"
  tar -xzf "$new/$package.tar.gz" -C "$new"
  mend_tiles "$new/$package/vendor/llama.cpp/ggml/src/ggml-cpu/amx/mmq.cpp"
  replace_folder "$new/$package" "$home/$package"
  rm -rf "$new"
}

build_llama() {
  cmake -G Ninja -S "$source_tree" -B "$build_tree" -DCMAKE_BUILD_TYPE=Release \
    -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_COMMON=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_MTMD=OFF -DLLAMA_BUILD_UI=OFF
  cmake --build "$build_tree" -j "$(nproc)" --target llama
}

# Logits are finite, and with that said their maximum becomes vector code.
compile_measure() {
  "${CXX:-g++}" -std=c++20 -O3 -march=native -ffinite-math-only -fno-signed-zeros \
    -I"$source_tree/include" -I"$source_tree/ggml/include" "$here/llama_measure.cc" \
    -L"$build_tree/bin" -lllama -lggml -lggml-base -Wl,-rpath,"$build_tree/bin" \
    -o "$measure"
}

# One file in a format, from $model.
convert_model() {
  local new=$home/new.gguf
  if [[ $1 == AS_IS ]]; then
    ln -sf "$model" "$stem-$1.gguf"
    return
  fi
  "$measure" convert "$model" "$new" "$1"
  mv "$new" "$stem-$1.gguf"
}

threads=$(nproc) rounds=3 quality=0 parts=forward,plain,lookup formats=BF16,Q8_0,Q4_0,Q4_1
model=$(echo "$model"/*.gguf)
while (($# > 0)); do
  case $1 in
    --threads) threads=$2 ;;
    --model) model=$2 ;;
    --formats) formats=$2 ;;
    --rounds) rounds=$2 ;;
    --parts) parts=$2 ;;
    --quality) quality=$2 ;;
    *) echo "usage: compare.sh [--threads N] [--model FILE.gguf] [--formats F,F] [--rounds R] [--parts P,P] [--quality TOKENS]" >&2; exit 2 ;;
  esac
  shift 2
done
stem=$home/$(basename "$model" .gguf)
[[ -x $bin/espalier ]] || die "there is no $bin/espalier; build first: deploy/quickstart.sh"
[[ -f $model ]] || die "there is no model $model; fetch it first: deploy/setup.sh"

mkdir -p "$home"
{
  [[ -d $source_tree ]] || fetch_source
  [[ -e $build_tree/bin/libllama.so ]] || build_llama
  compile_measure
  for format in ${formats//,/ }; do
    [[ $stem-$format.gguf -nt $model ]] || convert_model "$format"
  done
} >&2
python3 "$here/compare.py" --bin "$bin" --measure "$measure" --stem "$stem" \
  --formats "$formats" --threads "$threads" --rounds "$rounds" \
  --parts "$parts" --quality "$quality"
