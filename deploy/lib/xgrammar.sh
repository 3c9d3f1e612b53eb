# shellcheck shell=bash disable=SC2154  # set by paths.sh and wheels.sh
# $cache/xgrammar: the sources of xgrammar that the build compiles, for structured
# output. Its Python package and its tests are left out.

xgrammar=$cache/xgrammar
xgrammar_version="xgrammar $ESPALIER_XGRAMMAR_VERSION"

xgrammar_is_ready() {
  [[ $(cat "$xgrammar/.stamp" 2>/dev/null) == "$xgrammar_version" ]]
}

# pip looks into a source package with the package's own build tools.
make_xgrammar() {
  local new=$cache/tmp/xgrammar name=xgrammar-$ESPALIER_XGRAMMAR_VERSION
  rm -rf "$new"
  mkdir -p "$new"
  echo "xgrammar==$ESPALIER_XGRAMMAR_VERSION --hash=sha256:$ESPALIER_XGRAMMAR_SHA256" \
    >"$new/requirements.txt"
  pip download --no-deps --no-binary=xgrammar --require-hashes \
    -r "$new/requirements.txt" -d "$new"
  tar -xzf "$new/$name.tar.gz" -C "$new" "$name/LICENSE" "$name/NOTICE" "$name/cpp" \
    "$name/include" "$name/3rdparty/dlpack/include" "$name/3rdparty/dlpack/LICENSE" \
    "$name/3rdparty/picojson/picojson.h"
  rm -rf "$new/$name/cpp/tvm_ffi"
  echo "$xgrammar_version" >"$new/$name/.stamp"
  replace_folder "$new/$name" "$xgrammar"
  rm -rf "$new"
}
