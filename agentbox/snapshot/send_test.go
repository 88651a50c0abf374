package snapshot

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// sentWork is a box's work as another machine sends it, and a checkout here that has the box's base.
func sentWork(t *testing.T) (kept Kept, pack []byte, here workspace.Repo, mirror string) {
	t.Helper()
	isolateGit(t)
	w := newWorld(t, `base; echo three >>a.txt; git commit -qam third; git branch side; git checkout -q side; echo s >s; git add s; git commit -qm side; git checkout -q main; echo new >new.txt
git clone -q ../repo ../here`)
	req := w.request()
	req.ExportTo = ""
	kept, err := Keep(t.Context(), localGuest{}, req)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Send(t.Context(), kept, &out); err != nil {
		t.Fatal(err)
	}
	here, err = workspace.Describe(t.Context(), filepath.Join(w.dir, "here"))
	if err != nil {
		t.Fatal(err)
	}
	return Kept{Commit: kept.Commit, Base: kept.Base, OtherRefs: kept.OtherRefs}, out.Bytes(), here, filepath.Join(w.dir, "other", "p.git")
}

func TestWorkOfAnotherMachine(t *testing.T) {
	kept, pack, here, mirror := sentWork(t)
	kept, err := Receive(t.Context(), mirror, here, kept, bytes.NewReader(pack))
	if err != nil {
		t.Fatal(err)
	}
	branch, others, err := Pull(t.Context(), kept, here, "", "far", PulledRef("far"))
	if err != nil || branch != "agentbox/far" || len(others) != 1 {
		t.Fatalf("%q, %v, %v", branch, others, err)
	}
	for ref, want := range map[string]string{branch + ":new.txt": "new", branch + ":a.txt": "one\ntwo\nthree", others[0].Branch + ":s": "s"} {
		if got := gitOut(t, here.Root, "show", ref); got != want {
			t.Errorf("%s: %q", ref, got)
		}
	}
}

func TestWorkOfAnotherMachineIsChecked(t *testing.T) {
	kept, pack, here, mirror := sentWork(t)
	none := strings.Repeat("1", 40)
	for what, c := range map[string]struct {
		change func(*Kept)
		pack   []byte
		code   agentbox.Code
	}{
		"a commit that is no name":   {func(k *Kept) { k.Commit = "--upload-pack=touch x" }, pack, agentbox.Corrupt},
		"a branch that is no name":   {func(k *Kept) { k.OtherRefs = []Branch{{OtherWork: agentbox.OtherWork{Commit: "HEAD"}}} }, pack, agentbox.Corrupt},
		"a commit that did not come": {func(k *Kept) { k.Commit = none }, pack, agentbox.Corrupt},
		"a base that is not here":    {func(k *Kept) { k.Base = none }, pack, agentbox.Conflict},
		"a base of another length":   {func(k *Kept) { k.Base = none + "0" }, pack, agentbox.Corrupt},
		"a pack that is cut short":   {func(*Kept) {}, pack[:len(pack)-30], agentbox.Corrupt},
		"no pack":                    {func(*Kept) {}, []byte("PACK"), agentbox.Corrupt},
	} {
		bad := kept
		c.change(&bad)
		if _, err := Receive(t.Context(), mirror, here, bad, bytes.NewReader(c.pack)); agentbox.CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	if refs := gitOut(t, here.Root, "for-each-ref", "refs/heads/agentbox"); refs != "" {
		t.Error(refs)
	}
}
