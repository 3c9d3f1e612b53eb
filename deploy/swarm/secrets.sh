#!/usr/bin/env bash
# Makes the secrets of deploy/swarm/stack.yml with openssl: an authority, a certificate for
# each service, tokens of clients and of Prometheus, a key for HTTP.
#
#   deploy/swarm/secrets.sh FOLDER NAME...
#
# NAME: host names and IP addresses by which clients reach the nodes. What FOLDER has
# already is kept: without its certificates, the same authority signs new ones.
set -euo pipefail

[[ $# -ge 2 ]] || {
  sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
readonly folder=$1 days=${ESPALIER_CERTIFICATE_DAYS:-365}
shift
umask 077
mkdir -p "$folder"
cd "$folder"

new_key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
[[ -f ca.crt ]] ||
  openssl req -x509 "${new_key[@]}" -keyout ca.key -out ca.crt -subj /CN=espalier -days 3650 2>/dev/null

# issue WHO NAME...: WHO.crt and WHO.key, for these names
issue() {
  local who=$1 name names=
  shift
  [[ ! -f $who.crt ]] || return 0
  for name in "$@"; do
    [[ $name =~ ^[0-9.]+$|: ]] && names+=,IP:$name || names+=,DNS:$name
  done
  openssl req "${new_key[@]}" -keyout "$who.key" -subj "/CN=$who" 2>/dev/null |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days "$days" \
      -extfile <(echo "subjectAltName=${names#,}") -out "$who.crt" 2>/dev/null
}

# token FILE: a new secret, unless there is one
token() {
  [[ -f $1 ]] || openssl rand -hex 32 >"$1"
}

for peer in verifier lookup suffix; do
  issue "$peer" "$peer" localhost
done
issue coordinator coordinator localhost "$@"
token client.token
token prometheus.token
token http_keys
sha256() { tr -d '\n' <"$1" | sha256sum | cut -d' ' -f1; }
cat >roles <<ROLES
# ROLE NAME CREDENTIAL
client clients sha256:$(sha256 client.token)
scrape prometheus sha256:$(sha256 prometheus.token)
service coordinator certificate:coordinator
ROLES
