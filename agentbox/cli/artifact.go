package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// artifactCommand groups the verbs about the files that tasks left behind. All of them rely on the
// host's signed statement, and none trusts the files alone.
func (a *app) artifactCommand() *cli.Command {
	return &cli.Command{
		Name: "artifact", Category: catBox, Usage: "list, copy and verify the files that a task produced",
		Commands: []*cli.Command{a.artifactLsCommand(), a.artifactGetCommand(), a.artifactVerifyCommand()},
	}
}

// artifactLsCommand is `artifact ls`: each file with its state, found by hashing it.
func (a *app) artifactLsCommand() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the artifacts of a task", ArgsUsage: "TASK",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.ListArtifacts, taskRef(cmd), func(r api.ArtifactReport) facts { return artifactFacts(r, "") })
		},
	}
}

// artifactFacts returns the facts about artifacts, with text below the table. For people, digests
// are shortened; the JSON has them in full. --json prints an api.ArtifactReport; --quiet the names
// of the files.
func artifactFacts(r api.ArtifactReport, text string) facts {
	f := listed(r.Files, []string{"FILE", "SIZE", "SHA256", "STATE"}, func(one api.Artifact) (string, []string) {
		return one.Name, []string{one.Name, bytesText(one.Size), cut(one.SHA256, 16), one.State}
	})
	f.value, f.text = r, text
	return f
}

// artifactVerifyCommand is `artifact verify`. The daemon checks the signature and the digests. The
// command fails with Corrupt if a file is missing, changed, or not named by the statement, so that
// scripts can rely on the exit code.
func (a *app) artifactVerifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "check the artifacts of a task against the signed statement", ArgsUsage: "TASK",
		Description: "Fails if this host did not sign the statement, or if a file has changed since the task ended.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			r, err := call(ctx, a, api.ListArtifacts, taskRef(cmd))
			if err != nil {
				return err
			}
			// The table shows each bad file; the error only counts them.
			bad := 0
			for _, f := range r.Files {
				if f.State != "ok" {
					bad++
				}
			}
			if err := a.report(artifactFacts(r, "signed by this host")); err != nil || bad == 0 {
				return err
			}
			return agentbox.Errorf(agentbox.Corrupt, "the artifacts of %s do not match the signed statement: %s missing, changed or not listed", r.Task, agentbox.Plural(bad, "file"))
		},
	}
}

// artifactGetCommand is `artifact get`. This program hashes each file while it arrives. So what
// arrives is what the statement names, even if a file changed after the call.
func (a *app) artifactGetCommand() *cli.Command {
	var to string
	return &cli.Command{
		Name: "get", Usage: "copy artifacts here, or print one", ArgsUsage: "TASK [FILE...]",
		Description: "Without FILE it copies all of them. It never overwrites a file, and fails if a file does not match the signed statement.",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "copy to `DIR`, or print to - (default: a directory of the task's name)", Destination: &to}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			r, err := call(ctx, a, api.ListArtifacts, taskRef(cmd))
			if err != nil {
				return err
			}
			files, err := chooseArtifacts(r, cmd.Args().Tail())
			if err != nil {
				return err
			}
			// The default is a directory with the task's name, so that two tasks never overwrite
			// each other's files.
			if to == "" {
				to = r.Task.String()
			}
			return a.getArtifacts(ctx, r, files, to)
		},
	}
}

// chooseArtifacts returns the named artifacts, each once and in the order of the report, or all that
// the statement names. It never returns a file that the statement does not name, because there is
// no digest to check it against. The error is NotFound if a named one is not among them.
func chooseArtifacts(r api.ArtifactReport, names []string) ([]api.Artifact, error) {
	missing := map[string]bool{}
	for _, name := range names {
		missing[path.Clean(name)] = true
	}
	var out []api.Artifact
	for _, f := range r.Files {
		if f.SHA256 != "" && (len(names) == 0 || missing[f.Name]) {
			out = append(out, f)
			delete(missing, f.Name)
		}
	}
	if len(missing) > 0 {
		return nil, agentbox.Errorf(agentbox.NotFound, "task %s does not have these artifacts: %s", r.Task, strings.Join(slices.Sorted(maps.Keys(missing)), ", ")).
			WithHint("agentbox artifact ls %s lists them", r.Task)
	}
	return out, nil
}

// getArtifacts copies files into the directory to, which it creates, or to standard output, one
// after the other. A box chose the names, so to is opened as a root (os.Root), which no path can
// leave. --json prints a list of api.Artifact; --quiet the directory. Copying to standard output
// prints only the bytes.
func (a *app) getArtifacts(ctx context.Context, r api.ArtifactReport, files []api.Artifact, to string) error {
	if to == "-" {
		for _, f := range files {
			if err := a.copyArtifact(ctx, r, f, a.stdout); err != nil {
				return err
			}
		}
		return nil
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot create %s: %w", to, err)
	}
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	for _, f := range files {
		if err := a.saveArtifact(ctx, r, dst, f); err != nil {
			return err
		}
	}
	return a.report(facts{value: files, ids: []string{to}, text: fmt.Sprintf("%s in %s", agentbox.Plural(len(files), "file"), to)})
}

// saveArtifact copies one file, and never overwrites an existing one. It removes a copy whose bytes
// turn out to be wrong.
func (a *app) saveArtifact(ctx context.Context, r api.ArtifactReport, dst *os.Root, f api.Artifact) error {
	if err := dst.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
		return agentbox.Errorf(agentbox.Conflict, "cannot create the directory of %s: %w", f.Name, err)
	}
	out, err := dst.OpenFile(f.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return agentbox.Errorf(agentbox.Exists, "%s already exists", path.Join(dst.Name(), f.Name)).WithHint("choose another directory with --output")
	}
	if err != nil {
		return err
	}
	if err := errors.Join(a.copyArtifact(ctx, r, f, out), out.Close()); err != nil {
		return errors.Join(err, dst.Remove(f.Name))
	}
	return nil
}

// copyArtifact copies a file, and fails if the bytes do not match the statement.
func (a *app) copyArtifact(ctx context.Context, r api.ArtifactReport, f api.Artifact, w io.Writer) error {
	sum := sha256.New() // of exactly the bytes that are copied
	err := download(ctx, a, api.ReadArtifact, api.ArtifactRef{Task: r.Task, Attempt: r.Attempt, Name: f.Name}, io.MultiWriter(sum, w))
	if err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return agentbox.Errorf(agentbox.Corrupt, "artifact %s has changed since the task ended", f.Name)
	}
	return nil
}
