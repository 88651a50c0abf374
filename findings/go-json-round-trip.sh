#!/bin/sh
# encoding/json of Go 1.26, beside cjson of github.com/secure-systems-lab/go-securesystemslib v0.9.1
#
# Expected: what json.Marshal wrote, read into the same type and written again, is the same bytes, as keys are sorted and
# no value is lost; so a signature over json.Marshal(document) can be checked over json.Marshal of the document that was read.
# Seen: a string with a byte that is no UTF-8 (a file's name may have one) is written with the six characters \ufffd, and read
# as U+FFFD, which is written as its three bytes: the two differ, and the signature does not hold. Two names that differ in
# such bytes become two equal keys of one object, of which a reader keeps one.
# cjson.EncodeCanonical, which is made for signatures, gives the same bytes both times.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/json

go 1.26

require github.com/secure-systems-lab/go-securesystemslib v0.9.1
M
cat >main.go <<'M'
package main

import (
	"encoding/json"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/cjson"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	signed := map[string]string{"lib\xff.so": "1", "lib\xfe.so": "2"}
	first := must(json.Marshal(signed))
	var read map[string]string
	if err := json.Unmarshal(first, &read); err != nil {
		panic(err)
	}
	one := map[string]string{"lib\xff.so": "1"}
	text := must(json.Marshal(one))
	var again map[string]string
	if err := json.Unmarshal(text, &again); err != nil {
		panic(err)
	}
	fmt.Printf("%+q\n%+q\n", text, must(json.Marshal(again)))
	fmt.Println("keys:", len(signed), "then", len(read))
	fmt.Println("canonical, the same:", string(must(cjson.EncodeCanonical(one))) == string(must(cjson.EncodeCanonical(again))))
}
M
GOFLAGS=-mod=mod GOWORK=off go run . >seen
cat seen
[ "$(cat seen)" = '"{\"lib\\ufffd.so\":\"1\"}"
"{\"lib\ufffd.so\":\"1\"}"
keys: 2 then 1
canonical, the same: true' ]
