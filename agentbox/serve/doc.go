// Package serve opens the door (agentbox/door) on a TCP address, with its page and its MCP server, or
// on standard input and output for one MCP client. It is a process of its own, in the daemon's
// program: the daemon may be replaced meanwhile, and what goes wrong here concerns no box.
package serve
