# shellcheck shell=bash disable=SC2154  # set by paths.sh, wheels.sh and versions.env
# The gateway of `quickstart.sh --http`, and the protocol that it speaks with the
# coordinator.

# $smg_proto: vllm_engine.proto and common.proto. The build compiles them. A field
# gets another name, which is not on the wire: protobuf 3.21 gives every message in
# C++ a static function descriptor().
smg_proto_version() { echo "smg-grpc-proto $ESPALIER_SMG_PROTO_VERSION, descriptor renamed"; }

smg_proto_is_ready() {
  [[ $(cat "$smg_proto/.stamp" 2>/dev/null) == "$(smg_proto_version)" ]]
}

make_smg_proto() {
  local new=$cache/tmp/smg-grpc-proto
  fetch_wheel smg-grpc-proto "$ESPALIER_SMG_PROTO_VERSION" "$ESPALIER_SMG_PROTO_SHA256" 1
  rm -rf "$new"
  mkdir -p "$new"
  unpack_wheel smg-grpc-proto "$ESPALIER_SMG_PROTO_VERSION" "$new" \
    'smg_grpc_proto/proto/vllm_engine.proto' 'smg_grpc_proto/proto/common.proto'
  sed -i 's/bytes descriptor = 2;/bytes transport_descriptor = 2;/' "$new/smg_grpc_proto/proto/common.proto"
  smg_proto_version >"$new/smg_grpc_proto/proto/.stamp"
  replace_folder "$new/smg_grpc_proto/proto" "$smg_proto"
  rm -rf "$new"
}

# $gateway: Shepherd Model Gateway in a Python environment of its own. Of its
# dependencies `smg launch` needs setproctitle only.
gateway_version() { echo "smg $ESPALIER_SMG_VERSION, setproctitle $ESPALIER_SETPROCTITLE_VERSION"; }

gateway_is_ready() {
  [[ $(cat "$gateway/.stamp" 2>/dev/null) == "$(gateway_version)" ]]
}

make_gateway() {
  make_pinned_venv "$gateway" \
    "smg==$ESPALIER_SMG_VERSION --hash=sha256:$ESPALIER_SMG_SHA256" \
    "setproctitle==$ESPALIER_SETPROCTITLE_VERSION $ESPALIER_SETPROCTITLE_HASHES"
  gateway_version >"$gateway/.stamp"
}

# $clients: OpenAI's and Anthropic's Python clients, for the tests of the gateway.
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
