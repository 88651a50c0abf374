package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// artifactCommand groups the verbs about files that tasks left. All of them go by the host's signed
// statement, and none believes the files alone.
func (a *app) artifactCommand() *cli.Command {
	return &cli.Command{
		Name: "artifact", Category: catBox, Usage: "files that a task left, which artifacts: of the configuration names",
		Commands: []*cli.Command{a.artifactLsCommand(), a.artifactGetCommand(), a.artifactVerifyCommand()},
	}
}

// artifactLsCommand is `artifact ls`: each file with its state, which the daemon finds by hashing.
func (a *app) artifactLsCommand() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the artifacts of a task", ArgsUsage: "TASK",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return tell(ctx, a, api.ListArtifacts, taskRef(cmd), func(r api.ArtifactReport) facts { return artifactFacts(r, "") })
		},
	}
}

// artifactFacts are artifacts, with text below them. Digests are cut for people: the whole one is in
// the JSON. --json is an api.ArtifactReport; --quiet the names of the files.
func artifactFacts(r api.ArtifactReport, text string) facts {
	f := listed(r.Files, []string{"FILE", "SIZE", "SHA256", "STATE"}, func(one api.Artifact) (string, []string) {
		return one.Name, []string{one.Name, bytesText(one.Size), cut(one.SHA256, 16), one.State}
	})
	f.value, f.text = r, text
	return f
}

// artifactVerifyCommand is `artifact verify`. The signature and the digests are checked by the
// daemon; what is bad here is a file that is missing, changed, or that the statement does not name.
// It is Corrupt then, so scripts can go by the exit code.
func (a *app) artifactVerifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "compare artifacts with the statement that this host signed", ArgsUsage: "TASK",
		Description: "It fails when the signature is not this host's, or a file is not as it was when the task ended.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			r, err := call(ctx, a, api.ListArtifacts, taskRef(cmd))
			if err != nil {
				return err
			}
			// Each file that is wrong is in the table; the error counts them.
			bad := 0
			for _, f := range r.Files {
				if f.State != "ok" {
					bad++
				}
			}
			if err := a.report(artifactFacts(r, "signed by this host: "+r.Statement)); err != nil || bad == 0 {
				return err
			}
			return agentbox.Errorf(agentbox.Corrupt, "%s of %s not what the statement says", agentbox.Plural(bad, "artifact"), r.Task)
		},
	}
}

// artifactGetCommand is `artifact get`: copies are made by this program, as the user, from the
// daemon's directory. Each is hashed while it is copied, so what arrives is what the statement
// says, whatever happened to the file since the call.
func (a *app) artifactGetCommand() *cli.Command {
	var to string
	return &cli.Command{
		Name: "get", Usage: "copy artifacts here, or print one", ArgsUsage: "TASK [FILE...]",
		Description: "Without FILE it copies all of them. A file that is not what the statement says is an error, and none that is here is replaced.",
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
			// A directory of the task's name: two tasks never write over each other.
			if to == "" {
				to = r.Task.String()
			}
			return a.getArtifacts(r, files, to)
		},
	}
}

// chooseArtifacts are the named ones, or all that the statement names. A file that the statement
// does not name has no digest to hold it to, so it is never chosen. NotFound when a named one is
// not among them.
func chooseArtifacts(r api.ArtifactReport, names []string) ([]api.Artifact, error) {
	var out []api.Artifact
	for _, f := range r.Files {
		if len(names) == 0 && f.SHA256 != "" {
			out = append(out, f)
		}
		for _, name := range names {
			if path.Clean(name) == f.Name && f.SHA256 != "" {
				out = append(out, f)
			}
		}
	}
	if len(names) > 0 && len(out) < len(names) {
		return nil, agentbox.Errorf(agentbox.NotFound, "task %s has not all of these artifacts: %s", r.Task, strings.Join(names, ", ")).WithHint("agentbox artifact ls %s", r.Task)
	}
	return out, nil
}

// getArtifacts copies files to a directory, which is made, or to standard output one after the
// other. Names are paths that a box chose: both ends are opened as roots (os.Root), so that none
// leads out of them. --json is a list of api.Artifact, --quiet the directory; to standard output
// nothing but the bytes goes.
func (a *app) getArtifacts(r api.ArtifactReport, files []api.Artifact, to string) error {
	// The directory is the daemon's, of this user and this host.
	from, err := os.OpenRoot(r.Directory)
	if err != nil {
		return err
	}
	defer from.Close()
	if to == "-" {
		for _, f := range files {
			if err := copyArtifact(from, f, a.stdout); err != nil {
				return err
			}
		}
		return nil
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot make %s: %w", to, err)
	}
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	for _, f := range files {
		if err := saveArtifact(from, dst, f); err != nil {
			return err
		}
	}
	return a.report(facts{value: files, ids: []string{to}, text: fmt.Sprintf("%s in %s", agentbox.Plural(len(files), "file"), to)})
}

// saveArtifact copies one file and never replaces one. A copy that turns out to be wrong is removed
// again.
func saveArtifact(from, dst *os.Root, f api.Artifact) error {
	if err := dst.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
		return agentbox.Errorf(agentbox.Conflict, "cannot make the directory of %s: %w", f.Name, err)
	}
	out, err := dst.OpenFile(f.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return agentbox.Errorf(agentbox.Exists, "%s is there already", path.Join(dst.Name(), f.Name)).WithHint("--output names another directory")
	}
	if err != nil {
		return err
	}
	if err := errors.Join(copyArtifact(from, f, out), out.Close()); err != nil {
		return errors.Join(err, dst.Remove(f.Name))
	}
	return nil
}

// copyArtifact copies a file, and fails when that is not what the statement says.
func copyArtifact(from *os.Root, f api.Artifact, w io.Writer) error {
	in, err := from.Open(f.Name)
	if err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "artifact %s: %w", f.Name, err)
	}
	defer in.Close()
	// What was copied is what is hashed, in one pass.
	sum, _, err := agentbox.DigestOf(io.TeeReader(in, w))
	if err != nil {
		return err
	}
	if sum.Hex() != f.SHA256 {
		return agentbox.Errorf(agentbox.Corrupt, "artifact %s is not what it was when the task ended", f.Name)
	}
	return nil
}
