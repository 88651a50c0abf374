// Package mcp is an MCP server: tools and resources by which an agent elsewhere has its hands in
// boxes. It is a client of the door like any other, so what it may do is decided there. Its answers are
// for a model: short, bounded, and of what failed they say what to do next.
package mcp
