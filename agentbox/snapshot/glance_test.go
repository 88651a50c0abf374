package snapshot

import (
	"os/exec"
	"strings"
	"testing"
)

func TestAtAGlance(t *testing.T) {
	isolateGit(t)
	for _, c := range []struct {
		box  string
		same bool
	}{
		{`true`, true}, {`touch a.txt`, true}, {`echo x >x.o`, true}, {`git checkout -q old`, false}, {`git branch another`, true},
		{`echo x >>a.txt`, false}, {`echo x >x`, false}, {`chmod +x a.txt`, false}, {`git rm -q --cached a.txt`, true},
		{`git commit -q --allow-empty -m x`, false}, {`echo x >>a.txt; git stash -q`, false},
		{`git commit -q --allow-empty -m y; git branch b; git reset -q --hard HEAD~1`, false}, {`rm -rf .git`, false}, {`: >.git/index`, false},
	} {
		w := newWorld(t, `base; cd ../repo; git branch old HEAD~1; git commit -q --allow-empty -m x; git branch unmerged; git reset -q --hard HEAD~1; rm -rf ../box; cp -a . ../box`)
		cmd := exec.Command("sh", "-ec", c.box)
		cmd.Dir = w.box
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		req := w.request()
		req.Glance = true
		kept, err := Keep(t.Context(), here{}, req)
		if err != nil || kept.Nothing() != c.same {
			t.Errorf("%s: %+v, %v", c.box, kept, err)
		}
	}
}

func FuzzReadGlance(f *testing.F) {
	base := strings.Repeat("a", 40)
	f.Add("# branch.oid " + base + "\n# branch.head main\nrefs\n" + base + " refs/heads/main\nend\n")
	f.Add("? x\nrefs\nend\n")
	f.Fuzz(func(t *testing.T, s string) {
		others, clean := readGlance(s, base)
		if clean && (!strings.Contains(s, "# branch.oid "+base) || !strings.Contains(s, "end")) {
			t.Errorf("%q", s)
		}
		for _, id := range others {
			if len(id) != 40 || strings.Trim(id, "0123456789abcdef") != "" {
				t.Errorf("%q", id)
			}
		}
	})
}
