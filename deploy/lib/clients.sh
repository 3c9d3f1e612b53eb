# shellcheck shell=bash disable=SC2154  # set by paths.sh, wheels.sh and versions.env
# $clients: OpenAI's and Anthropic's Python clients, for tests/deploy/http_test.py.
clients_are_ready() {
  [[ $(cat "$clients/.stamp" 2>/dev/null) == "$ESPALIER_CLIENT_PACKAGES" ]]
}

make_clients() {
  rm -rf "$clients"
  "$(find_python)" -m venv "$clients"
  # shellcheck disable=SC2086  # one word per package
  "$clients/bin/python" -m pip install --disable-pip-version-check --no-cache-dir \
    --progress-bar off --no-deps --only-binary=:all: $ESPALIER_CLIENT_PACKAGES
  echo "$ESPALIER_CLIENT_PACKAGES" >"$clients/.stamp"
}
