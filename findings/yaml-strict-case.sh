#!/bin/sh
# sigs.k8s.io/yaml v1.6.0 beside sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730, which Kubernetes'
#   API server uses.
# Expected: yaml.UnmarshalStrict, "strict decoding which returns error for duplicate and unknown fields",
#   refuses a key in
#   other capitals than the field's (REPLICAS for replicas), and two keys that mean one field.
# Seen: it takes REPLICAS, and of {replicas: 1, Replicas: 5} it takes 1 without a word, although
#   {replicas: 1, replicas: 5} is
#   an error: it is encoding/json below, which matches names in any capitals, and duplicates are looked
#   for by their text.
#   UnmarshalStrict of sigs.k8s.io/json, for the same document as JSON, reports both as unknown fields.
# Why it matters: what one program reviews in a file and another applies differ, if only one of them knows
#   the difference.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"fmt"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

type spec struct {
	Replicas int `json:"replicas"`
}

func main() {
	for _, text := range []string{"{REPLICAS: 3}", "{replicas: 1, Replicas: 5}", "{replicas: 1, replicas: 5}"} {
		var a spec
		err := yaml.UnmarshalStrict([]byte(text), &a)
		fmt.Println("yaml", text, a.Replicas, err != nil)
	}
	for _, text := range []string{`{"REPLICAS": 3}`, `{"replicas": 1, "Replicas": 5}`} {
		var a spec
		strict, err := json.UnmarshalStrict([]byte(text), &a)
		fmt.Println("json", text, a.Replicas, len(strict), err)
	}
}
GO
go mod init example >/dev/null 2>&1
go get sigs.k8s.io/yaml@v1.6.0 sigs.k8s.io/json@v0.0.0-20250730193827-2d320260d730 >/dev/null 2>&1
go run . | tee out
cat >want <<'OUT'
yaml {REPLICAS: 3} 3 false
yaml {replicas: 1, Replicas: 5} 1 false
yaml {replicas: 1, replicas: 5} 0 true
json {"REPLICAS": 3} 0 1 <nil>
json {"replicas": 1, "Replicas": 5} 1 1 <nil>
OUT
cmp want out
