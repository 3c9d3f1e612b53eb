#!/usr/bin/env bash
# Makes sure that there is an image debian:bookworm-slim: by pulling it or, where no
# image registry can be reached, by making its like with debootstrap (root, 75 MB).
set -euo pipefail

readonly tag=debian:bookworm-slim suite=bookworm

if docker image inspect "$tag" >/dev/null 2>&1 || docker pull -q "$tag" 2>/dev/null; then
  exit 0
fi
command -v debootstrap >/dev/null || {
  echo "$tag cannot be pulled, and debootstrap is not installed" >&2
  exit 1
}
echo "making $tag with debootstrap"
root=$(mktemp -d -p /dev/shm base.XXXXXX)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
debootstrap --variant=minbase "$suite" "$root" >/dev/null
# The machine's own sources: updates and security come with them.
if [[ -f /etc/apt/sources.list.d/debian.sources ]]; then
  cp /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/"
  : >"$root/etc/apt/sources.list"
fi
# As in the published image; without these a layer of one small package has 79 MB.
cat >"$root/etc/apt/apt.conf.d/90-slim" <<'EOF'
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };
EOF
cat >"$root/etc/dpkg/dpkg.cfg.d/90-slim" <<'EOF'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/info/*
EOF
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
find "$root/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$root"/usr/share/{man,locale,info}/* "$root"/var/cache/apt/*.bin \
  "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/var/log/*.log
tar -C "$root" --numeric-owner --sort=name --one-file-system -c . |
  docker import -c 'CMD ["bash"]' - "$tag" >/dev/null
