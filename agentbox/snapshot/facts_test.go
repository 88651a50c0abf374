package snapshot

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func FuzzReadFacts(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add([]byte("format sha1\ntree " + id + " " + id + " 3 refs/heads/x .\nref " + id + " refs/heads/\x1b \x1b\nrepository .\ncommit " + id + " t\nmissing \x1b[2J\nraw \x1b \x1b\nready\npack\nPACK"))
	f.Add([]byte("format sha1\ntree " + id + " - 3 HEAD .\ntree " + id + " - 1 HEAD /tmp/x\nchange 100644 x \"y\"\nstays shallow sub\nready\n"))
	f.Add([]byte("failed no git\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readFacts(bufio.NewReader(bytes.NewReader(data)))
		if err != nil || got.failed != "" {
			return
		}
		for _, b := range append(got.beside(), branch(got.trees[0].top, "x", ".")) {
			if len(b.Commit) != 40 && len(b.Commit) != 64 || strings.Trim(b.Commit, "0123456789abcdef") != "" || strings.ContainsRune(b.String(), '\x1b') {
				t.Errorf("%+v", b)
			}
		}
		got.leave(false)
		if strings.ContainsRune(strings.Join(append(got.missing, got.raw...), ""), '\x1b') {
			t.Errorf("%q", got.missing)
		}
	})
}
