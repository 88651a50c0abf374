// Package toolgate offers the MCP servers that a user registered on this host to agents inside boxes:
// all of them at one address, of each the tools and arguments that its registration allows, and each
// only in the projects it was registered for. It holds the credentials of servers; no box sees one.
//
// A Registry keeps the registrations. A Gate serves boxes, whose supervisors connect to its socket and
// say first which box they speak for. What follows comes from the box, and is bounded in size and in
// number. A registered command is the user's own program: it runs with the user's rights, one process
// for each box that uses it.
package toolgate
