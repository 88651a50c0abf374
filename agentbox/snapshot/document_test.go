package snapshot

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// documentOf snapshots a box.
func documentOf(t *testing.T, w world) (Document, agentbox.Digest) {
	t.Helper()
	req := w.request()
	req.Rest, req.All, req.Ref, req.ExportTo, req.Artifacts = true, true, SnapshotOf(agentbox.BoxID{1}), "", []string{"out/**"}
	kept, err := Keep(t.Context(), localGuest{}, req)
	if err != nil {
		t.Fatal(err)
	}
	d, id, err := NewDocument(t.Context(), kept, "https://example.com/app.git")
	if err != nil {
		t.Fatal(err)
	}
	return d, id
}

// A snapshot that another machine takes from packs is the same workspace there, whether or not it
// has the history already; and the same workspace is the same snapshot.
func TestSnapshotTravels(t *testing.T) {
	isolateGit(t)
	for name, script := range map[string]string{
		"changes":   `base; echo s >>a.txt; git add a.txt; echo u >>a.txt; echo n >n; git commit -qm c n || git add n && git commit -qm c; echo m >m; chmod 600 m`,
		"shallow":   `base; for i in 1 2 3; do echo $i >a.txt; git commit -qam $i; done; cd ..; rm -rf repo; git clone -q --depth 1 "file://$PWD/box" repo; rm -rf box; cp -a repo box; git -C box rev-parse HEAD >base; cd box; ident; echo s >s`,
		"no commit": `git init -q repo; cd repo; ident; cd ..; cp -a repo box; : >base; cd box; echo a >a`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, script)
			d, id := documentOf(t, w)
			if _, again := documentOf(t, w); again != id {
				t.Errorf("the same workspace is %s and %s", id, again)
			}
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseDocument(text)
			if err != nil {
				t.Fatal(err)
			}
			there := filepath.Join(w.dir, "there", "p.git")
			history, work, err := got.Lacks(t.Context(), there)
			if err != nil || !work || history != (d.Base != "") {
				t.Fatalf("it lacks %v %v: %v", history, work, err)
			}
			var packs [2]bytes.Buffer
			if d.Base != "" {
				if err := d.WriteHistory(t.Context(), w.mirror, &packs[0]); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.WriteWork(t.Context(), w.mirror, &packs[1]); err != nil {
				t.Fatal(err)
			}
			if name == "changes" && packs[1].Len() > 16<<10 {
				t.Errorf("a small change has %d bytes", packs[1].Len())
			}
			// Without the history it is refused, and nothing is left that names what is missing.
			if d.Base != "" && got.Receive(t.Context(), there, nil, bytes.NewReader(packs[1].Bytes())) == nil {
				t.Error("it was taken without its history")
			}
			first := &packs[0]
			if d.Base == "" {
				first = nil
			}
			if first != nil {
				err = got.Receive(t.Context(), there, first, bytes.NewReader(packs[1].Bytes()))
			} else {
				err = got.Receive(t.Context(), there, nil, &packs[1])
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := Checkout(t.Context(), got.Kept(there), got.Branch, filepath.Join(w.dir, "made"), ""); err != nil {
				t.Fatal(err)
			}
			same := exec.Command("bash", "-c", `diff -r --no-dereference -x .git box made && diff <(cd box; git status --porcelain=v2 -uall; find . -name .git -prune -o -type f -printf '%m %p\n' | sort) <(cd made; git status --porcelain=v2 -uall; find . -name .git -prune -o -type f -printf '%m %p\n' | sort)`)
			same.Dir = w.dir
			if out, err := same.CombinedOutput(); err != nil {
				t.Errorf("it differs: %s", out)
			}
			if err := d.Drop(t.Context(), w.mirror, id); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Few objects that come as something that can be read again become files, also what only index-pack takes.
func TestFewObjectsBecomeFiles(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, "base; echo more >>a.txt")
	d, _ := documentOf(t, w)
	there, known := filepath.Join(w.dir, "there", "p.git"), mirror{d.Kept(w.mirror).Mirror}
	tree := gitOut(t, w.box, "rev-parse", "HEAD^{tree}")
	odd, err := known.git(t.Context(), strings.NewReader("tree "+tree+"\nauthor <a@b> 1 +0000\ncommitter <a@b> 1 +0000\n\nodd\n"), "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		whole, packs string
	}{{d.Whole, "1"}, {strings.TrimSpace(odd), "2"}} {
		next := Document{Version: 1, Project: "p", Base: d.Base, Head: d.Base, Whole: one.whole}
		var history io.Reader
		if one.whole == d.Whole {
			var b bytes.Buffer
			if err := d.WriteHistory(t.Context(), w.mirror, &b); err != nil {
				t.Fatal(err)
			}
			history = &b
		}
		var work bytes.Buffer
		err := next.WriteWork(t.Context(), w.mirror, &work)
		if err == nil {
			err = next.Receive(t.Context(), there, history, bytes.NewReader(work.Bytes()))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := gitOut(t, there, "count-objects", "-v"); strings.HasPrefix(got, "count: 0") || !strings.Contains(got, "\npacks: "+one.packs+"\n") {
			t.Errorf("%.12s: %s", one.whole, got)
		}
	}
}

// The value of a secret in a file, a commit that a later one changed, or an ignored artifact is found.
func TestSnapshotWithASecret(t *testing.T) {
	isolateGit(t)
	for want, script := range map[string]string{
		`"deep/new"`: `base; mkdir deep; echo key=hunter2hunter2 >deep/new`,
		`"a.txt"`:    `base; echo hunter2hunter2 >a.txt; git commit -qam oops; echo gone >a.txt; git commit -qam later`,
		`"out/log"`:  `base; echo out >.gitignore; mkdir out; (head -c 1048570 /dev/zero; echo hunter2hunter2) >out/log`,
		"":           `base; echo hunter >a.txt`,
	} {
		w := newWorld(t, script)
		d, _ := documentOf(t, w)
		err := d.FindSecret(t.Context(), w.mirror, map[string]string{"TOKEN": "hunter2hunter2", "SHORT": "hunter"})
		if want == "" && err != nil || want != "" && (agentbox.CodeOf(err) != agentbox.Conflict || !strings.Contains(err.Error(), want+" has the value of the secret TOKEN")) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"version":1,"project":"p","branch":"main","whole":"` + strings.Repeat("a", 40) + `","others":[{"name":"x","path":"sub","commit":"` + strings.Repeat("b", 40) + `"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseDocument(b)
		if err != nil {
			return
		}
		for _, tip := range append(d.tips(), d.Shallow...) {
			if strings.Trim(tip, "0123456789abcdef") != "" {
				t.Errorf("%q", tip)
			}
		}
		if strings.HasPrefix(d.Branch, "-") || strings.ContainsAny(d.Branch, "\n ") {
			t.Errorf("%q", d.Branch)
		}
	})
}

// Who has an earlier commit is sent what came since, whatever it says it has; nothing is taken that does not
// have all of its history.
func TestHistorySinceWhatIsThere(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; head -c 100000 /dev/urandom >big; git add big; git commit -qm big`)
	first, _ := documentOf(t, w)
	run := exec.Command("sh", "-ec", `cd box; git rev-parse HEAD; echo c >c; git add c; git commit -qm c; git rev-parse HEAD`)
	run.Dir = w.dir
	out, err := run.Output()
	ids := strings.Fields(string(out))
	if err != nil || len(ids) != 2 {
		t.Fatalf("%q, %v", out, err)
	}
	documentOf(t, w) // the mirror has both
	earlier, err := Unchanged(first.Project, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	now, err := Unchanged(first.Project, ids[1])
	if err != nil {
		t.Fatal(err)
	}
	pack := func(d Document, there ...string) *bytes.Reader {
		var b bytes.Buffer
		if err := d.WriteHistory(t.Context(), w.mirror, &b, there...); err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(b.Bytes())
	}
	there := filepath.Join(w.dir, "there", "p.git")
	lies := []string{strings.Repeat("0", 40), "--all", "HEAD", "\n" + ids[0], ids[1][:12]}
	if all := pack(now, lies...); all.Len() < 100000 {
		t.Errorf("of those that it has not, %d bytes are left out", 100000-all.Len())
	}
	rest := pack(now, append(lies, ids[0])...)
	if rest.Len() > 2000 {
		t.Errorf("what came since has %d bytes", rest.Len())
	}
	if err := now.ReceiveBase(t.Context(), there, rest); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a history with holes: %v", err)
	}
	tree, err := Unchanged(first.Project, treeOf(t, w, ids[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.ReceiveBase(t.Context(), there, pack(earlier)); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a tree as a commit: %v", err)
	}
	if have, err := now.Bases(t.Context(), there, 10); err != nil || len(have) != 0 {
		t.Errorf("%v is left, %v", have, err)
	}
	rest = pack(now, ids[0])
	for _, step := range []struct {
		d    Document
		pack io.Reader
	}{{earlier, pack(earlier)}, {now, rest}} {
		if err := step.d.ReceiveBase(t.Context(), there, step.pack); err != nil {
			t.Fatal(err)
		}
		if _, lacks, err := step.d.Lacks(t.Context(), there); lacks || err != nil {
			t.Errorf("it lacks %s: %v", step.d.Base, err)
		}
	}
	if have, err := now.Bases(t.Context(), there, 1); err != nil || len(have) != 1 {
		t.Errorf("%v, %v", have, err)
	}
	for _, bad := range [][2]string{{"", ids[0]}, {"app", "HEAD"}, {"a\x1bb", ids[0]}, {"app", "--all"}, {"app", ""}} {
		if _, err := Unchanged(bad[0], bad[1]); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func treeOf(t *testing.T, w world, commit string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", filepath.Join(w.dir, "box"), "rev-parse", commit+"^{tree}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
