# shellcheck shell=bash disable=SC2154  # set by paths.sh and wheels.sh
# $cache/jinja: llama.cpp's Jinja engine, which renders models' chat templates,
# and for the tests the templates beside it. One MB of a source package of 77.

jinja=$cache/jinja
jinja_version="llama-cpp-python $ESPALIER_LLAMA_CPP_PYTHON_VERSION"

jinja_is_ready() {
  [[ $(cat "$jinja/.stamp" 2>/dev/null) == "$jinja_version" ]]
}

make_jinja() {
  local new=$cache/tmp/jinja
  local package=llama_cpp_python-$ESPALIER_LLAMA_CPP_PYTHON_VERSION
  rm -rf "$new"
  mkdir -p "$new/part" "$new/whole"
  echo "llama-cpp-python==$ESPALIER_LLAMA_CPP_PYTHON_VERSION \
--hash=sha256:$ESPALIER_LLAMA_CPP_PYTHON_SHA256" >"$new/requirements.txt"
  # pip unpacks a source package, to look into it with the package's own tools.
  TMPDIR=$new/part pip download --no-deps --no-binary=llama-cpp-python \
    --require-hashes -r "$new/requirements.txt" -d "$new/whole"
  tar -xzf "$new/whole/$package.tar.gz" -C "$new" --strip-components=3 --wildcards \
    "$package/vendor/llama.cpp/LICENSE" \
    "$package/vendor/llama.cpp/common/jinja/*" \
    "$package/vendor/llama.cpp/common/json.*" \
    "$package/vendor/llama.cpp/common/unicode.*" \
    "$package/vendor/llama.cpp/models/templates/*"
  rm -rf "$new/part" "$new/whole" "$new/requirements.txt"
  echo "$jinja_version" >"$new/.stamp"
  replace_folder "$new" "$jinja"
}
