#!/bin/sh
# Makes the six nodes one Redis Cluster: three primaries with a replica each. Runs once at each `up`, when all of them
# answer. Containers get new addresses when they are made anew, and nodes know each other by address: later it only
# introduces them to each other again, until all of them know all.
set -eu
REDISCLI_AUTH=$(cat /run/tollgate/redis-operator-password)
export REDISCLI_AUTH
cli() { redis-cli --user operator "$@"; }
nodes='cluster-1 cluster-2 cluster-3 cluster-4 cluster-5 cluster-6'

address() { getent hosts "$1" | awk '{ print $1; exit }'; }
says() { cli -h "$1" cluster info | tr -d '\r' | grep -qx "$2"; }
# Whether a node names the address that each node has now, connected. Nodes remember former addresses across a restart, and
# would name them to the gateways.
knows_all() {
  known=$(cli -h "$1" cluster nodes) || return 1
  for other in $nodes; do
    printf '%s\n' "$known" | grep -q " $(address "$other"):6379@.* connected" || return 1
  done
}

# A node gives up a handshake that is not answered within its node timeout, and never tries that address again.
introduce() {
  for node in $nodes; do cli -h cluster-1 cluster meet "$(address "$node")" 6379 >/dev/null; done
}

if says cluster-1 cluster_slots_assigned:16384; then
  introduce
else
  places=''
  for node in $nodes; do places="$places $(address "$node"):6379"; done
  # shellcheck disable=SC2086 # a word for each node
  cli --cluster create $places --cluster-replicas 1 --cluster-yes
fi

for member in $nodes; do
  tries=0
  until says "$member" cluster_state:ok && says "$member" cluster_known_nodes:6 && knows_all "$member"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 360 ]; then
      echo "$member is not part of the cluster: see its log, \`docker compose logs $member\`." >&2
      exit 1
    fi
    if [ $((tries % 10)) -eq 0 ]; then introduce; fi
    sleep 0.5
  done
done
echo 'The cluster is in order.'
