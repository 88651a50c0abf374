package sources

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/source"
)

// serveSources serves the sources of a new home.
func serveSources(t *testing.T) *api.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "abx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := source.OpenStore(filepath.Join(dir, "sources"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	Sources{store}.Handle(mux)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(mux)
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return api.NewClient(filepath.Join(dir, "s"))
}

// A source goes from one daemon to another by the calls of the API, and an error of either arrives.
func TestSendSource(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	c := exec.Command("sh", "-c", `git init -q -b main; git config user.name t; git config user.email t@example.com; mkdir d; echo a >d/a; git add .; git commit -qm one`)
	if c.Dir = dir; c.Run() != nil {
		t.Fatal("no repository")
	}
	here, there := serveSources(t), serveSources(t)
	captured, err := api.Call(t.Context(), here, api.CaptureSource, api.CaptureRequest{Directory: filepath.Join(dir, "d")}, nil)
	if err != nil || captured.Source.Directory != dir || captured.Source.Subdir != "d" || captured.Branch != "main" || captured.Project != dir {
		t.Fatalf("%+v, %v", captured, err)
	}
	got, err := api.SendSource(t.Context(), here, there, captured.Source)
	captured.Source.Elsewhere = true
	if err != nil || got.Source != captured.Source || got.Project != dir || got.Commit != captured.Commit {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := api.SendSource(t.Context(), here, there, agentbox.SourceRef{Digest: agentbox.Digest{1}}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("one that is not there: %v", err)
	}
	if _, err := there.Stream(t.Context(), "/v1/source/other", agentbox.Digest{}, nil); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("a call that is not known: %v", err)
	}
}

// Who goes on commits as whoever began, and its git works as in any box.
func TestConfigure(t *testing.T) {
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "none"))
	from, to, other := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to, other} {
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := exec.Command("git", "-C", from, "config", "user.email", "a@b.example").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := configure(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "-C", to, "config", "--local", "user.email").Output(); err != nil || string(out) != "a@b.example\n" {
		t.Errorf("%q, %v", out, err)
	}
	for key, want := range map[string]string{"core.checkstat": "minimal", "core.trustctime": "false", "receive.denycurrentbranch": "updateInstead"} {
		if out, err := exec.Command("git", "-C", to, "config", "--local", key).Output(); err != nil || string(out) != want+"\n" {
			t.Errorf("%s is %q, %v", key, out, err)
		}
	}
	if out, err := exec.Command("git", "-C", to, "config", "--local", "user.name").Output(); err == nil {
		t.Errorf("a name that nobody has: %q", out)
	}
	// No checkout is there any more, but this machine's user.
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(from, ".git", "config"))
	if err := configure(t.Context(), filepath.Join(from, "gone"), other); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command("git", "config", "--file", filepath.Join(other, ".git", "config"), "user.email").Output(); err != nil || string(out) != "a@b.example\n" {
		t.Errorf("%q, %v", out, err)
	}
}
