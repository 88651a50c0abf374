package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/vmm/image"
)

// A repository gets nothing of this host that nobody has approved, by whatever way it names it; and
// what was approved is what it was then.
func TestARepositoryTakesNothingOfTheHostWithoutApproval(t *testing.T) {
	h := newHome(t)
	known(t, h)
	dir, outside := repository(t), t.TempDir()
	for _, name := range []string{"other", "another"} {
		if err := os.Mkdir(filepath.Join(outside, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := manage(t, h)
	ask := func(text string) error {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.consent(t.Context(), dir, cfg, overrides{}, func(agentbox.Event) {})
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
		"a kernel": "kernel: /boot/vmlinuz\n", "a layout": "image: oci:/srv/layout\n", "an archive": "image: docker-archive:/srv/a.tar\n",
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
	if _, err := m.ApprovePolicy(t.Context(), api.ApproveRequest{PolicyRef: ref, Digest: digest}, nil); err != nil {
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
	if _, err := m.ApprovePolicy(t.Context(), api.ApproveRequest{PolicyRef: ref, Digest: digest}, nil); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("the old digest approves the new document: %v", err)
	}
}

// Between a person's yes and the copy a link can change: what is copied then is looked at again.
func TestWhatIsCopiedIsWhatWasReviewed(t *testing.T) {
	h := newHome(t)
	dir, outside := repository(t), t.TempDir()
	m := manage(t, h)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Root: dir, Include: []config.Include{{From: filepath.Join(dir, "sub"), To: "/opt/x"}}}
	known(t, h)
	r, err := m.review(t.Context(), dir, cfg, overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.granted(t.Context(), r, recipeOf(cfg)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.granted(t.Context(), r, recipeOf(cfg)); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("a directory that became a link out of the repository: %v", err)
	}
}

// What the user's own command line says is the user's wish.
func TestFlagsNeedNoApproval(t *testing.T) {
	h := newHome(t)
	known(t, h)
	dir, m := repository(t), manage(t, h)
	flags := overrides{Image: "oci:/srv/layout", Isolation: agentbox.GVisor}
	cfg := &config.Config{Root: dir, Isolation: agentbox.MicroVM}
	if err := flags.apply(cfg); err != nil {
		t.Fatal(err)
	}
	if asks, err := m.asksOf(context.Background(), dir, cfg, flags); err != nil || len(asks) != 0 {
		t.Errorf("%v, %v", asks, err)
	}
}

// A pull request that pins another image, or other packages, is seen before its image is used; what
// was
// used here before is not asked about again, on whatever branch.
func TestAChangedPinWaitsForAPerson(t *testing.T) {
	h := newHome(t)
	known(t, h)
	dir, m := repository(t), manage(t, h)
	if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte("image: apt:bookworm\npackages: [make]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	path := lockPath(dir, cfg)
	pin := func(img image.Image) {
		t.Helper()
		lock := &image.Lock{}
		lock.Set(recipeOf(cfg), img)
		if err := lock.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	consent := func() error {
		t.Helper()
		_, err := m.consent(t.Context(), dir, cfg, overrides{}, func(agentbox.Event) {})
		return err
	}
	use := func() {
		t.Helper()
		if err := errors.Join(consent(), m.usePin(path, recipeOf(cfg))); err != nil {
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
	if _, err := m.ApprovePolicy(t.Context(), api.ApproveRequest{PolicyRef: ref, Digest: digest}, nil); err != nil {
		t.Fatal(err)
	}
	use()
	pin(first)
	use()
}
