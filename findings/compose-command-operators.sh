#!/bin/sh
# github.com/compose-spec/compose-go/v2 v2.16.2 (what docker compose reads files with), Go 1.26
#
# Expected of "command: npm run build && npm start" in a Compose file, whose string is split into words and
# given to no shell: the words, "&&" among them, as google/shlex gives them; or an error.
# Seen: what follows the first &, ;, |, < or > outside of quotes is gone, without an error or a warning: the
# service runs npm, run, build. It need not be a word of its own: "curl http://api/?a=1&b=2" asks for
# http://api/?a=1. entrypoint is the same. A healthcheck's string goes to a shell whole, and "#" begins no
# comment, so neither a check nor a review of the file by a shell's rules says what will run. Lists of words
# are taken as they are.
# Exits 0 if it is still so, 1 if it has changed, 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/command

go 1.26

require github.com/compose-spec/compose-go/v2 v2.16.2
M
cat >compose.yaml <<'M'
name: example
services:
  and: {image: i, command: npm run build && npm start}
  into: {image: i, command: echo hi > /log}
  later: {image: i, entrypoint: first; second, command: "one | two"}
  query: {image: i, command: "curl http://api/?a=1&b=2"}
  quoted: {image: i, command: "sh -c 'npm run build && npm start'"}
  words: {image: i, command: [npm, "&&", start], healthcheck: {test: curl a && curl b}}
M
cat >main.go <<'M'
package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

func main() {
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml"}}})
	if err != nil {
		panic(err)
	}
	names := project.ServiceNames()
	slices.Sort(names)
	for _, name := range names {
		s := project.Services[name]
		fmt.Printf("%s: %q %q\n", name, s.Entrypoint, s.Command)
	}
	fmt.Printf("check: %q\n", project.Services["words"].HealthCheck.Test)
}
M
GOFLAGS=-mod=mod GOWORK=off go build -o command . || { echo "could not be installed" >&2; exit 2; }
./command >seen
cat seen
cat >expected <<'M'
and: [] ["npm" "run" "build"]
into: [] ["echo" "hi"]
later: ["first"] ["one"]
query: [] ["curl" "http://api/?a=1"]
quoted: [] ["sh" "-c" "npm run build && npm start"]
words: [] ["npm" "&&" "start"]
check: ["CMD-SHELL" "curl a && curl b"]
M
cmp expected seen
