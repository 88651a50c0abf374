package host

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
)

func TestBoxKey(t *testing.T) {
	here := workspace.Repo{Root: "/a", Branch: "main"}
	for _, c := range []struct {
		lifetime agentbox.Lifetime
		other    workspace.Repo
		same     bool
	}{
		{agentbox.LifetimeBranch, here, true},
		{agentbox.LifetimeBranch, workspace.Repo{Root: "/a", Branch: "main", Commit: "another", Subdir: "x"}, true},
		{agentbox.LifetimeBranch, workspace.Repo{Root: "/a", Branch: "b"}, false},
		{agentbox.LifetimeBranch, workspace.Repo{Root: "/b", Branch: "main"}, false},
		{agentbox.LifetimeBranch, workspace.Repo{Root: "/am", Branch: "ain"}, false},
		{agentbox.LifetimeProject, workspace.Repo{Root: "/a", Branch: "b"}, true},
		{agentbox.LifetimeProject, workspace.Repo{Root: "/b", Branch: "main"}, false},
		{agentbox.LifetimeDeveloper, workspace.Repo{Root: "/b", Branch: "b"}, true},
	} {
		app := project.Project{Name: "example.com/app"}
		if got := boxKey(c.lifetime, here, app) == boxKey(c.lifetime, c.other, app); got != c.same {
			t.Errorf("%s: %+v shares %v", c.lifetime, c.other, got)
		}
	}
	if boxKey(agentbox.LifetimeDeveloper, here, project.Project{Name: "a"}) == boxKey(agentbox.LifetimeDeveloper, here, project.Project{Name: "b"}) {
		t.Error("two projects share a developer's box")
	}
	kinds := map[string]bool{}
	for _, l := range []agentbox.Lifetime{agentbox.LifetimeTask, agentbox.LifetimeBranch, agentbox.LifetimeProject, agentbox.LifetimeDeveloper} {
		kinds[boxKey(l, workspace.Repo{}, project.Project{})] = true
	}
	if len(kinds) != 4 {
		t.Error("two lifetimes share a key")
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "0", "my-box", "a.b_c-d", strings.Repeat("a", 63), "0123456789a", "0123456789abc", "0123456789ag"} {
		if err := checkName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-x", ".", "..", "a/b", "A", "a b", "a\n", "é", "a:b", strings.Repeat("a", 64), "0123456789ab"} {
		if e := agentbox.AsError(checkName(bad)); e == nil || e.Code != agentbox.Invalid || e.Hint == "" {
			t.Errorf("%q: %#v", bad, e)
		}
	}
}

func TestFreeName(t *testing.T) {
	m := newTable(home.Home{})
	for _, c := range []struct{ repo, branch, want string }{
		{"app", "main", "app-main"},
		{"app", "main", "app-main-2"},
		{"app", "main", "app-main-3"},
		{"My App", "feature/X_y", "my-app-feature-x-y"},
		{"日本", "", "box"},
		{"-", "--", "box-2"},
		{"0123456789ab", "", "box-3"},
		{strings.Repeat("a", 39) + "-b", "c", strings.Repeat("a", 39)},
	} {
		got := m.freeName(c.repo, c.branch)
		if got != c.want || checkName(got) != nil {
			t.Errorf("%s %s: %s, want %s", c.repo, c.branch, got, c.want)
		}
		m.put(&box{rec: newTestRecord(got)})
	}
}

func TestConcurrentBoxesGetDistinctNames(t *testing.T) {
	m := manage(t, newHome(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := m.maker.lease(record{Life: 1}, "", "app", "main"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	names := map[string]bool{}
	for _, b := range m.boxes.all() {
		names[b.record().Box.Name] = true
	}
	if len(names) != 8 || !names["app-main"] || !names["app-main-8"] {
		t.Errorf("%v", names)
	}
}

func TestTakenNameRemovesMachine(t *testing.T) {
	h := newHome(t)
	write(t, h, newTestRecord("mine"))
	m := manage(t, h)
	rec := newTestRecord("")
	names := write(t, h, rec)
	machine := &box{rec: rec, live: live(t, rec)}
	m.boxes.put(machine)
	if err := m.pool.Put("t", machine); err != nil {
		t.Fatal(err)
	}
	_, err := m.maker.lease(record{Box: agentbox.Box{Template: "t"}}, "mine")
	if agentbox.CodeOf(err) != agentbox.Exists {
		t.Errorf("got %v", err)
	}
	if n := len(m.boxes.all()); n != 1 || exists(names.Dir) || m.pool.Size() != 0 {
		t.Errorf("%d boxes, directory %v, %d in the pool", n, exists(names.Dir), m.pool.Size())
	}
}

func TestFind(t *testing.T) {
	m := newTable(home.Home{})
	add := func(id, name string, p phase) {
		rec := newTestRecord(name)
		rec.Phase = p
		var err error
		if rec.Box.ID, err = agentbox.ParseBoxID(id); err != nil {
			t.Fatal(err)
		}
		m.put(&box{rec: rec})
	}
	add("aa0000000001", "one", phaseReady)
	add("aa0000000002", "two", phaseReady)
	add("bb0000000003", "aa", phaseReady)
	add("cc0000000004", "four", phaseRemoving)
	for ref, want := range map[string]string{"one": "one", "aa0000000002": "two", "bb": "aa", "aa": "aa"} {
		if b, err := m.find(t.Context(), api.BoxRef{Box: ref}); err != nil || b.record().Box.Name != want {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for ref, want := range map[string]agentbox.Code{
		"aa0": agentbox.Conflict, "b": agentbox.NotFound, "four": agentbox.NotFound, "cc0000000004": agentbox.NotFound, "x": agentbox.NotFound,
		"": agentbox.Invalid,
	} {
		if _, err := m.find(t.Context(), api.BoxRef{Box: ref}); agentbox.CodeOf(err) != want {
			t.Errorf("%q: %v", ref, err)
		}
	}
	if _, err := m.find(t.Context(), api.BoxRef{Directory: "laptop:/app"}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a checkout of another machine: %v", err)
	}
}

func TestFindWithInvalidConfig(t *testing.T) {
	dir := repository(t)
	repo, err := workspace.Describe(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte("cpuss: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := newTable(home.Home{})
	add := func(name, directory string, lifetime agentbox.Lifetime) {
		rec := newTestRecord(name)
		rec.Box.Directory, rec.Box.Lifetime, rec.Key = directory, lifetime, boxKey(lifetime, repo, project.Project{Name: repo.Root})
		m.put(&box{rec: rec})
	}
	reportsInvalidConfig := func(why string) {
		t.Helper()
		if b, err := m.find(t.Context(), api.BoxRef{Directory: dir}); err == nil || !strings.Contains(err.Error(), "agentbox.yaml:1: unknown key") {
			t.Errorf("%s: %v, %v", why, b, err)
		}
	}
	reportsInvalidConfig("no box")
	add("shared", "/elsewhere", agentbox.LifetimeDeveloper)
	reportsInvalidConfig("a box made elsewhere, which this configuration may not mean")
	add("mine", repo.Root, agentbox.LifetimeProject)
	if b, err := m.find(t.Context(), api.BoxRef{Directory: dir}); err != nil || b.record().Box.Name != "mine" {
		t.Errorf("%v, %v", b, err)
	}
	add("other", repo.Root, agentbox.LifetimeBranch)
	reportsInvalidConfig("two boxes, and only the configuration says which")
}

func TestChooseCheckpoint(t *testing.T) {
	rec := newTestRecord("mine")
	if _, err := chooseCheckpoint(rec, ""); agentbox.CodeOf(err) != agentbox.NotFound || agentbox.AsError(err).Hint == "" {
		t.Errorf("none at all: %v", err)
	}
	rec.Box.Checkpoint = []agentbox.Checkpoint{{ID: "aa01"}, {ID: "aa02", Name: "b"}, {ID: "b003", Name: "aa"}}
	for ref, want := range map[string]string{"": "b003", "aa01": "aa01", "b": "aa02", "aa": "b003", "b0": "b003"} {
		if c, err := chooseCheckpoint(rec, ref); err != nil || c.ID != want {
			t.Errorf("%q: %+v, %v", ref, c, err)
		}
	}
	for _, ref := range []string{"aa0", "x", "aa01x"} {
		if c, err := chooseCheckpoint(rec, ref); agentbox.CodeOf(err) != agentbox.NotFound {
			t.Errorf("%q: %+v, %v", ref, c, err)
		}
	}
}
