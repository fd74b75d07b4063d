#!/usr/bin/env bash
# healthy PORT PATH: whether GET PATH on this container's PORT is answered with 200.
# By bash alone: the image has no curl, and a Node.js for each check costs fifty times as much.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/$1"
printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' "$2" >&3
IFS=' ' read -r -t 2 _ status _ <&3
[ "$status" = 200 ]
