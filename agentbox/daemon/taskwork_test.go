package daemon

import (
	"bufio"
	"os/exec"
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

// Who goes on commits as whoever began.
func TestCopyAuthor(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to} {
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := exec.Command("git", "-C", from, "config", "user.email", "a@b.example").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := copyAuthor(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "-C", to, "config", "--local", "user.email").Output(); err != nil || string(out) != "a@b.example\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := exec.Command("git", "-C", to, "config", "--local", "user.name").Output(); err == nil {
		t.Errorf("a name that nobody has: %q", out)
	}
}
