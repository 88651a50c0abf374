package git

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// tablesDir has reftables that git 2.55 wrote, with what `git for-each-ref` and `git reflog` said:
// of a small repository, of one with SHA-256, and of one whose refs fill several blocks.
const tablesDir = "testdata/reftable"

// reflogDate matches a selector such as main@{1700000000 -0330} in git's answer.
var reflogDate = agentbox.Pattern(`\S+@\{([^}]*)\}`)

func TestReftablesAreReadAsGitReadsThem(t *testing.T) {
	for _, name := range []string{"small", "sha256", "many"} {
		t.Run(name, func(t *testing.T) {
			refs, err := ReadReftables(filepath.Join(tablesDir, name))
			if err != nil {
				t.Fatal(err)
			}
			same(t, refs.described(), lines(t, name+".refs"))
			want := lines(t, name+".logs")
			for i := range want {
				want[i] = reflogDate().ReplaceAllString(want[i], "$1")
			}
			same(t, refs.entries(), want)
		})
	}
}

// described returns refs as for-each-ref shows them. A symbolic ref has the object of its target.
func (r Refs) described() (out []string) {
	for name, object := range r.Objects {
		out = append(out, name+" "+object)
	}
	for name, target := range r.Symbolic {
		out = append(out, name+" "+r.Objects[target]+" "+target)
	}
	return out
}

// entries returns the entries of reflogs without what git's answer has in no plain form: the
// commit before.
func (r Refs) entries() (out []string) {
	for name, entries := range r.Logs {
		for _, line := range entries {
			_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			out = append(out, name+" "+strings.Replace(rest, "\t", " ", 1))
		}
	}
	return out
}

func lines(t *testing.T, name string) (out []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(tablesDir, name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		out = append(out, strings.TrimRight(line, "\n"))
	}
	return out
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	for _, list := range [][]string{got, want} {
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		sort.Strings(list)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A reflog's lines are in order, each continues the one before it, and deleted refs are gone.
func TestReftableLogs(t *testing.T) {
	refs, err := ReadReftables(filepath.Join(tablesDir, "small"))
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Repeat("0", 40)
	for _, line := range refs.Logs["refs/heads/main"] {
		var from, to string
		if fmt.Sscan(line, &from, &to); from != before {
			t.Errorf("%q does not follow %s", line, before)
		}
		before = to
	}
	if before != refs.Objects["refs/heads/main"] || refs.Objects["refs/heads/gone"] != "" {
		t.Errorf("main is %s at the end of its reflog", before)
	}
}

func TestStackThatLeadsElsewhere(t *testing.T) {
	for _, list := range []string{"../x.ref\n", "/etc/passwd\n", "x\n", ".ref\n", "a/b.ref\n", "\x00.ref\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tables.list"), []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadReftables(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// Names that share their beginning take three bytes each in the file, and all of it in memory.
func TestReftableThatGrows(t *testing.T) {
	name := strings.Repeat("a", 8000)
	records := append([]byte{0}, varint(uint64(len(name))<<3)...)
	records = append(append(records, name...), 0)
	again := append(append(varint(uint64(len(name))), 0), 0)
	for range 200_000 {
		records = append(records, again...)
	}
	block := append(records, 0, 0)
	end := 24 + 4 + len(block)
	file := append([]byte("REFT\x01\x00\x00\x00"), make([]byte, 16)...)
	file = append(append(file, 'r', byte(end>>16), byte(end>>8), byte(end)), block...)
	left := 64 << 20
	if _, err := parseReftable(append(file, make([]byte, 68)...), &left); err == nil || left >= 0 {
		t.Errorf("%v, with %d bytes left", err, left)
	}
}

// varint is what cursor.varint reads.
func varint(n uint64) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{0x80 | byte(n&0x7f)}, out...)
	}
	return out
}

func FuzzReftable(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(tablesDir, "*", "*.ref"))
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		left := 1 << 20
		table, err := parseReftable(data, &left)
		if err != nil {
			return
		}
		refs := merge([]reftable{table, table})
		for name, entries := range refs.Logs {
			for _, line := range entries {
				if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
					t.Errorf("%q has the entry %q", name, line)
				}
			}
		}
	})
}
