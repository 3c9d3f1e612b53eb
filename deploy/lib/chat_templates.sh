# shellcheck shell=bash disable=SC2154  # set by paths.sh and wheels.sh
# $cache/chat-templates: published chat templates, which the tests render. They come
# from a source package of 77 MB.

chat_templates=$cache/chat-templates
chat_templates_version="llama-cpp-python $ESPALIER_LLAMA_CPP_PYTHON_VERSION"

chat_templates_are_ready() {
  [[ $(cat "$chat_templates/.stamp" 2>/dev/null) == "$chat_templates_version" ]]
}

make_chat_templates() {
  local new=$cache/tmp/chat-templates
  local package=llama_cpp_python-$ESPALIER_LLAMA_CPP_PYTHON_VERSION
  rm -rf "$new"
  mkdir -p "$new/part" "$new/whole"
  echo "llama-cpp-python==$ESPALIER_LLAMA_CPP_PYTHON_VERSION \
--hash=sha256:$ESPALIER_LLAMA_CPP_PYTHON_SHA256" >"$new/requirements.txt"
  # pip unpacks a source package, to look into it with the package's own tools.
  TMPDIR=$new/part pip download --no-deps --no-binary=llama-cpp-python \
    --require-hashes -r "$new/requirements.txt" -d "$new/whole"
  tar -xzf "$new/whole/$package.tar.gz" -C "$new" --strip-components=5 --wildcards \
    "$package/vendor/llama.cpp/models/templates/*"
  tar -xzf "$new/whole/$package.tar.gz" -C "$new" --strip-components=3 \
    "$package/vendor/llama.cpp/LICENSE"
  rm -rf "$new/part" "$new/whole" "$new/requirements.txt"
  echo "$chat_templates_version" >"$new/.stamp"
  replace_folder "$new" "$chat_templates"
}
