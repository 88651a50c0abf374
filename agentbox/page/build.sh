#!/bin/sh
# Puts xterm.js, of the versions in package-lock.json, into embedded/, where the page has its terminal from.
# Where npm is missing, or gets nothing, the page is built without a terminal and says so.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null 2>&1; then
	echo 'page: no npm here, so the page gets no terminal' >&2
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json package-lock.json "$work"
npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || {
	echo 'page: npm got no package, so the page gets no terminal; the next make tries again' >&2
	exit 0
}
xterm=$work/node_modules/@xterm
# Without the last line, which names a source map that is not served.
for file in xterm/lib/xterm.mjs addon-fit/lib/addon-fit.mjs; do
	sed '/^\/\/# sourceMappingURL=/d' "$xterm/$file" >"embedded/$(basename "$file")"
done
cp "$xterm/xterm/css/xterm.css" "$xterm/xterm/LICENSE" embedded/
touch embedded/.built
