package guest_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestSpeedOfEntering logs the medians of what the guest's part of entering a box takes, in an
// image with a shell that AGENTBOX_TEST_IMAGE names (go test -v -run SpeedOfEntering ./vmm/guest).
// It judges nothing: machines differ too much.
func TestSpeedOfEntering(t *testing.T) {
	image := os.Getenv("AGENTBOX_TEST_IMAGE")
	if image == "" {
		t.Skip("AGENTBOX_TEST_IMAGE names no image")
	}
	r := newRig(t)
	r.spec.Image, r.spec.Memory = image, 1<<30
	m, err := r.driver.Boot(r.Context(), r.next())
	r.ok(err)
	defer m.Kill()
	c := r.greet(m, "template", false)
	r.ok(c.Quiesce(r.Context()))
	c.Close()
	dir := filepath.Join(t.TempDir(), "template")
	r.ok(r.driver.SaveTemplate(r.Context(), m, dir))
	template, err := r.driver.OpenTemplate(r.Context(), dir)
	r.ok(err)
	defer template.Close()

	const rounds = 9
	took := map[string][]time.Duration{}
	for range rounds {
		spec := r.next()
		spec.Workspace = filepath.Join(spec.Dir, "workspace")
		r.ok(r.driver.NewWorkspace(r.Context(), spec.Workspace, t.TempDir(), spec.Disk))
		begun := time.Now()
		last := begun
		lap := func(what string) {
			now := time.Now()
			took[what] = append(took[what], now.Sub(last))
			last = now
		}
		m, err := r.driver.Restore(r.Context(), spec, template, "")
		r.ok(err)
		lap("restore")
		c := r.greet(m, "clone", true)
		lap("connect")
		for _, what := range []string{"first exec", "second exec", "third exec"} {
			s, err := c.SSH().NewSession()
			r.ok(err)
			r.ok(s.Run("true"))
			lap(what)
			if what == "first exec" {
				took["all"] = append(took["all"], last.Sub(begun))
			}
		}
		c.Close()
		r.ok(m.Kill())
	}
	for _, what := range []string{"restore", "connect", "first exec", "second exec", "third exec", "all"} {
		slices.Sort(took[what])
		t.Logf("%-12s median %v, best %v", what, took[what][rounds/2].Round(100*time.Microsecond), took[what][0].Round(100*time.Microsecond))
	}
}
