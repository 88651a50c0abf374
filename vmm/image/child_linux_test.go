package image

import (
	"slices"
	"testing"
)

func TestParseMounts(t *testing.T) {
	const table = `22 27 0:21 / /proc rw,relatime - proc proc rw
43 27 0:27 / /tmp/a\040b/x/dev/shm rw,relatime - tmpfs tmpfs rw
44 27 0:27 / /tmp/a\040bc rw - tmpfs tmpfs rw
45 27 0:27 / /tmp/a\040b rw - tmpfs tmpfs rw
short line
`
	if got, want := parseMounts(table, "/tmp/a b"), []string{"/tmp/a b/x/dev/shm", "/tmp/a b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := parseMounts(table, "/tmp/none"); got != nil {
		t.Errorf("got %q", got)
	}
}
