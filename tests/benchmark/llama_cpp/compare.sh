#!/usr/bin/env bash
# Espalier beside llama.cpp: the same weights in BF16, the same threads, the
# two taking turns. Prints one table.
#
#   compare.sh [--threads N] [--model DIR] [--rounds R]
#
# Times of forward passes with the logits of all rows, after 512 cached tokens;
# tokens/s of greedy decoding, plain and with prompt lookup (8 drafted tokens at
# most), prefill excluded. llama.cpp takes part twice, with its default and with
# flash attention off, which is faster for few rows on a CPU; the ratio is to the
# faster one. libllama has no speculation: the loop on its API is ours.
#
# Builds the libllama of the source package llama-cpp-python once, for this CPU,
# in $ESPALIER_CACHE/llama.cpp, and measures it and build/release. Not a test:
# it wants a quiet machine, or the threads of both wait for those of others.
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

model=$converted_model
readonly home=$cache/llama.cpp
readonly package=llama_cpp_python-$ESPALIER_LLAMA_CPP_PYTHON_VERSION
readonly source_tree=$home/$package/vendor/llama.cpp
readonly build_tree=$home/build-$ESPALIER_LLAMA_CPP_PYTHON_VERSION
readonly measure=$home/llama_measure

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

convert_model() {
  "$venv/bin/python" "$here/convert_to_gguf.py" "$model" "$gguf.new"
  mv "$gguf.new" "$gguf"
}

threads=$(nproc) rounds=3
while (($# > 0)); do
  case $1 in
    --threads) threads=$2 ;;
    --model) model=$(cd "$2" && pwd) ;;
    --rounds) rounds=$2 ;;
    *) echo "usage: compare.sh [--threads N] [--model DIR] [--rounds R]" >&2; exit 2 ;;
  esac
  shift 2
done
gguf=$home/$(basename "$model").gguf
[[ -x $bin/espalier-local ]] || die "there is no $bin/espalier-local; build first: deploy/quickstart.sh"
[[ -x $venv/bin/python ]] || die "there is no $venv; make it first: deploy/setup.sh --tests"

mkdir -p "$home"
{
  [[ -d $source_tree ]] || fetch_source
  [[ -e $build_tree/bin/libllama.so ]] || build_llama
  compile_measure
  [[ $gguf -nt $model/model.safetensors ]] || convert_model
} >&2
"$venv/bin/python" "$here/compare.py" --bin "$bin" --measure "$measure" --gguf "$gguf" \
  --model "$model" --threads "$threads" --rounds "$rounds"
