package cli

import (
	"strings"
	"testing"

	"agentbox/agentbox"
)

// TestReadSecretValue: a value is stored whole or refused. Half a key would fail much later, and an
// empty answer would leave the old value in the keyring.
func TestReadSecretValue(t *testing.T) {
	for in, want := range map[string]string{
		"key":                           "key",
		"key\r\n":                       "key",
		"two\nlines\n":                  "two\nlines",
		strings.Repeat("x", maxValue):   strings.Repeat("x", maxValue),
		strings.Repeat("x", maxValue+1): "",
		strings.Repeat("x", 2*maxValue): "",
		"":                              "",
		"\n":                            "",
	} {
		got, err := valueOf(strings.NewReader(in), "KEY")
		if got != want || (want == "") != (agentbox.CodeOf(err) == agentbox.Invalid) {
			t.Errorf("%d bytes became %d, %v", len(in), len(got), err)
		}
	}
}
