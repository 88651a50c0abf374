package host

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
	"agentbox/tools/suites/placetest"
)

// repository makes a checkout with one commit on main.
func repository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	dir := t.TempDir()
	for _, args := range []string{"init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m one", "branch other"} {
		cmd := exec.Command("git", strings.Fields(args)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	return dir
}

func TestPruneRemovesOnlyUnneeded(t *testing.T) {
	h := newHome(t)
	repo := repository(t)
	add := func(name, dir, branch string, change func(*record)) {
		rec := newTestRecord(name)
		rec.Box.Directory, rec.Box.Branch, rec.Box.Commit, rec.Box.Template = dir, branch, strings.Repeat("0", 40), "used-by-"+name
		if change != nil {
			change(&rec)
		}
		write(t, h, rec)
		touch(t, h.Template(rec.Box.Template)+"/memory")
	}
	add("present", repo, "main", nil)
	add("elsewhere", repo, "other", nil)
	add("merged", repo, "deleted", nil)
	add("project", repo, "deleted", func(r *record) { r.Box.Lifetime = agentbox.LifetimeProject })
	add("unborn", repo, "deleted", func(r *record) { r.Box.Commit = "" })
	add("detached", repo, strings.Repeat("0", 12), func(r *record) { r.Detached = true })
	add("nowhere", repo+"/gone", "main", nil)
	touch(t, h.Template("unused")+"/memory")
	m := manage(t, h)
	touch(t, h.Template(".build-now")+"/memory") // somebody builds one right now

	req := api.PruneRequest{Boxes: true}
	prune := func(dry bool) []string {
		t.Helper()
		req.DryRun = dry
		resp, err := m.Pruner.Prune(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, i := range resp.Items {
			if i.Reason == "" {
				t.Errorf("%+v goes for no reason", i)
			}
			out = append(out, fmt.Sprint(i.Kind, " ", i.Name))
		}
		slices.Sort(out)
		return out
	}
	old, kept := agentbox.NewBoxID(), agentbox.NewBoxID()
	for _, id := range []agentbox.BoxID{old, kept} {
		if err := os.MkdirAll(h.Audit(id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-60 * 24 * time.Hour)
	if err := os.Chtimes(h.Audit(old), long, long); err != nil {
		t.Fatal(err)
	}
	want := []string{"audit " + old.String(), "box merged", "box nowhere", "template unused"}
	if got := prune(true); !slices.Equal(got, want) {
		t.Errorf("would go: %v, want %v", got, want)
	}
	if boxes, _, _ := m.Count(); boxes != 7 || !exists(h.Template("unused")) {
		t.Errorf("a dry run left %d boxes", boxes)
	}
	// What is in a box may be nowhere else, so boxes go on demand only.
	req.Boxes = false
	if got := prune(true); !slices.Equal(got, []string{want[0], want[3]}) {
		t.Errorf("without boxes: %v", got)
	}
	req.Boxes = true
	// The templates of the boxes that go are needed no more.
	want = append(want, "template "+place.ShortKey("used-by-merged"), "template "+place.ShortKey("used-by-nowhere"))
	if got := prune(false); !slices.Equal(got, want) {
		t.Errorf("went: %v, want %v", got, want)
	}
	if got := prune(false); len(got) != 0 {
		t.Errorf("went the second time: %v", got)
	}
	for _, name := range []string{"present", "elsewhere", "project", "unborn", "detached"} {
		if _, err := m.Show(t.Context(), api.BoxRef{Box: name}, nil); err != nil || !exists(h.Template("used-by-"+name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !exists(h.Template(".build-now")) {
		t.Error("a template that is being built is gone")
	}
}

// A box may be started between the moment at which it was found idle and the one at which it would
// go.
func TestPruneKeepsRestartedBox(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	names := write(t, h, rec)
	boxes, b := newTable(h), &box{rec: rec}
	boxes.put(b)
	fake := &placetest.Fake{Dir: t.TempDir()}
	m := &Manager{home: h, maker: &maker{home: h, boxes: boxes, disk: diskOf(h, fake)}}
	idle := prunableBoxes{boxes, m.removeIdle}.Idle()
	if len(idle) != 1 {
		t.Fatalf("%d idle", len(idle))
	}
	b.live = live(t, rec)
	if err := idle[0].Remove(t.Context(), nil); agentbox.CodeOf(err) != agentbox.Conflict || !exists(names.Record()) {
		t.Errorf("%v", err)
	}
	b.live = nil
	if err := idle[0].Remove(t.Context(), nil); err != nil || exists(names.Record()) {
		t.Errorf("%v", err)
	}
}

// A record that another version wrote, or that is damaged, hides its box: whoever looks for it is
// told.
func TestUnreadableBoxIsReported(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("later")
	rec.Box.Template = "used"
	names := write(t, h, rec)
	touch(t, h.Template("used")+"/memory", names.Dir+"/workspace-1/work")
	if err := os.WriteFile(names.Record(), []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m := manage(t, h)
	output := ""
	if _, err := m.List(t.Context(), api.ListRequest{}, func(e agentbox.Event) { output += e.Detail }); err != nil || !strings.Contains(output, rec.Box.ID.String()) {
		t.Errorf("ls says %q, %v", output, err)
	}
	_, err := m.Pruner.Prune(t.Context(), api.PruneRequest{}, nil)
	if agentbox.CodeOf(err) != agentbox.Corrupt || !strings.Contains(err.Error(), rec.Box.ID.String()) || !exists(h.Template("used")) {
		t.Errorf("prune: %v", err)
	}
	if !exists(names.Dir + "/workspace-1/work") {
		t.Error("its workspace is gone")
	}
}
