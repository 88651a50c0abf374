package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
)

// peer is another program that stores files in chunks.
type peer struct {
	name, module, version string
	sum                   string // of the module, as in go.sum; the module's own go.sum then pins its dependencies
	// ingest stores a file in an empty directory, and returns the time of that alone.
	ingest func(ctx context.Context, program, dir, file string) (time.Duration, error)
}

// peers are a backup program and one for images. Both use content-defined chunking. Versions are
// pinned, as figures are compared over time.
var peers = []peer{
	{"restic", "github.com/restic/restic", "v0.18.0", "h1:2xSVnbNWYeeZ00AufTLCiw7edzCZS2LE6oDEMlLTr2I=", resticIngest},
	{"desync", "github.com/folbricht/desync", "v0.9.6", "h1:Wb2b/SBdbY/QBSVeI/bXsG0NHSKJX7K9Xuqbq/degA8=", desyncIngest},
}

// findPeer returns the path of a peer. It accepts any installed version, and otherwise builds the
// peer, which needs a Go toolchain.
func findPeer(ctx context.Context, tools string, p peer, say agentbox.Progress) (string, error) {
	if program, err := exec.LookPath(p.name); err == nil {
		return program, nil
	}
	return buildPeer(ctx, tools, p, say)
}

// buildPeer builds a peer in its own module, and so with the versions and checksums of its release.
func buildPeer(ctx context.Context, tools string, p peer, say agentbox.Progress) (string, error) {
	// It stays there, so that the next benchmark need not build it.
	program := filepath.Join(tools, p.name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(tools, 0o700); err != nil {
		return "", err
	}
	end := say.Begin("build "+p.name, p.module+"@"+p.version)
	// We compare the checksum ourselves, so the checksum database, which not everybody can reach,
	// is not needed for it.
	out, err := goTool(ctx, tools, []string{"GONOSUMDB=" + p.module}, "mod", "download", "-json", p.module+"@"+p.version)
	if err != nil {
		return "", err
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &got); err != nil || got.Sum != p.sum {
		return "", agentbox.Errorf(agentbox.Corrupt, "%s@%s has the checksum %q, not %q", p.module, p.version, got.Sum, p.sum)
	}
	if _, err := goTool(ctx, got.Dir, []string{"CGO_ENABLED=0"}, "build", "-trimpath", "-o", program, "./cmd/"+p.name); err != nil {
		return "", err
	}
	end("")
	return program, nil
}

// goTool runs the go command in dir and returns its standard output.
func goTool(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %.200s", args[0], err, bench.LastLine(errs.Bytes()))
	}
	return out, nil
}

// emptyDir makes dir anew and returns the func that removes it.
func emptyDir(dir string) (func(), error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return func() { os.RemoveAll(dir) }, os.MkdirAll(dir, 0o700)
}

// resticIngest stores a file in a new repository, encrypted and compressed as restic does by
// default.
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

// desyncIngest stores a file's chunks, compressed, without encryption.
func desyncIngest(ctx context.Context, program, dir, file string) (time.Duration, error) {
	remove, err := emptyDir(filepath.Join(dir, "chunks"))
	if err != nil {
		return 0, err
	}
	defer remove()
	return timed(ctx, dir, program, "make", "--store", filepath.Join(dir, "chunks"), filepath.Join(dir, "index.caibx"), file)
}
