#!/bin/sh
# github.com/modelcontextprotocol/go-sdk v1.8.0, Go 1.26
#
# Expected of a tool made by mcp.AddTool, whose input and output are Go structs: a client gets what
# encoding/json makes of them, and the handler what it reads. An int64 keeps its 63 bits; a []byte is a base64
# string.
# Seen: numbers pass through float64 on both ways: 1152921504606846977 arrives at the handler as
# 1152921504606847000 and goes out so, in the text, too, without an error. For []byte the schema that is
# offered asks for a list of numbers from 0 to 255: a base64 string is refused, a list is taken, and a tool
# whose output holds one fails at each call, because its own base64 string does not fit its own schema.
# Identifiers, offsets and times in nanoseconds go as strings, and so do bytes. Exits non-zero if that
# changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/tools

go 1.26

require github.com/modelcontextprotocol/go-sdk v1.8.0
M
cat >main.go <<'M'
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type number struct {
	N int64 `json:"n"`
}

type data struct {
	B []byte `json:"b"`
}

func main() {
	ctx := context.Background()
	s := mcp.NewServer(&mcp.Implementation{Name: "s"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "number"}, func(_ context.Context, _ *mcp.CallToolRequest, in number) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(in.N)}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "same"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, number, error) {
		return nil, number{1152921504606846977}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "take"}, func(_ context.Context, _ *mcp.CallToolRequest, in data) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(in.B)}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "give"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, data, error) {
		return nil, data{[]byte("hi")}, nil
	})
	ours, theirs := mcp.NewInMemoryTransports()
	go func() { _ = s.Run(ctx, theirs) }()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "c"}, nil).Connect(ctx, ours, nil)
	if err != nil {
		panic(err)
	}
	for _, call := range []struct{ tool, args string }{
		{"number", `{"n": 1152921504606846977}`}, {"same", `{}`}, {"take", `{"b": "aGk="}`}, {"take", `{"b": [104, 105]}`}, {"give", `{}`},
	} {
		res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: call.tool, Arguments: json.RawMessage(call.args)})
		if err != nil {
			fmt.Printf("%s %s: fails\n", call.tool, call.args)
			continue
		}
		text := ""
		if t, ok := res.Content[0].(*mcp.TextContent); ok && !res.IsError {
			text = t.Text
		}
		fmt.Printf("%s %s: error %v %s\n", call.tool, call.args, res.IsError, text)
	}
}
M
GOFLAGS=-mod=mod GOWORK=off go run . >seen
cat seen
[ "$(cat seen)" = 'number {"n": 1152921504606846977}: error false 1152921504606847000
same {}: error false {"n":1152921504606847000}
take {"b": "aGk="}: error true 
take {"b": [104, 105]}: error false hi
give {}: fails' ]
