package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

// material is what jobs work on: one repository, of which each target has a clone. It consists of
// real projects, since synthetic loops do not fault, fork and read as compilers do.
//
//	c/     the source of zlib as the host's distribution has it
//	go/    agentbox's own package of the vocabulary, in a module of its own
//	part*/ 5,000 small files
type material struct {
	lab    *Lab
	origin string
	goRoot string // "" when the Go job is left out
	// noGo is why it is left out.
	noGo string
	// goCache is filled natively and copied into boxes. Otherwise a test would measure the
	// compilation of the standard library.
	goCache string
}

// Names of the repository and of its configuration.
const (
	workRepository = "work"
	workConfig     = "agentbox.yaml"
)

// manyFiles has as many files as a large project; git status looks at each of them.
var manyFiles = Repository{files: 5_000, size: 2_000, commits: 1}

// goEnv is the environment with which every target builds Go, so that all can use one cache.
var goEnv = []string{"GOFLAGS=-trimpath -buildvcs=false", "GOTOOLCHAIN=local", "CGO_ENABLED=0", "GOPROXY=off"}

// newMaterial makes the repository. If dir is not a checkout of agentbox, there is no Go job. The
// error is Missing when a program of the jobs is not installed here.
func (l *Lab) newMaterial(ctx context.Context, dir string) (*material, error) {
	for _, program := range []string{"gcc", "make", "git", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, agentbox.Errorf(agentbox.Missing, "%s is not installed: work is measured on the machine itself too", program).
				WithHint("apt-get install gcc libc6-dev make git tar")
		}
	}
	m := &material{lab: l, goCache: filepath.Join(l.Dir, "gocache")}
	var err error
	end := l.Say.Begin("material", "5,000 files, zlib, a Go package")
	if m.origin, err = l.Repo(ctx, workRepository, manyFiles); err != nil {
		return nil, err
	}
	if err := FetchSource(ctx, "zlib", filepath.Join(l.Dir, "source"), filepath.Join(m.origin, "c")); err != nil {
		return nil, err
	}
	if m.noGo = m.addGo(ctx, dir); m.noGo != "" {
		m.goRoot = ""
	}
	if err := os.WriteFile(filepath.Join(m.origin, workConfig), []byte(m.config()), 0o644); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"add", "-A", "-f"}, {"commit", "-q", "-m", "work"}} {
		if err := Git(ctx, m.origin, args...); err != nil {
			return nil, err
		}
	}
	end("")
	return m, nil
}

// goPackage is what the Go job tests. It is a package of agentbox that imports only the standard
// library and whose tests read nothing outside of it, so it can be copied out.
const goPackage = "vmm/guest/protocol"

// addGo copies goPackage to go/protocol, a module of its own. It needs a checkout of agentbox and
// Go; if it cannot, it returns the reason.
func (m *material) addGo(ctx context.Context, dir string) (why string) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "there is no Go on this machine"
	}
	m.goRoot = strings.TrimSpace(string(out))
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return "this is no checkout of agentbox"
	}
	mod, err := os.ReadFile(filepath.Join(repo.Root, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module agentbox\n") {
		return "this is no checkout of agentbox"
	}
	to := filepath.Join(m.origin, "go", "protocol")
	err = os.CopyFS(to, os.DirFS(filepath.Join(repo.Root, goPackage)))
	if err == nil {
		version := strings.TrimPrefix(runtime.Version(), "go")
		err = os.WriteFile(filepath.Join(m.origin, "go", "go.mod"), []byte("module agentbox\n\ngo "+version+"\n"), 0o644)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// config returns the configuration of the boxes: the packages that the jobs need, from the host's
// distribution, and the host's own Go, included at its own path.
func (m *material) config() string {
	text := "packages: [ca-certificates, gcc, git, libc6-dev, make]\ncpus: 2\nmemory: 1GiB\ndisk: 16GiB\n"
	if m.goRoot == "" {
		return text
	}
	text += fmt.Sprintf("include: [%q]\nenv:\n  PATH: %q\n", m.goRoot+":"+m.goRoot, m.goRoot+"/bin:/usr/local/bin:/usr/bin:/bin")
	for _, v := range goEnv {
		name, value, _ := strings.Cut(v, "=")
		text += fmt.Sprintf("  %s: %q\n", name, value)
	}
	return text
}

// clone makes a working copy for one target, beside the repository, because one that builds must
// not find the results of another.
func (m *material) clone(ctx context.Context, name string) (string, error) {
	dir := filepath.Join(m.lab.Dir, reposName, workRepository+"-"+name)
	return dir, Git(ctx, filepath.Dir(dir), "clone", "-q", m.origin, dir)
}

// native makes the target that is the machine itself, and fills Go's cache with what a test needs.
func (m *material) native(ctx context.Context) (nativeTarget, error) {
	dir, err := m.clone(ctx, "native")
	s := nativeTarget{dir: dir, env: append([]string{"GOCACHE=" + m.goCache}, goEnv...)}
	if err != nil || m.goRoot == "" {
		return s, err
	}
	s.env = append(s.env, "PATH="+m.goRoot+"/bin:"+os.Getenv("PATH"))
	_, err = s.Run(ctx, "cd go && go test ./protocol")
	return s, err
}

// box makes a box of a kind to work in, with a copy of Go's cache. It stays as long as the Lab, and
// making it is not measured.
func (m *material) box(ctx context.Context, kind agentbox.Isolation) (WorkBox, error) {
	b := WorkBox{Installation: m.lab.Plain, Name: workRepository + "-" + string(kind)}
	dir, err := m.clone(ctx, string(kind))
	if err != nil {
		return b, err
	}
	end := m.lab.Say.Begin("box", string(kind))
	warmCtx, cancel := context.WithTimeoutCause(ctx, WarmUpTime, fmt.Errorf("the limit is %s", WarmUpTime))
	defer cancel()
	if _, _, err := b.Installation.Program.Run(warmCtx, dir, "up", "--approve", "--detach", "--name", b.Name, "--isolation", string(kind)); err != nil {
		return b, err
	}
	shown, err := b.Installation.Show(ctx, b.Name)
	if err != nil {
		return b, err
	}
	b.Kind, b.Accel, b.Image = shown.Isolation, shown.Accel, shown.Image
	if m.goRoot != "" {
		if _, err := b.Run(ctx, "mkdir -p ~/.cache"); err != nil {
			return b, err
		}
		if _, err := b.Installation.Do(ctx, b.Installation.Home.Dir, "cp", m.goCache, b.Name+":/home/agent/.cache/go-build"); err != nil {
			return b, err
		}
	}
	end(b.Name)
	return b, nil
}
