#!/usr/bin/env bash
# Makes the packages of a release: a tar archive, Debian packages, a bill of
# materials, checksums.
#
#   deploy/package.sh [FOLDER]    default: dist/packages
#
# Run deploy/setup.sh first, on the distribution that the packages are for. deploy/PACKAGES.md
# says what they contain.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -*)
    sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p}' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
mkdir -p "${1:-$repo/dist/packages}"
out=$(cd "${1:-$repo/dist/packages}" && pwd)
tree=$repo/build/package
programs=(espalier espalier-coordinator espalier-drafter espalier-verifier)
readonly repo out tree programs

fail() {
  echo "package: $*" >&2
  exit 1
}

for tool in dpkg-shlibdeps file strip cpack; do
  command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install dpkg-dev file binutils cmake"
done

# Times within the packages are those of the commit.
SOURCE_DATE_EPOCH=$(git -C "$repo" log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

(cd "$repo" && cmake --preset release -B "$tree" \
  -DESPALIER_TESTS=OFF -DESPALIER_TORCH=OFF -DESPALIER_NVCC=OFF) >"$out/build.log"
cmake --build "$tree" -j "$(nproc)" --target "${programs[@]}" documents >>"$out/build.log" ||
  fail "the build failed: $out/build.log"
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$tree/CMakeCache.txt")

rm -f "$out"/espalier* "$out/SHA256SUMS"
(cd "$tree" && cpack -B "$out" >>"$out/build.log" 2>&1) || fail "cpack failed: $out/build.log"
rm -rf "$out/_CPack_Packages"
python3 "$repo/deploy/lib/make_sbom.py" "$version" "${programs[@]/#/$tree/bin/}" \
  >"$out/espalier-$version.cdx.json"
(cd "$out" && sha256sum espalier* >SHA256SUMS)
ls -l "$out"
