package tasks

import (
	"bufio"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// What another machine says of work is no more than JSON of one line.
func FuzzSentWork(f *testing.F) {
	f.Add("{\"name\":\"far\",\"commit\":\"00\"}\nPACK")
	f.Add("PACK\n")
	f.Add("{\"box\":\"aa0000000001\",\"name\":\"a\\u001bb\",\"other_work\":[{\"name\":\"\\u001b[2J\",\"commit\":\"00\"}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		out, err := readWork(bufio.NewReader(strings.NewReader(text)))
		if err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Error(err)
		}
		for _, o := range out.OtherWork {
			if err == nil && agentbox.Printable(o.Name+o.Path+out.Name) != o.Name+o.Path+out.Name {
				t.Errorf("%q", o)
			}
		}
	})
}
