package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"agentbox/agentbox"
)

// peer is another program that stores files in pieces.
type peer struct {
	name, module string // as go install takes it
	// ingest stores a file with it in an empty directory, and gives the time of that alone.
	ingest func(ctx context.Context, program, dir, file string) (time.Duration, error)
}

var peers = []peer{
	{"restic", "github.com/restic/restic/cmd/restic@v0.18.0", resticIngest},
	{"desync", "github.com/folbricht/desync/cmd/desync@v0.9.6", desyncIngest},
}

// findPeers gives the peers that this machine has, and builds those that it has not where a Go toolchain is. The others
// are left out, and said.
func findPeers(ctx context.Context, tools string, say agentbox.Progress) map[string]string {
	out := map[string]string{}
	for _, p := range peers {
		program, err := exec.LookPath(p.name)
		if err != nil {
			program, err = buildPeer(ctx, tools, p, say)
		}
		if err != nil {
			say.Say(fmt.Sprintf("without %s: %v", p.name, err))
			continue
		}
		out[p.name] = program
	}
	return out
}

func buildPeer(ctx context.Context, tools string, p peer, say agentbox.Progress) (string, error) {
	program := filepath.Join(tools, p.name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(tools, 0o700); err != nil {
		return "", err
	}
	end := say.Begin("build "+p.name, p.module)
	cmd := exec.CommandContext(ctx, "go", "install", p.module)
	cmd.Dir, cmd.Env = tools, append(os.Environ(), "GOBIN="+tools, "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w: %.200s", p.module, err, out)
	}
	end("")
	return program, nil
}

// emptyDir makes a directory anew, and gives the func that removes it.
func emptyDir(dir string) (func(), error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return func() { os.RemoveAll(dir) }, os.MkdirAll(dir, 0o700)
}

func resticIngest(ctx context.Context, program, dir, file string) (time.Duration, error) {
	remove, err := emptyDir(dir)
	if err != nil {
		return 0, err
	}
	defer remove()
	flags := []string{"--quiet", "--insecure-no-password", "--no-cache", "--repo", filepath.Join(dir, "repo")}
	if _, err := timed(ctx, dir, program, append(flags, "init")...); err != nil {
		return 0, err
	}
	return timed(ctx, dir, program, append(flags, "backup", file)...)
}

func desyncIngest(ctx context.Context, program, dir, file string) (time.Duration, error) {
	remove, err := emptyDir(filepath.Join(dir, "chunks"))
	if err != nil {
		return 0, err
	}
	defer remove()
	return timed(ctx, dir, program, "make", "--store", filepath.Join(dir, "chunks"), filepath.Join(dir, "index.caibx"), file)
}
