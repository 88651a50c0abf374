package module

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	expsys "github.com/tetratelabs/wazero/experimental/sys"
)

const id = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

func TestParseTree(t *testing.T) {
	for listing, want := range map[string]string{
		"100644 blob " + id + "       0\ta b/c\x00160000 commit " + id + "       -\tsub\x00": "",
		"":                          "",
		"100644 blob x":             "unexpected EOF",
		"100644 blob x\x00":         "malformed",
		"100644 blob x 1 1\ta\x00":  "malformed",
		"100644 blob x 1\t../a\x00": "impossible name",
		"100644 blob x 1\t/a\x00":   "malformed",
		"100644 blob x 1\ta/\x00":   "impossible name",
		"100644 blob x 1\t\x00":     "impossible name",
		"100644 blob x 1\ta\x00100644 blob x 1\ta\x00":      "impossible name",
		"100644 blob x 1\ta\x00100644 blob x 1\ta/b\x00":    "a file in place of a directory",
		"100644 blob x 1\t" + strings.Repeat("a/", maxPath): "longer than",
	} {
		if _, err := ParseTree(strings.NewReader(listing)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", listing, err, want)
		}
	}
}

// What git answers is not trusted either.
func TestAnswersOfGit(t *testing.T) {
	for answer, want := range map[string]string{
		id + " blob 2\nhi\n":     "hi",
		id + " blob 3\nhi\n":     "",
		id + " missing\n":        "",
		id + " tree 2\nhi\n":     "",
		id + " blob 2\nh":        "",
		strings.Repeat("x", 999): "",
	} {
		got, err := Blobs{Ask: io.Discard, In: bufio.NewReader(strings.NewReader(answer))}.read(id, 2)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%.60q: %q, %v; want %q", answer, got, err, want)
		}
	}
	if _, err := (Blobs{}).read(id, maxFile+1); err == nil {
		t.Error("a file that is too large was read")
	}
}

// No listing, and no target of a link, leads to a failure other than an error or out of the tree.
func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 blob x 1\ta/b\x00120000 blob x 5\tl\x00160000 commit x -\td/s\x00"), "../..")
	f.Add([]byte("120000 blob x 1\tl\x00"), "l")
	f.Fuzz(func(t *testing.T, listing []byte, target string) {
		tree, err := ParseTree(bytes.NewReader(listing))
		if err != nil {
			return
		}
		var check func(dir string, n *node)
		check = func(dir string, n *node) {
			for _, name := range n.names {
				child := n.children[name]
				if child.mode&fs.ModeSymlink != 0 {
					child.size = int64(len(target))
					tree.blobs = Blobs{Ask: io.Discard, In: bufio.NewReader(strings.NewReader(fmt.Sprintf("%s blob %d\n%s\n", child.blob, child.size, target)))}
				}
				file, errno := tree.OpenFile(dir+name, expsys.O_RDONLY, 0)
				if errno == 0 {
					_, _ = file.Readdir(-1)
					file.Close()
				}
				check(dir+name+"/", child)
			}
		}
		check("", tree.root)
		if tree.open != 0 {
			t.Errorf("%d files stay open", tree.open)
		}
	})
}
