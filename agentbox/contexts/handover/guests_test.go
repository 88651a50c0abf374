package handover

import (
	"strings"
	"testing"
)

// What a box of another machine is called here goes into command lines, whoever named it.
func TestNameThere(t *testing.T) {
	for _, c := range [][4]string{
		{"app-main", "0123456789ab", "one", "app-main.one"},
		{"claude", "t-01020304", "one", "t-01020304.one"},
		{"-oProxyCommand=x", "0123456789ab", "one", "0123456789ab.one"},
		{"a b", "0123456789ab", "one", "0123456789ab.one"},
		{"-x", "-y", "one", ""},
		{"app", "0123456789ab", "Ana's machine", ""},
	} {
		if got := nameThere(c[0], c[1], c[2]); got != c[3] || strings.HasPrefix(got, "-") {
			t.Errorf("%q of %q: %q", c[0], c[2], got)
		}
	}
}
