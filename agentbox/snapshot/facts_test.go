package snapshot

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func FuzzReadFacts(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add([]byte("format sha1\nhead " + id + "\ntop " + id + "\nfiles 3\nalso " + id + " refs/heads/x\nmissing \x1b[2J\npack\nPACK"))
	f.Add([]byte("failed no git\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readFacts(bufio.NewReader(bytes.NewReader(data)))
		if err != nil || got.failed != "" {
			return
		}
		for _, b := range append(got.also, Branch{Commit: got.top}) {
			if len(b.Commit) != 40 && len(b.Commit) != 64 || strings.Trim(b.Commit, "0123456789abcdef") != "" || strings.ContainsRune(b.Name, '\x1b') {
				t.Errorf("%+v", b)
			}
		}
		if strings.ContainsRune(strings.Join(got.missing, ""), '\x1b') {
			t.Errorf("%q", got.missing)
		}
	})
}
