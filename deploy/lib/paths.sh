# shellcheck shell=bash disable=SC2034  # read by the scripts that source this
# Where things are. The rule for the cache is that of
# common/cmake/CacheFolder.cmake: keep them the same.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${ESPALIER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
export ESPALIER_CACHE=$cache  # the build reads it

model=$cache/models/smollm2-135m-instruct
converted_model=$model-bf16
clients=$cache/clients
envoy=$cache/envoy
mypy=$cache/mypy
further_clients=$cache/clients-langchain
logs=$cache/logs
bin=${ESPALIER_BIN:-$repo/build/release/bin}

# Sockets, process ids and logs of the local cluster. A socket's path may have
# 107 bytes, so this is never below the cache.
if [[ -d ${XDG_RUNTIME_DIR:-} && -w $XDG_RUNTIME_DIR ]]; then
  run_dir=$XDG_RUNTIME_DIR/espalier-$UID
else
  run_dir=/tmp/espalier-$UID
fi
