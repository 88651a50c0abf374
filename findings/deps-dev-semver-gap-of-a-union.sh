#!/bin/sh
# deps.dev/util/semver v0.0.0-20260727054525-2946ae4a6141 closes the gap of a union of npm ranges.
#
# Expected, and what npm's own semver 7.7.3 says: 19.0.0 is not in ">=18.0.0 <19 || >=20".
# Seen: NPM.ParseConstraint(">=18.0.0 <19 || >=20") prints itself as one set that matches 19.0.0, though neither half
# does by itself. Who reads `engines` of packages with it takes Node.js 19 for supported.
# Source: the tests of both projects; run on 27 November 2026 with Go 1.26 and Node.js.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"fmt"

	"deps.dev/util/semver"
)

func main() {
	for _, r := range []string{">=18.0.0 <19", ">=20", ">=18.0.0 <19 || >=20"} {
		c, err := semver.NPM.ParseConstraint(r)
		fmt.Println(r, c.Match("19.0.0"), err)
	}
}
GO
go mod init finding >/dev/null 2>&1
go get deps.dev/util/semver@v0.0.0-20260727054525-2946ae4a6141 >/dev/null 2>&1
theirs=$(go run .)
npm install --silent --no-audit --no-fund semver@7.7.3 >/dev/null
npm=$(node -e 'const s = require("semver"); for (const r of [">=18.0.0 <19", ">=20", ">=18.0.0 <19 || >=20"]) console.log(r, s.satisfies("19.0.0", r))')
printf 'deps.dev:\n%s\nnpm:\n%s\n' "$theirs" "$npm"
[ "$theirs" = ">=18.0.0 <19 false <nil>
>=20 false <nil>
>=18.0.0 <19 || >=20 true <nil>" ]
[ "$npm" = ">=18.0.0 <19 false
>=20 false
>=18.0.0 <19 || >=20 false" ]
