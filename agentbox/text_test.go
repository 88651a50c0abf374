package agentbox

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClipKeepsRunesWhole(t *testing.T) {
	for n := range 5 {
		text := strings.Repeat("a", n) + strings.Repeat("\u20ac", 40)
		got := Clip(text)
		if kept := strings.TrimSuffix(got, "…"); !utf8.ValidString(got) || kept == got || !strings.HasPrefix(text, kept) || len(kept) < 78 || len(kept) > 80 {
			t.Errorf("%d: %q", n, got)
		}
	}
	if short := strings.Repeat("a", 80); Clip(short) != short {
		t.Error("a text of 80 bytes was cut")
	}
}

func TestPluralOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 boxes", 1: "1 box", 2: "2 boxes"} {
		if got := PluralOf(n, "box", "boxes"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Plural(1, "file") + ", " + Plural(2, "file"); got != "1 file, 2 files" {
		t.Error(got)
	}
}
