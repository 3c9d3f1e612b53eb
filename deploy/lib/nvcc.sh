# shellcheck shell=bash disable=SC2154  # set by paths.sh and wheels.sh
# $cache/nvcc: what compiling kernels for GPUs and looking at their code needs.
# nvcc comes from a CUDA toolkit where there is one of the pinned version's line.

nvcc_tools=$cache/nvcc

nvcc_tools_version() {
  echo "cuobjdump $ESPALIER_CUOBJDUMP_VERSION, nvdisasm $ESPALIER_NVDISASM_VERSION"
  has_nvcc || echo "nvcc $ESPALIER_NVCC_VERSION, cudart $ESPALIER_CUDA_RUNTIME_VERSION"
}

# Where common/cmake/Nvcc.cmake looks.
has_nvcc() {
  local nvcc=/usr/local/cuda/bin/nvcc
  [[ -x $nvcc ]] || nvcc=$(command -v nvcc) || return 1
  [[ $("$nvcc" --version) == *"release ${ESPALIER_NVCC_VERSION%.*},"* ]]
}

nvcc_is_ready() {
  [[ $(cat "$nvcc_tools/.stamp" 2>/dev/null) == "$(nvcc_tools_version)" ]]
}

make_nvcc() {
  local new=$cache/tmp/nvcc
  rm -rf "$new"
  mkdir -p "$new"
  add_to_nvcc nvidia-cuda-cuobjdump "$ESPALIER_CUOBJDUMP_VERSION" "$ESPALIER_CUOBJDUMP_SHA256" 1
  add_to_nvcc nvidia-cuda-nvdisasm "$ESPALIER_NVDISASM_VERSION" "$ESPALIER_NVDISASM_SHA256" 5
  if ! has_nvcc; then
    add_to_nvcc nvidia-cuda-nvcc "$ESPALIER_NVCC_VERSION" "$ESPALIER_NVCC_SHA256" 37
    add_to_nvcc nvidia-nvvm "$ESPALIER_NVCC_VERSION" "$ESPALIER_NVVM_SHA256" 62
    add_to_nvcc nvidia-cuda-crt "$ESPALIER_NVCC_VERSION" "$ESPALIER_CUDA_CRT_SHA256" 1
    add_to_nvcc nvidia-cuda-runtime "$ESPALIER_CUDA_RUNTIME_VERSION" "$ESPALIER_CUDA_RUNTIME_SHA256" 2
  fi
  nvcc_tools_version >"$new/nvidia/cu13/.stamp"
  replace_folder "$new/nvidia/cu13" "$nvcc_tools"
  rm -rf "$new"
}

# add_to_nvcc NAME VERSION SHA256 MEGABYTES
add_to_nvcc() {
  fetch_wheel "$@"
  unpack_wheel "$1" "$2" "$new" 'nvidia/cu13/*'
}
