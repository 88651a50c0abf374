#!/bin/sh
# github.com/hashicorp/memberlist v0.7.0, Go 1.26
#
# Expected of a broadcast in a TransmitLimitedQueue that is larger than a packet (UDPBufferSize, 1,400 bytes
# by default): an error, or another way (memberlist falls back to TCP elsewhere).
# Seen: it is never sent, without an error, a callback or a line in the log, and stays in the queue for ever:
# GetBroadcasts looks for messages that fit. What is queued after it, and fits, arrives. Only NumQueued tells:
# it never comes to zero. Whoever gossips records whose size users decide has to bound them before they are
# queued.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/gossip

go 1.26

require github.com/hashicorp/memberlist v0.7.0
M
cat >main.go <<'M'
package main

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/memberlist"
)

type message []byte

func (m message) Message() []byte                        { return m }
func (message) Invalidates(memberlist.Broadcast) bool    { return false }
func (message) Finished()                                {}

type node struct {
	queue *memberlist.TransmitLimitedQueue
	got   chan int
}

func (*node) NodeMeta(int) []byte                      { return nil }
func (*node) LocalState(bool) []byte                   { return nil }
func (*node) MergeRemoteState([]byte, bool)            {}
func (n *node) NotifyMsg(b []byte)                     { n.got <- len(b) }
func (n *node) GetBroadcasts(o, l int) [][]byte        { return n.queue.GetBroadcasts(o, l) }

func start(name string) (*memberlist.Memberlist, *node) {
	n := &node{got: make(chan int, 100)}
	c := memberlist.DefaultLocalConfig()
	c.Name, c.BindAddr, c.BindPort, c.Delegate, c.LogOutput = name, "127.0.0.1", 0, n, io.Discard
	var list *memberlist.Memberlist
	n.queue = &memberlist.TransmitLimitedQueue{NumNodes: func() int { return 2 }, RetransmitMult: 2}
	list, err := memberlist.Create(c)
	if err != nil {
		panic(err)
	}
	return list, n
}

func main() {
	a, from := start("a")
	b, to := start("b")
	if _, err := b.Join([]string{a.LocalNode().Address()}); err != nil {
		panic(err)
	}
	from.queue.QueueBroadcast(message(make([]byte, 2000)))
	from.queue.QueueBroadcast(message(make([]byte, 1000)))
	fmt.Println("arrived:", <-to.got)
	for from.queue.NumQueued() > 1 { // the small one is sent a few times
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(2 * time.Second) // twenty intervals of gossip
	for len(to.got) > 0 {
		if n := <-to.got; n != 1000 {
			fmt.Println("arrived:", n)
		}
	}
	fmt.Println("queued:", from.queue.NumQueued())
}
M
GOFLAGS=-mod=mod GOWORK=off go run . >seen
cat seen
[ "$(cat seen)" = "arrived: 1000
queued: 1" ]
