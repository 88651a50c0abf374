package workspace

import "testing"

// Names go to git and come from it in this form.
func FuzzQuotePath(f *testing.F) {
	for _, s := range []string{"a", "a b", "new\nline", "latin\351", `q"uote\`, "\x00\x1f\x7f\xff", `"a\`, `\342`, `"\q"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		unquotePath(s)
		if got := unquotePath(quotePath(s)); got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestUnquotePath(t *testing.T) {
	for in, want := range map[string]string{`a`: "a", `"a\tb"`: "a\tb", `"\303\244"`: "\303\244", `"q\"\\"`: `q"\`, `"new\nline"`: "new\nline", `"bad\`: `"bad\`, `"\a\b\f\v\r"`: "\a\b\f\v\r"} {
		if got := unquotePath(in); got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}
