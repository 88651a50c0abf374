// Package protocol is what the host and the guest agent say to each other before and beside SSH. It
// holds shapes and framing only, from the standard library: the agent, the host and fuzzers share
// it.
//
// framing.go explains how lives follow each other on one stream; scanner.go (for the guest) and
// lines.go (for the host) take the stream apart. messages.go has the Hello, the Ready and the
// global requests, argv.go and jobs.go the requests on SSH channels, network.go the two ends of the
// link. Each side treats what it receives as data: decoders check sizes and shapes, and have fuzz
// targets.
//
// A machine that runs or was saved under an older build keeps its older agent, so names and shapes
// never change their meaning; another Version ends the conversation. docs/internals/formats.md has
// all of it.
package protocol
