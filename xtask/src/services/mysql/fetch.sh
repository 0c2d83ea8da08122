# Unpacks a package of another Debian release, and what it needs, into the current directory. Nothing is installed.
#
# fetch RELEASE PACKAGE
set -eu

release=$1
package=$2
apt=$PWD/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/packages"
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

# Scripts in Perl come with it, which a server does not run.
get -s --no-install-recommends install "$package" | awk '/^Inst/ { print $2 }' |
    grep -vE '^(perl|libperl|libgdbm|libdb5|gcc-|libc-gconv|openssl-prov)' >"$apt/names"
(cd "$apt/packages" && get download $(cat "$apt/names"))
for file in "$apt"/packages/*.deb; do
    dpkg -x "$file" .
done
rm -r "$apt"
