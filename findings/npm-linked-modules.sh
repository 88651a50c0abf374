#!/bin/sh
# npm 11.19.1 (npm), on Node.js 20 or later: a project whose node_modules is a symbolic link to a folder
# elsewhere, as is done to keep it on another disk or in a cache that outlives a box.
# Expected: the packages are installed where the link leads, as yarn 1 and pnpm do; or the link is refused.
# Seen: npm install replaces the link by a folder ("npm warn reify Removing non-directory") and leaves the
# other alone, so that nothing is on the other disk. npm ci first deletes all that is in the folder to which
# the link leads, whatever it is, and then replaces the link, too. Both exit with 0. A cache that several
# projects or boxes link to is empty after one npm ci, and is not filled. A bind mount in place of the link
# is not replaced.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix tools npm@11.19.1 >/dev/null 2>&1 ||
	{ echo "could not be installed" >&2; exit 2; }
mkdir dep project
echo '{"name": "dep", "version": "1.0.0"}' >dep/package.json
echo '{"name": "project", "version": "1.0.0", "dependencies": {"dep": "file:../dep"}}' >project/package.json
(cd project && ../tools/node_modules/.bin/npm install --silent --offline --no-audit --no-fund >/dev/null)
for command in install ci; do
	rm -rf project/node_modules cache
	mkdir cache
	echo kept >cache/another-project
	ln -s ../cache project/node_modules
	(cd project && ../tools/node_modules/.bin/npm $command --offline --no-audit --no-fund >../out 2>&1)
	link=replaced
	[ ! -L project/node_modules ] || link=kept
	echo "npm $command: link $link, $(ls project/node_modules | xargs) installed, cache has: $(ls cache | xargs)"
	grep -o 'Removing non-directory' out || true
done >seen
cat seen
cmp - seen <<'M'
npm install: link replaced, dep installed, cache has: another-project
Removing non-directory
npm ci: link replaced, dep installed, cache has: 
Removing non-directory
M
