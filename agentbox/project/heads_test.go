package project

import (
	"reflect"
	"strings"
	"testing"
)

var a, b, c = strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)

func TestParseHeads(t *testing.T) {
	got, err := ParseHeads("ref: refs/heads/main\tHEAD\n" + a + "\tHEAD\n" + a + "\trefs/heads/main\n" + b + "\trefs/heads/fix/login-1\n" +
		b + "\trefs/heads/-x\n" + b + "\trefs/heads/a/-x\n" + b + "\trefs/heads/a..b\n" + b + "\trefs/heads/x.lock\nzz\trefs/heads/y\n" + b + "\trefs/tags/v1\n" + b + "\trefs/heads/a\x1bb\nrubbish\n")
	want := Heads{"main", map[string]string{"main": a, "fix/login-1": b}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHeadsSince(t *testing.T) {
	h := Heads{"main", map[string]string{"main": c, "zeta": a, "new": b, "merged": c, "old": c, "same": b}}
	known := map[string]string{"main": a, "zeta": b, "merged": a, "same": b, "deleted": a}
	prepare, gone := h.Since(known, map[string]bool{c: true})
	if !reflect.DeepEqual(prepare, []string{"main", "new", "zeta"}) || !reflect.DeepEqual(gone, []string{"merged", "deleted"}) {
		t.Errorf("%v, %v", prepare, gone)
	}
	if prepare, gone = h.Since(h.Branches, nil); prepare != nil || gone != nil {
		t.Errorf("nothing has changed: %v, %v", prepare, gone)
	}
}

func FuzzHeads(f *testing.F) {
	f.Add("ref: refs/heads/main\tHEAD\n" + strings.Repeat("a", 40) + "\trefs/heads/main\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHeads(text)
		for name, commit := range h.Branches {
			if strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n:^~?*[\\\x00\x1b") || len(commit) != 40 && len(commit) != 64 {
				t.Errorf("%q %q", name, commit)
			}
		}
		if prepare, _ := h.Since(nil, nil); err == nil && len(prepare) != len(h.Branches) {
			t.Errorf("%v of %v", prepare, h.Branches)
		}
	})
}
