package job

import (
	"bytes"
	"strings"
	"testing"
)

// What a CastWriter records reads back as it was written, characters that come in pieces included, up to its
// bound.
func TestCastWriter(t *testing.T) {
	var file, text bytes.Buffer
	c := NewCastWriter(&file, []string{"make"}, 16)
	for _, part := range []string{"a\nb\xc3", "\xa4\n", "\xff\n", strings.Repeat("x", 20), "end\n"} {
		if n, err := c.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%q: %d, %v", part, n, err)
		}
	}
	if err := WriteCastText(&text, &file); err != nil || text.String() != "a\nbä\n\uFFFD\nend\n" {
		t.Errorf("%q, %v", text.String(), err)
	}
	if c.Omitted() != 20 {
		t.Errorf("%d omitted", c.Omitted())
	}
}
