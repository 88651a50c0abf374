#!/bin/sh
# @devcontainers/cli 0.89.0 (npm): hostRequirements with a size in capitals, or with a space, count as none.
#
# Expected: {"memory": "8GB"} requires what {"memory": "8gb"} does, or is refused.
# Seen:     the merged configuration has no memory requirement at all, with no message and exit 0; "8gb"
#           gives 8589934592 (so gb is 2^30 there, and not 10^9).
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund @devcontainers/cli@0.89.0 >/dev/null
cat >engine <<'SH' # stands for docker: it knows every image
#!/bin/sh
case "$*" in *inspect*) echo '[{"Id":"sha256:1","Architecture":"amd64","Os":"linux","Config":{"Env":[],"Labels":{}}}]' ;; esac
SH
chmod +x engine
required() {
	mkdir -p app/.git
	printf '{"image": "a", "hostRequirements": {"memory": "%s"}}' "$1" >app/.devcontainer.json
	node node_modules/@devcontainers/cli/devcontainer.js read-configuration --docker-path "$work/engine" --include-merged-configuration --workspace-folder app 2>/dev/null |
		node -e 'let s = ""; process.stdin.on("data", d => s += d).on("end", () => console.log(JSON.parse(s).mergedConfiguration.hostRequirements?.memory ?? "none"))'
}
lower=$(required 8gb) upper=$(required 8GB) space=$(required '8 gb')
echo "8gb: $lower, 8GB: $upper, '8 gb': $space"
[ "$lower" = 8589934592 ] && [ "$upper" = none ] && [ "$space" = none ]
