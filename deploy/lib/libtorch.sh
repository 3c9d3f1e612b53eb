# shellcheck shell=bash disable=SC2154  # set by paths.sh and wheels.sh
# $cache/libtorch/{include,lib}: what compiling, linking and running against
# libtorch needs of the torch wheel, and the two CUDA libraries that the CPU
# library is linked to.

libtorch=$cache/libtorch
libtorch_version="torch $ESPALIER_TORCH_VERSION, cudart $ESPALIER_CUDA_RUNTIME_VERSION, cupti $ESPALIER_CUDA_CUPTI_VERSION"

libtorch_is_ready() {
  [[ $(cat "$libtorch/.stamp" 2>/dev/null) == "$libtorch_version" ]]
}

make_libtorch() {
  local new=$cache/tmp/libtorch
  fetch_wheel torch "$ESPALIER_TORCH_VERSION" "$ESPALIER_TORCH_SHA256" 531
  fetch_wheel nvidia-cuda-runtime "$ESPALIER_CUDA_RUNTIME_VERSION" "$ESPALIER_CUDA_RUNTIME_SHA256" 2
  fetch_wheel nvidia-cuda-cupti "$ESPALIER_CUDA_CUPTI_VERSION" "$ESPALIER_CUDA_CUPTI_SHA256" 11
  rm -rf "$new"
  mkdir -p "$new"
  unpack_wheel torch "$ESPALIER_TORCH_VERSION" "$new" 'torch/include/*' \
    torch/lib/libtorch_cpu.so torch/lib/libc10.so torch/lib/libgomp.so.1
  unpack_wheel nvidia-cuda-runtime "$ESPALIER_CUDA_RUNTIME_VERSION" "$new" '*/libcudart.so.13'
  unpack_wheel nvidia-cuda-cupti "$ESPALIER_CUDA_CUPTI_VERSION" "$new" '*/libcupti.so.13'
  mv "$new/nvidia/cu13/lib/"* "$new/torch/lib/"
  echo "$libtorch_version" >"$new/torch/.stamp"
  replace_folder "$new/torch" "$libtorch"
  rm -rf "$new"
}
