#!/bin/sh
# go.opentelemetry.io/otel/sdk v1.44.0 (Go 1.26) and npm @opentelemetry/resources 2.12.1 (Node.js 20)
#
# OpenTelemetry's specification, as the JavaScript package quotes it: "," and "=" in keys and values of
# OTEL_RESOURCE_ATTRIBUTES must be percent-encoded, and on any error the whole variable is discarded.
# Expected: two programs with the same variable say the same of their resource.
# Seen: Go decodes values and leaves keys as they are: ci%2Fjob=a%3Db is "ci/job" in JavaScript and
# "ci%2Fjob" in Go. With one "=" that is not encoded (url=/x?y=z), JavaScript drops all attributes,
# service.name too, and says so to nobody who has not set up its diag logger; Go keeps all of them. A key
# that repeats has its last value in both. Who sets the variable for programs of others has to encode "=" in
# values, and to use keys that need no encoding.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/attributes

go 1.26

require go.opentelemetry.io/otel/sdk v1.44.0
M
cat >main.go <<'M'
package main

import (
	"context"
	"encoding/json"
	"os"

	"go.opentelemetry.io/otel/sdk/resource"
)

func main() {
	found, err := resource.New(context.Background(), resource.WithFromEnv())
	if err != nil {
		panic(err)
	}
	attributes := map[string]string{}
	for _, a := range found.Attributes() {
		attributes[string(a.Key)] = a.Value.AsString()
	}
	json.NewEncoder(os.Stdout).Encode(attributes)
}
M
cat >main.js <<'JS'
const { detectResources, envDetector } = require("@opentelemetry/resources");
const { attributes } = detectResources({ detectors: [envDetector] });
console.log(JSON.stringify(Object.fromEntries(Object.entries(attributes).sort())));
JS
npm install --silent --no-audit --no-fund --prefix . @opentelemetry/resources@2.12.1 \
	@opentelemetry/api@1.9.1 >/dev/null 2>&1 && GOFLAGS=-mod=mod GOWORK=off go build -o attributes . ||
	{ echo "could not be installed" >&2; exit 2; }
for value in 'service.name=box,ci%2Fjob=a%3Db' 'service.name=box,url=/x?y=z' 'k=1,k=2'; do
	echo "$value"
	env -u OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES="$value" ./attributes
	env -u OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES="$value" node main.js
done >seen
cat seen
cmp - seen <<'M'
service.name=box,ci%2Fjob=a%3Db
{"ci%2Fjob":"a=b","service.name":"box"}
{"ci/job":"a=b","service.name":"box"}
service.name=box,url=/x?y=z
{"service.name":"box","url":"/x?y=z"}
{}
k=1,k=2
{"k":"2"}
{"k":"2"}
M
