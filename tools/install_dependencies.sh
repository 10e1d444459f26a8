#!/bin/bash
# Installs the Debian packages that building and testing need and that are not there yet.
#
#   tools/install_dependencies.sh [PACKAGE...]    the list below, and PACKAGEs besides
#
# When nothing is missing it does nothing, without root and without network.
set -eu

packages=(
	# compiler and build
	gcc make binutils pkg-config libc6-dev python3-kconfiglib
	# libraries: kernels, run files, checksums, compressed data, images, lockdown
	libdnnl-dev libyaml-dev libxxhash-dev zlib1g-dev libpng-dev libseccomp-dev
	# tests, and the data of `make train`
	check strace dataset-fashion-mnist
	"$@"
)

is_installed() {
	[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
	echo "This is not a Debian system: please install what these Debian packages hold, then use make all and make run-check:" >&2
	echo "  ${packages[*]}" >&2
	exit 1
fi

missing=()
for package in "${packages[@]}"; do
	is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
echo "Installing with apt-get: ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "Packages are installed system-wide, which needs root, and there is no sudo here. As root, run:" >&2
		echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
		exit 1
	fi
	echo "Packages are installed system-wide, which needs root: sudo may ask for your password."
	as_root=(sudo)
fi

install_packages() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Fresh package lists only if the ones there do not do: a machine may have a mirror's lists already.
if ! install_packages >"$log" 2>&1; then
	if ! { "${as_root[@]}" apt-get update --quiet && install_packages; } >"$log" 2>&1; then
		cat "$log" >&2
		echo "The packages could not be installed: ${missing[*]}" >&2
		exit 1
	fi
fi
