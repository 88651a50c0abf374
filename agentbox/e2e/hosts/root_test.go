package hosts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/vmm/guest"
	"agentbox/vmm/image"
	"agentbox/vmm/kernel"
)

// cacheEnv names the directory in which roots survive a run. Without it, these tests are skipped.
const cacheEnv = "AGENTBOX_HOSTS"

// cache returns the directory of cacheEnv, or skips the test.
func cache(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(cacheEnv)
	switch {
	case dir == "":
		t.Skipf("takes many minutes: make e2e-qemu, make e2e-git, make e2e-kvm (%s is not set)", cacheEnv)
	case os.Getuid() != 0:
		t.Skip("only root can make and enter another root file system")
	}
	need(t, os.MkdirAll(dir, 0o755))
	return dir
}

func need(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command. If it fails, the test fails with its output.
func run(t *testing.T, dir string, env []string, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// makeRoot returns the root file system of a Debian release with some packages. It is made once and
// may be old: the release's signature is verified, but not its expiry.
func makeRoot(t *testing.T, suite string, packages ...string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(strings.Join(packages, " ")))
	root := filepath.Join(cache(t), suite+"-"+hex.EncodeToString(sum[:4]))
	if _, err := os.Stat(root); err == nil {
		return root
	}
	sources, err := image.AptSources(suite)
	need(t, err)
	half := root + ".part"
	need(t, os.RemoveAll(half))
	args := []string{"--mode=root", "--variant=minbase", "--aptopt=Acquire::Check-Valid-Until \"false\"", "--include=" + strings.Join(packages, ",")}
	for _, path := range []string{"doc", "locale", "man"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+path+"/*")
	}
	cmd := exec.CommandContext(t.Context(), "mmdebstrap", append(args, suite, half, "-")...)
	cmd.Stdin = strings.NewReader(sources)
	t.Logf("making a root of %s", suite)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mmdebstrap: %v\n%s", err, out[max(0, len(out)-4<<10):])
	}
	need(t, os.Rename(half, root))
	return root
}

// only is the one file of a root's boot directory that a pattern names.
func only(t *testing.T, root, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "boot", pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// testBinary compiles the tests of a package into a static binary.
func testBinary(t *testing.T, pkg, to string) {
	t.Helper()
	run(t, "../../..", []string{"CGO_ENABLED=0"}, "go", "test", "-c", "-o", to, pkg)
}

// guestKernel returns a kernel directory with the agent of this build.
func guestKernel(t *testing.T) string {
	t.Helper()
	agent, err := guest.Agent()
	need(t, err)
	dir, err := kernel.Ensure(t.Context(), kernel.Config{Root: filepath.Join(cache(t), "kernels"), Agent: agent, Progress: func(s string) { t.Log(s) }})
	need(t, err)
	return dir
}

// exportImage makes the image of boxConfig, and writes it to a directory.
func exportImage(t *testing.T, bin, dir string) (digest string) {
	t.Helper()
	home, repo := filepath.Join(cache(t), "home"), t.TempDir()
	need(t, os.WriteFile(filepath.Join(repo, "agentbox.yaml"), []byte(boxConfig), 0o644))
	env := []string{"AGENTBOX_HOME=" + home, "AGENTBOX_POOL=0"}
	run(t, repo, env, "git", "init", "-q")
	run(t, repo, env, bin, "up", "--detach", "--isolation", "gvisor")
	show := exec.CommandContext(t.Context(), bin, "show", "--json")
	show.Dir, show.Env = repo, append(os.Environ(), env...)
	out, err := show.Output()
	need(t, err)
	var box struct{ Image string }
	need(t, json.Unmarshal(out, &box))
	for _, args := range [][]string{{"image", "export", box.Image, dir}, {"rm"}, {"daemon", "stop"}} {
		run(t, repo, env, append([]string{bin}, args...)...)
	}
	return box.Image
}
