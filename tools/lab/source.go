package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// configurations has an agentbox.yaml for each source package that we measure.
//
//go:embed sources/*.yaml
var configurations embed.FS

// sourceVerb is `lab source`: it makes a repository of a source package of this machine's
// distribution, for agentbox bench.
func sourceVerb(out io.Writer) *cli.Command {
	return &cli.Command{
		Name: "source", Usage: "make a repository of a source package of Debian, to measure with agentbox bench", ArgsUsage: "PACKAGE DIR",
		Description: "Packages with a configuration of ours: " + strings.Join(sourcePackages(), ", ") + ". Needs apt-get, git and the network.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() != 2 {
				return agentbox.Errorf(agentbox.Invalid, "source takes a package and a directory").WithHint("build/lab source hiredis hiredis")
			}
			return makeSource(ctx, out, cmd.Args().Get(0), cmd.Args().Get(1))
		},
	}
}

// sourcePackages are the packages with a configuration, sorted.
func sourcePackages() (names []string) {
	files, _ := fs.Glob(configurations, "sources/*.yaml") // the pattern is well formed
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	return names
}

// makeSource makes the repository in dir, which must not exist.
func makeSource(ctx context.Context, out io.Writer, pkg, dir string) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return agentbox.Errorf(agentbox.Conflict, "%s exists", dir)
	}
	scratch, err := os.MkdirTemp("", "lab-source-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := bench.FetchSource(ctx, pkg, scratch, dir); err != nil {
		return err
	}
	config, err := configurations.ReadFile("sources/" + pkg + ".yaml")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "agentbox.yaml"), config, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A", "-f"}, {"commit", "-qm", pkg}} {
		if err := bench.Git(ctx, dir, args...); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "next: agentbox bench --quick %s\n", dir)
	return nil
}
