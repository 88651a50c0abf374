#!/bin/sh
# github.com/dgraph-io/badger/v4 v4.9.6, Go 1.26
#
# Expected of Entry.WithTTL(d), which takes a time.Duration: the entry can be read for d after it was written.
# Seen: the end is kept in whole seconds, cut off, and an entry has expired in the second it names. One
# written with a TTL of two seconds, 0.9 s after a full second, is gone 1.1 s later; one with a TTL of 500 ms
# is gone at once if no full second lies between, for its own transaction, too. So an entry lives up
# to a second less than its TTL, and leases, locks and caches of some seconds kept this way end early; a TTL
# below a second is worth nothing.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/ttl

go 1.26

require github.com/dgraph-io/badger/v4 v4.9.6
M
cat >main.go <<'M'
package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

func main() {
	db, err := badger.Open(badger.DefaultOptions("").WithInMemory(true).WithLoggingLevel(badger.ERROR))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	// until waits for a moment this far into a second.
	until := func(d time.Duration) {
		now := time.Now()
		at := now.Truncate(time.Second).Add(d)
		if at.Before(now) {
			at = at.Add(time.Second)
		}
		time.Sleep(time.Until(at))
	}
	write := func(ttl time.Duration) {
		if err := db.Update(func(txn *badger.Txn) error {
			return txn.SetEntry(badger.NewEntry([]byte("key"), []byte("value")).WithTTL(ttl))
		}); err != nil {
			panic(err)
		}
	}
	read := func(what string, since time.Time) {
		err := db.View(func(txn *badger.Txn) error { _, err := txn.Get([]byte("key")); return err })
		if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
			panic(err)
		}
		fmt.Printf("%s: there %v, %v\n", what, err == nil, time.Since(since).Truncate(100*time.Millisecond))
	}
	until(900 * time.Millisecond)
	begun := time.Now()
	write(2 * time.Second)
	read("TTL 2s, at once", begun)
	until(0)
	until(100 * time.Millisecond)
	time.Sleep(time.Second - 100*time.Millisecond)
	read("TTL 2s, later", begun)
	until(100 * time.Millisecond)
	begun = time.Now()
	write(500 * time.Millisecond)
	read("TTL 500ms, at once", begun)
}
M
GOFLAGS=-mod=mod GOWORK=off go run . >seen
cat seen
[ "$(cat seen)" = "TTL 2s, at once: there true, 0s
TTL 2s, later: there false, 1.1s
TTL 500ms, at once: there false, 0s" ]
