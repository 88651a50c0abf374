package environment

import (
	"bufio"
	"strings"
	"testing"
)

// What a box tells of its files is not trusted.
func TestReadEvents(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n{\"name\":\"a/b\",\"kind\":\"create\"}\n": "began, create a/b",
		"{}\n{\"name\":\"../b\",\"kind\":\"write\"}\n": "began, the box tells of its files in another way",
		"{}\n{\"name\":\"/b\",\"kind\":\"write\"}\n":   "began, the box tells of its files in another way",
		"{}\nx\n": "began, the box tells of its files in another way",
		"{\"name\":\"" + strings.Repeat("x", maxWatchLine) + "\",\"kind\":\"w\"}": "a line is too long",
	} {
		var got []string
		began := func() error { got = append(got, "began"); return nil }
		tell := func(name, kind string) error { got = append(got, kind+" "+name); return nil }
		if err := readEvents(bufio.NewReader(strings.NewReader(text)), began, tell); err != nil {
			got = append(got, err.Error())
		}
		if !strings.HasPrefix(strings.Join(got, ", "), want) {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}
