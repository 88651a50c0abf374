package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// release is one run: what is released, from where, and to where.
type release struct {
	version string
	root    string // of the checkout
	out     string
	url     string // of the directory from which people will download the files
	key     string // the file with the key that signs them; "" for none
	commit  string
	time    time.Time // of the commit
	pages   []file    // man pages, completions and documents, which every archive has
}

// file is one that is packed: its name there, in which / separates directories.
type file struct {
	name    string
	content []byte
	mode    os.FileMode
}

// target is a platform, by Go's names.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "-" + t.arch }

// targets are the platforms of a release. Boxes run on the first; the others have the command line,
// which works on boxes of other machines.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}, {"darwin", "amd64"}}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "the version, as 1.2.3")
	flag.StringVar(&r.root, "root", ".", "the checkout")
	flag.StringVar(&r.out, "out", "dist", "where the files go")
	flag.StringVar(&r.url, "url", "", "from where people will download them, for the Homebrew formula")
	flag.StringVar(&r.key, "key", "", "a private key in PEM, which signs the release")
	flag.Parse()
	if err := r.run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) run() error {
	if err := r.describe(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var programs []string
	for _, t := range targets {
		program, err := r.build(t)
		if err != nil {
			return err
		}
		defer os.RemoveAll(filepath.Dir(program))
		programs = append(programs, program)
	}
	parts, err := r.parts(programs)
	if err != nil {
		return err
	}
	if r.pages, err = r.documents(parts); err != nil {
		return err
	}
	for i, t := range targets {
		if err := r.pack(t, programs[i]); err != nil {
			return err
		}
	}
	for _, write := range []func() error{r.formula, func() error { return r.bill(parts) }, r.provenance, r.checksums, r.sign} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// describe asks git which commit this is. Files that no commit has would be in no other release.
func (r *release) describe() error {
	if changed, err := r.output("git", "status", "--porcelain"); err != nil {
		return err
	} else if changed != "" {
		return fmt.Errorf("the checkout has changes that no commit has:\n%s", changed)
	}
	of, err := r.output("git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(of, " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	r.commit, r.time = commit, time.Unix(at, 0).UTC()
	return err
}

// build makes the program for a platform, as `make binary` does, and returns its path. On others than
// the first, it carries no programs of the first.
func (r *release) build(t target) (string, error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "agentbox")
	overlay := filepath.Join(dir, "overlay.json")
	if err := r.writeOverlay(overlay, t); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X agentbox/agentbox/cli.version="+r.version, "-o", path, ".")
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
	return path, cmd.Run()
}

// writeOverlay tells Go to embed nothing of the programs that are for another platform.
func (r *release) writeOverlay(path string, t target) error {
	without := map[string]string{}
	if t != targets[0] {
		for _, pattern := range carried {
			names, err := filepath.Glob(filepath.Join(r.root, strings.Replace(pattern, "*.zst", "*-linux-amd64.*", 1)))
			if err != nil {
				return err
			}
			for _, name := range names {
				if name, err = filepath.Abs(name); err != nil {
					return err
				}
				without[name] = ""
			}
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": without})
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// output runs a program in the checkout.
func (r *release) output(argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	b, err := cmd.Output()
	return string(bytes.TrimSpace(b)), err
}

func (r *release) path(name string) string { return filepath.Join(r.out, name) }

// name of what is for a platform, without its end.
func (r *release) name(t target) string { return "agentbox-" + r.version + "-" + t.String() }
