#!/bin/sh
# pgregory.net/rapid v1.3.0: a property that is false passes under `go test -short -rapid.checks=4`.
# Expected: at least one check, as -rapid.checks asks for four, or a test that fails or is skipped.
# Seen: "[rapid] OK, passed 0 tests" and PASS: -short divides the number of checks by five, in integers,
# so each number below five is none. With -rapid.checks=5 the same property fails at once.
# Exits 0 while that is so.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module property
go 1.24
require pgregory.net/rapid v1.3.0
MOD
cat >property_test.go <<'GO'
package property

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFalse(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { r.Fatal("this is never true") })
}
GO
go mod tidy >/dev/null 2>&1
go test -short -v -rapid.checks=4 . >four 2>&1 || { cat four; echo "four checks fail now"; exit 1; }
grep -q 'passed 0 tests' four
if go test -short -rapid.nofailfile -rapid.checks=5 . >five 2>&1; then
	cat five
	echo "five checks pass now, too"
	exit 1
fi
grep -q 'this is never true' five
grep 'rapid' four
