package daemon

import (
	"bufio"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// What another machine says of work is no more than JSON of one line.
func FuzzSentWork(f *testing.F) {
	f.Add("{\"name\":\"far\",\"commit\":\"00\"}\nPACK")
	f.Add("PACK\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := readLine[api.PulledWork](bufio.NewReader(strings.NewReader(text))); err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Error(err)
		}
	})
}
