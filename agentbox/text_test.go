package agentbox

import "testing"

func TestOneOfAThingIsNotMany(t *testing.T) {
	for n, want := range map[int]string{0: "0 boxes", 1: "1 box", 2: "2 boxes"} {
		if got := PluralOf(n, "box", "boxes"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Plural(1, "file") + ", " + Plural(2, "file"); got != "1 file, 2 files" {
		t.Error(got)
	}
}
