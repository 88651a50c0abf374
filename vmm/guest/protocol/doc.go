// Package protocol is what the host and the guest agent say to each other before and beside SSH. It
// holds shapes and framing only, from the standard library: the agent, the host and fuzzers share
// it.
//
// framing.go explains how lives follow each other on one stream, scanner.go (the guest's reader)
// and lines.go (the host's) take the stream apart, messages.go has the Hello, the Ready and the
// global requests, argv.go and jobs.go what is asked on SSH channels, network.go the two ends of
// the cable. Each side treats what the other says as data: decoders check sizes and shapes, and
// have fuzz targets.
//
// A machine that runs, or was saved, under an older build keeps its older agent, so names and
// shapes here do not change their meaning; another Version ends the conversation. All of it is
// written down in docs/internals/formats.md.
package protocol
