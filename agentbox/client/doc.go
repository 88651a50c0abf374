// Package client is for Go programs that use boxes through `agentbox serve`. It has methods for what
// most of them need; Call makes every other public call (api.Public). It decides nothing and keeps no
// state: a Client is a URL and a token.
//
// Boxes are named by name, ID or a prefix of one. Every error of the other side is an
// *agentbox.Error, whose Code programs branch on; one that did not arrive is Unavailable.
package client
