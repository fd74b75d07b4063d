#!/bin/sh
# Makes the secrets that are missing, each a file that only its reader can read, and what is made of them. What the environment gives replaces
# what is there. Runs once at each `up`, before everything else, as root and without a network.
set -eu
cd /run/tollgate
umask 277

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

# Whole or not at all: a container that reads at the same moment gets the old file or the new one.
write() { # file, its reader's user id; the content on standard input
  rm -f ".$1"
  cat >".$1"
  chown "$2" ".$1"
  mv -f ".$1" "$1"
}

secret() { # file, its reader's user id, what the environment gives
  if [ -n "$3" ]; then printf '%s\n' "$3" | write "$1" "$2"
  elif [ ! -s "$1" ]; then random | write "$1" "$2"
  fi
}

case "${REDIS_PASSWORD:-}" in
  *[!A-Za-z0-9._~-]*) echo 'REDIS_PASSWORD may have letters, digits and . _ ~ - only: it becomes part of a URL.' >&2; exit 1 ;;
esac

secret key-pepper 1000 "${KEY_PEPPER:-}"
secret admin-token 1000 "${ADMIN_TOKEN:-}"
secret redis-password 999 "${REDIS_PASSWORD:-}"
secret redis-operator-password 999 ''
secret grafana-password 472 "${GRAFANA_PASSWORD:-}"
password=$(cat redis-password)
nodes='cluster-1 cluster-2 cluster-3 cluster-4 cluster-5 cluster-6'

# The gateways' user may do what config/redis.acl says, and `operator` everything. Nobody can be `default`, which is off; it
# keeps its rights all the same, because Redis loads the transactions of its append-only file with them: without, a restart
# forgets every counter and ban.
digest() { printf %s "$(cat "$1")" | sha256sum | cut -d ' ' -f 1; }
{
  echo 'user default off ~* &* +@all'
  sed "s/^user tollgate on /&#$(digest redis-password) /" /redis.acl
  echo "user operator on #$(digest redis-operator-password) ~* &* +@all"
} | write redis-users.acl 999
# Its last lines are for replicas, which the nodes of a cluster may become.
printf 'aclfile /run/tollgate/redis-users.acl\nmasteruser operator\nmasterauth %s\n' "$(cat redis-operator-password)" |
  write redis-auth.conf 999
printf 'rediss://tollgate:%s@redis:6379\n' "$password" | write redis-url 1000
printf 'redis+cluster://tollgate:%s@%s\n' "$password" "$(echo "$nodes" | tr ' ' ,)" | write redis-cluster-url 1000

# The certificate is no secret: the gateways trust it by this file. Key first: without the certificate both are made anew.
if [ ! -s redis-cert.pem ]; then
  node /make-certificate.ts .made-key .made-cert redis localhost
  write redis-key.pem 999 <.made-key
  chmod 444 .made-cert
  mv -f .made-cert redis-cert.pem
  rm -f .made-key
fi

# A volume belongs to root until somebody says otherwise.
chown 999:1000 /redis-data
for node in $nodes; do
  mkdir -p -m 700 "/cluster-data/$node"
  chown 999:1000 "/cluster-data/$node"
done
chmod 755 /cluster-data

cat <<TEXT
Once all are healthy, make a key and use it:
  docker compose exec gateway-1 tollgate keys create --plan pro
  curl -i -H 'Authorization: Bearer tg_live_…' http://127.0.0.1:${PORT:-8080}/v1/pets
TEXT
