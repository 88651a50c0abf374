package consent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/project"
	"agentbox/vmm/image"
)

// testApprovals is Approvals with somebody at it who approves.
type testApprovals struct {
	Approvals
	policies *egress.Policies
}

// newTestApprovals is one of a home of its own, on a machine without images.
func newTestApprovals(t *testing.T) testApprovals {
	t.Helper()
	h := home.Home{Dir: t.TempDir()}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	// The tools that know the registries of this machine take seconds.
	if err := os.WriteFile(h.Registries(), []byte(fmt.Sprintf(`{"looked":%q}`, time.Now().Format(time.RFC3339))), 0o600); err != nil {
		t.Fatal(err)
	}
	d := Approvals{
		Store: project.NewStore(h), HasBase: func(image.Recipe) bool { return false },
		BestKind: func(context.Context) (agentbox.Isolation, error) { return agentbox.MicroVM, nil },
	}
	policies := egress.New(egress.Config{Home: h, Store: d.Store, Registries: project.NewRegistries(h.Registries()), Review: d, Boxes: noBoxes{}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(policies.Close)
	return testApprovals{d, policies}
}

// noBoxes is a machine without any.
type noBoxes struct{ egress.Boxes }

func (noBoxes) Find(context.Context, api.BoxRef) (agentbox.BoxID, egress.Subject, error) {
	return agentbox.BoxID{}, egress.Subject{}, agentbox.Errorf(agentbox.NotFound, "no boxes")
}
func (noBoxes) Running() []egress.Box                    { return nil }
func (noBoxes) SetApproved(string, string, string) error { return nil }

// repository makes a git repository with one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range []string{"init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m one"} {
		cmd := exec.Command("git", strings.Fields(args)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	return dir
}

// What a configuration below the root asks for can be approved, and so can that of a devcontainer
// that was chosen by name.
func TestApproveAnyConfiguration(t *testing.T) {
	for name, at := range map[string]config.Place{"sub/agentbox.yaml": {Directory: "sub"}, ".devcontainer/web/devcontainer.json": {Devcontainer: "web"}, "sub/.devcontainer.json": {Directory: "sub"}} {
		dir := repository(t)
		at.Directory = filepath.Join(dir, at.Directory)
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"image": "oci:/srv/layout"}`), 0o644); err != nil {
			t.Fatal(err)
		}
		m := newTestApprovals(t)
		ask := func() (project.Review, error) {
			cfg, err := config.LoadAt(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			return m.Ask(t.Context(), dir, cfg, flags.Flags{}, func(agentbox.Event) {})
		}
		review, err := ask()
		if agentbox.CodeOf(err) != agentbox.Conflict {
			t.Fatalf("%s: nobody has approved it: %v", name, err)
		}
		ref := api.PolicyRef{BoxRef: api.BoxRef{Directory: at.Directory}, Devcontainer: at.Devcontainer}
		if shown, err := m.policies.Show(t.Context(), ref, nil); err != nil || shown.Digest != review.Digest {
			t.Errorf("%s: shows %s, not %s: %v", name, shown.Digest, review.Digest, err)
		}
		ref.Devcontainer = "" // the digest says which is meant
		if _, err := m.policies.Approve(t.Context(), api.ApproveRequest{PolicyRef: ref, Digest: review.Digest}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ask(); err != nil {
			t.Errorf("%s is approved: %v", name, err)
		}
	}
}

// A repository gets nothing of this host that nobody has approved, by whatever way it names it; and
// what was approved is what it was then.
func TestHostAccessNeedsApproval(t *testing.T) {
	dir, outside := repository(t), t.TempDir()
	for _, name := range []string{"other", "another"} {
		if err := os.Mkdir(filepath.Join(outside, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := newTestApprovals(t)
	ask := func(text string) error {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Ask(t.Context(), dir, cfg, flags.Flags{}, func(agentbox.Event) {})
		return err
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(outside, "other"), link); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(dir, filepath.Join(outside, "other"))
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"an absolute path": "include: ['" + outside + "/other:/opt/x']\n", "a way up": "include: ['" + rel + ":/opt/x']\n",
		"a link of the repository": "include: ['link:/opt/x']\n",
		"what /proc leads to":      "include: ['/proc/self/root" + outside + "/other:/opt/x']\n", "the checkout itself": "include: ['.:/opt/x']\n",
		"the git directory": "include: ['.git:/opt/x']\n", "a part of it": "include: ['.git/config:/opt/x']\n",
		"a nested git directory": "include: ['sub/.git:/opt/x']\n",
		"a kernel":               "kernel: /boot/vmlinuz\n", "a layout": "image: oci:/srv/layout\n", "an archive": "image: docker-archive:/srv/a.tar\n",
		"plain HTTP": "image: localhost:5000/x\n", "a private registry": "image: 169.254.169.254/x\n", "a port of the system": "ports: ['80:80']\n",
		"a service of the system": "ports: [22]\n",
	} {
		err := ask(text)
		if e := agentbox.AsError(err); err == nil || e.Code != agentbox.Conflict || !strings.Contains(e.Hint, "agentbox policy approve ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := ask("include: ['sub:/opt/x']\nports: [3000]\nimage: apt:bookworm\n"); err != nil {
		t.Errorf("what every repository has: %v", err)
	}

	const linked = "include: ['link:/opt/x']\n"
	hint := agentbox.AsError(ask(linked)).Hint
	digest := hint[strings.LastIndexByte(hint, ' ')+1:]
	ref := api.PolicyRef{BoxRef: api.BoxRef{Directory: dir}}
	if _, err := m.policies.Approve(t.Context(), api.ApproveRequest{PolicyRef: ref, Digest: digest}, nil); err != nil {
		t.Fatal(err)
	}
	if err := ask(linked); err != nil {
		t.Errorf("approved, and refused: %v", err)
	}
	// A commit that lets the link lead elsewhere asks for something else.
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "another"), link); err != nil {
		t.Fatal(err)
	}
	if err := ask(linked); err == nil {
		t.Error("what was approved of one directory is given of another")
	}
	if _, err := m.policies.Approve(t.Context(), api.ApproveRequest{PolicyRef: ref, Digest: digest}, nil); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("the old digest approves the new document: %v", err)
	}
}

// Between a person's yes and the copy a link can change: what is copied then is looked at again.
func TestIncludesAreCopiedAsReviewed(t *testing.T) {
	dir, outside := repository(t), t.TempDir()
	m := newTestApprovals(t)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Root: dir, Include: []config.Include{{From: filepath.Join(dir, "sub"), To: "/opt/x"}}}
	r, err := m.identify(t.Context(), dir, cfg, flags.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.ApproveRecipe(t.Context(), r, RecipeOf(cfg)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ApproveRecipe(t.Context(), r, RecipeOf(cfg)); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("a directory that became a link out of the repository: %v", err)
	}
}

// What the user's own command line says is the user's wish.
func TestFlagsNeedNoApproval(t *testing.T) {
	dir, m := repository(t), newTestApprovals(t)
	asked := flags.Flags{Image: "oci:/srv/layout", Isolation: agentbox.GVisor}
	cfg := &config.Config{Root: dir, Isolation: agentbox.MicroVM}
	if err := asked.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if asks := m.listAsks(t.Context(), dir, cfg, asked); len(asks) != 0 {
		t.Errorf("%v", asks)
	}
}

// A repository names the machine that gets the files, also where the user has named the kind.
func TestMachineNeedsApproval(t *testing.T) {
	dir, m := repository(t), newTestApprovals(t)
	for _, asked := range []flags.Flags{{}, {Isolation: agentbox.SSH}} {
		cfg := &config.Config{Root: dir, Isolation: agentbox.SSH, Machine: "gpu"}
		if err := asked.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		if asks := m.listAsks(t.Context(), dir, cfg, asked); !slices.Equal(asks, []project.Ask{{What: askMachine, Which: "gpu"}}) {
			t.Errorf("%v", asks)
		}
	}
}

// A pull request that pins another image, or other packages, is seen before its image is used; what
// was used here before is not asked about again, on whatever branch.
func TestChangedPinNeedsApproval(t *testing.T) {
	dir, m := repository(t), newTestApprovals(t)
	if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte("image: apt:bookworm\npackages: [make]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	path := LockPath(dir, cfg)
	pin := func(img image.Image) {
		t.Helper()
		lock := &image.Lock{}
		lock.Set(RecipeOf(cfg), img)
		if err := lock.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	consent := func() error {
		t.Helper()
		_, err := m.Ask(t.Context(), dir, cfg, flags.Flags{}, func(agentbox.Event) {})
		return err
	}
	use := func() {
		t.Helper()
		of, err := project.Identify(t.Context(), dir)
		if err := errors.Join(err, consent(), m.RecordPin(of, path, RecipeOf(cfg))); err != nil {
			t.Fatal(err)
		}
	}
	first := image.Image{Digest: agentbox.Digest{1}, Versions: []string{"make=4.3"}}
	use() // nothing is pinned
	pin(first)
	use() // the first time, the repository is believed
	for what, img := range map[string]image.Image{
		"another image":            {Digest: agentbox.Digest{2}, Versions: first.Versions},
		"other packages":           {Digest: first.Digest, Versions: []string{"make=4.2"}},
		"another image's manifest": {Digest: first.Digest, Versions: first.Versions, Manifest: agentbox.Digest{3}.String()},
	} {
		pin(img)
		if e := agentbox.AsError(consent()); e == nil || e.Code != agentbox.Conflict || !strings.Contains(e.Hint, "agentbox policy approve ") {
			t.Errorf("%s: %v", what, e)
		}
	}
	hint := agentbox.AsError(consent()).Hint
	digest := hint[strings.LastIndexByte(hint, ' ')+1:]
	ref := api.PolicyRef{BoxRef: api.BoxRef{Directory: dir}}
	if _, err := m.policies.Approve(t.Context(), api.ApproveRequest{PolicyRef: ref, Digest: digest}, nil); err != nil {
		t.Fatal(err)
	}
	use()
	pin(first)
	use()
}
