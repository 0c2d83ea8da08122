# Installs the Debian packages named as arguments without letting them start or create anything.
#
# Two doors are closed for the time of the installation and restored after it: policy-rc.d forbids packages to
# start their system services, and the drop-in keeps PostgreSQL from creating its "main" cluster.
set -eu

policy=/usr/sbin/policy-rc.d
drop_in=/etc/postgresql-common/createcluster.d/pillarbox-install.conf
made_policy=

restore() {
    rm -f "$drop_in"
    if [ -n "$made_policy" ]; then rm -f "$policy"; fi
}
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ ! -e "$policy" ]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
mkdir -p "$(dirname "$drop_in")"
echo 'create_main_cluster = false' >"$drop_in"

export DEBIAN_FRONTEND=noninteractive
# stdout is data in this tool, so apt talks on stderr.
apt-get update -q >&2
apt-get install -q -y --no-install-recommends "$@" >&2
