#!/bin/sh
# @devcontainers/cli 0.89.0 (npm): the default of ${localEnv:NAME:default} ends at its first colon.
#
# Expected: ${localEnv:MIRROR:http://mirror.example:8080/x} is http://mirror.example:8080/x when MIRROR
#           is not set, as in a shell's ${MIRROR:-http://mirror.example:8080/x}; or else an error.
# Seen:     it is "http". Everything after the second colon is dropped without a word, so defaults that
#           are URLs, images with a tag or HOST:PORT arrive cut off: "image": "${localEnv:IMG:debian:12}"
#           is debian, of whatever release that is today.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund @devcontainers/cli@0.89.0 >/dev/null
mkdir -p app/.git app/.devcontainer
cat >app/.devcontainer/devcontainer.json <<'JSON'
{"image": "${localEnv:NO_SUCH_IMAGE:debian:12}", "containerEnv": {"MIRROR": "${localEnv:NO_SUCH_MIRROR:http://mirror.example:8080/x}"}}
JSON
out=$(node node_modules/@devcontainers/cli/devcontainer.js read-configuration --docker-path /bin/true --workspace-folder app 2>/dev/null)
echo "$out" | cut -c 1-120
case $out in
*'"image":"debian","containerEnv":{"MIRROR":"http"}'*) echo "as described" ;;
*) echo "changed" >&2; exit 1 ;;
esac
