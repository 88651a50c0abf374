package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
)

// projectCommand groups the verbs about a project.
func (a *app) projectCommand() *cli.Command {
	return &cli.Command{Name: "project", Category: catHost, Usage: "make ready what boxes of a project's branches need", Commands: []*cli.Command{a.projectWatch()}}
}

// watcher is `project watch`, of one checkout. What it knows of the remote's branches are refs of the
// checkout: each is the commit for which a branch was made ready, and those of branches that were never
// ahead of the default one are not there.
type watcher struct {
	*app
	root, remote string
	project      string
	always       bool // also while the machine is busy
	// merged tells of a commit, and one of the default branch, whether that has it.
	merged map[[2]string]bool
}

// watchedRefs are the refs of watcher, below the name of the remote.
const watchedRefs = "refs/agentbox/watched/"

// maxGitOutput bounds what is read of git, in bytes.
const maxGitOutput = 8 << 20

func (a *app) projectWatch() *cli.Command {
	w := watcher{app: a, merged: map[[2]string]bool{}}
	every, once, listen := time.Minute, false, ""
	return &cli.Command{
		Name: "watch", Usage: "make ready what boxes of pushed branches need, and clean up after merged and deleted ones",
		Description: "It asks the remote by your own git, in this checkout. For a branch that was pushed and has an agentbox.yaml or devcontainer.json,\n" +
			"image, result of setup and template are made while this machine has nothing better to do. Of a branch that was deleted, or merged\n" +
			"into the default one, the boxes go that nobody is in, after their work became branches here, and the results of setup that it alone\n" +
			"reads. The first time, only the default branch is made ready. Whoever can push has setup run in a box here, with the project's rules\n" +
			"and secrets, as agentbox up would. It goes on until it is interrupted.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "remote", Value: "origin", Usage: "watch the branches of `REMOTE`", Destination: &w.remote},
			&cli.DurationFlag{Name: "every", Value: every, Usage: "ask every `TIME`", Destination: &every},
			&cli.BoolFlag{Name: "once", Usage: "ask once, for a hook or a timer", Destination: &once},
			&cli.StringFlag{Name: "listen", Usage: "ask at once, too, when anything is posted to `ADDRESS` of the loopback, such as 127.0.0.1:7790", Destination: &listen},
			&cli.BoolFlag{Name: "always", Usage: "do not wait until this machine is idle", Destination: &w.always},
		},
		Action: func(ctx context.Context, _ *cli.Command) error {
			dir, err := currentDir()
			if err != nil {
				return err
			}
			repo, err := workspace.Describe(ctx, dir)
			if err != nil {
				return err
			}
			w.root = repo.Root
			if p, err := project.Identify(ctx, w.root); err == nil {
				w.project = p.Name
			}
			if once {
				return w.round(ctx)
			}
			told, stop, err := w.listen(ctx, listen)
			if err != nil {
				return err
			}
			defer stop()
			w.watch(ctx, every, told)
			return nil
		},
	}
}

// watch asks at every interval, and when it is told, until ctx ends.
func (w watcher) watch(ctx context.Context, every time.Duration, told <-chan struct{}) {
	for ctx.Err() == nil {
		if err := w.round(ctx); err != nil && ctx.Err() == nil {
			w.say("%s", oneLine(errorText(err)))
		}
		_ = sleep(ctx, time.Second) // however often it is told
		select {
		case <-ctx.Done():
		case <-told:
		case <-time.After(every - time.Second):
		}
	}
}

func (w watcher) say(format string, args ...any) {
	if !w.quiet {
		fmt.Fprintf(w.stdout, format+"\n", args...)
	}
}

// git runs the user's git in the checkout, with the user's configuration, and without a question.
func (w watcher) git(ctx context.Context, args ...string) (string, error) {
	return w.gitWith(ctx, nil, args...)
}

func (w watcher) gitWith(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", w.root}, args...)...)
	cmd.Env = append(append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"), env...)
	out, said := bounded.Ends{Limit: maxGitOutput}, bounded.Ends{Limit: 1000}
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err == nil && out.Dropped() > 0 {
		err = errors.New("it says too much")
	}
	if err != nil {
		err = agentbox.Errorf(agentbox.Unavailable, "git %s: %w: %s", args[0], err, agentbox.Printable(strings.TrimSpace(string(said.Bytes()))))
	}
	return string(out.Bytes()), err
}

// round asks once, and carries out what follows. It goes on behind a branch that fails.
func (w watcher) round(ctx context.Context) error {
	text, err := w.git(ctx, "ls-remote", "--symref", "--", w.remote, "HEAD", "refs/heads/*")
	if err != nil {
		return err
	}
	now, err := project.ParseHeads(text)
	if err == nil && len(now.Branches) == 0 { // rather than that all are gone
		err = agentbox.Errorf(agentbox.NotFound, "%s has no branches", w.remote)
	}
	if err != nil {
		return err
	}
	known, err := w.known(ctx)
	if err != nil {
		return err
	}
	if err := w.fetch(ctx, now, known); err != nil {
		return err
	}
	prepare, gone := now.Since(known, w.findMerged(ctx, now))
	var failed error
	for _, name := range gone { // first: a new one may need its name
		failed = errors.Join(failed, w.cleanUp(ctx, name))
	}
	for _, name := range prepare {
		commit := now.Branches[name]
		if len(known) > 0 || name == now.Default {
			if err := w.prepare(ctx, name, commit); err != nil {
				failed = errors.Join(failed, fmt.Errorf("branch %s: %w", name, err))
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// What has failed is tried again when something else was pushed.
		if _, err := w.git(ctx, "update-ref", w.ref(name), commit); err != nil {
			return err
		}
	}
	return failed
}

func (w watcher) ref(branch string) string { return watchedRefs + w.remote + "/" + branch }

// known are the branches that were made ready, with their commits.
func (w watcher) known(ctx context.Context) (map[string]string, error) {
	text, err := w.git(ctx, "for-each-ref", "--format=%(objectname) %(refname)", w.ref(""))
	all := map[string]string{}
	for line := range strings.Lines(text) {
		commit, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name, ok := strings.CutPrefix(ref, w.ref("")); ok {
			all[name] = commit
		}
	}
	return all, err
}

// fetch gets the commits of branches that have changed. It moves no branch.
func (w watcher) fetch(ctx context.Context, now project.Heads, known map[string]string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc", "--refmap=", "--", w.remote}
	n := len(args)
	for name, commit := range now.Branches {
		if _, looked := w.merged[[2]string{commit, now.Branches[now.Default]}]; looked || known[name] == commit {
			continue
		}
		if _, err := w.git(ctx, "cat-file", "-e", commit+"^{commit}"); err != nil {
			args = append(args, "refs/heads/"+name)
		}
	}
	if len(args) == n {
		return nil
	}
	_, err := w.git(ctx, args...)
	return err
}

// findMerged finds the commits of branches that the default branch has, too.
func (w watcher) findMerged(ctx context.Context, now project.Heads) map[string]bool {
	all, into := map[string]bool{}, now.Branches[now.Default]
	if len(w.merged) > 100_000 {
		clear(w.merged)
	}
	for name, commit := range now.Branches {
		if name == now.Default || into == "" {
			continue
		}
		of := [2]string{commit, into}
		if _, looked := w.merged[of]; !looked {
			w.merged[of] = w.isMerged(ctx, commit, into)
		}
		all[commit] = w.merged[of]
	}
	return all
}

// isMerged tells whether a branch has a commit, or what was done up to it: each of its changes, as after a
// rebase, or all of them in one, as after a squash.
func (w watcher) isMerged(ctx context.Context, commit, into string) bool {
	if _, err := w.git(ctx, "merge-base", "--is-ancestor", commit, into); err == nil {
		return true
	}
	base, err := w.git(ctx, "merge-base", into, commit)
	if err != nil {
		return false
	}
	// The same commit each time, so that there is one of it.
	nobody := []string{"GIT_AUTHOR_NAME=agentbox", "GIT_AUTHOR_EMAIL=agentbox", "GIT_AUTHOR_DATE=@0 +0000", "GIT_COMMITTER_NAME=agentbox", "GIT_COMMITTER_EMAIL=agentbox", "GIT_COMMITTER_DATE=@0 +0000"}
	squashed, err := w.gitWith(ctx, nobody, "commit-tree", "-p", strings.TrimSpace(base), "-m", "squashed", commit+"^{tree}")
	if err != nil {
		return false
	}
	for _, tip := range []string{strings.TrimSpace(squashed), commit} {
		// A line for each commit: - if there is an equal one.
		lines, err := w.git(ctx, "cherry", into, tip)
		if err == nil && lines != "" && !strings.Contains("\n"+lines, "\n+") {
			return true
		}
	}
	return false
}

// prepare makes what boxes of a branch begin with, by making one.
func (w watcher) prepare(ctx context.Context, name, commit string) error {
	recipe, err := w.git(ctx, "ls-tree", "--name-only", commit, "--", "agentbox.yaml", ".devcontainer", ".devcontainer.json")
	if err != nil || recipe == "" {
		return err
	}
	if err := w.awaitIdle(ctx); err != nil {
		return err
	}
	begun := time.Now()
	made, err := call(ctx, w.app, api.SourceOfCommit, api.CommitRef{Directory: w.root, Commit: commit, Branch: name})
	if err != nil {
		return err
	}
	resp, err := w.up(ctx, api.UpRequest{Source: &made.Source})
	if err != nil {
		return err
	}
	if resp.Created {
		if _, err := call(context.WithoutCancel(ctx), w.app, api.Remove, api.BoxRef{Box: resp.Box.ID.String()}); err != nil {
			return err
		}
	}
	w.say("branch %s is ready at %s, in %s", name, commit[:12], tookText(time.Since(begun)))
	return nil
}

// awaitIdle waits until this machine has nothing better to do.
func (w watcher) awaitIdle(ctx context.Context) error {
	for said := w.always; ; said = true {
		now, err := call(ctx, w.app, api.ShowIdle, api.None{})
		if err != nil || w.always || len(now.Busy) == 0 {
			return err
		}
		if !said {
			w.say("waits until this machine is idle: %s", againstText(now.Busy[0]))
		}
		if err := sleep(ctx, 10*time.Second); err != nil {
			return err
		}
	}
}

// cleanUp removes what a branch had here, except boxes that somebody is in: they are tried again.
func (w watcher) cleanUp(ctx context.Context, name string) error {
	boxes, err := call(ctx, w.app, api.ListBoxes, api.ListRequest{})
	if err != nil {
		return err
	}
	tasks, err := call(ctx, w.app, api.ListTasks, api.TaskList{All: true})
	if err != nil {
		return err
	}
	ofTask := func(b agentbox.Box) bool { // it goes by itself
		return slices.ContainsFunc(tasks, func(t agentbox.Task) bool {
			last := t.Last()
			return last != nil && last.BoxName == b.Name
		})
	}
	var stays error
	for _, b := range boxes {
		if b.Project == w.project && b.Branch == name && b.Lifetime == agentbox.LifetimeBranch && !ofTask(b) {
			stays = errors.Join(stays, w.retire(ctx, name, b))
		}
	}
	if stays != nil {
		return stays
	}
	caches, err := call(ctx, w.app, api.DropBranch, api.BranchRef{Directory: w.root, Branch: name})
	if err == nil {
		_, err = w.git(ctx, "update-ref", "-d", w.ref(name))
	}
	if err == nil {
		w.say("branch %s is gone or merged: %s removed", name, agentbox.Plural(len(caches), "result")+" of setup")
	}
	return err
}

// retire removes a box of a branch whose work is here.
func (w watcher) retire(ctx context.Context, branch string, b agentbox.Box) error {
	ref := api.BoxRef{Box: b.ID.String()}
	if b.Lease.Holders > 0 {
		return agentbox.Errorf(agentbox.Busy, "box %s of branch %s, which is gone, stays as long as somebody is in it", b.Name, branch)
	}
	text := "nothing was done in it"
	kept, err := w.pull(ctx, api.PullRequest{BoxRef: ref, Into: w.root})
	switch {
	case err == nil:
		text = pulledText(kept)
	case agentbox.CodeOf(err) != agentbox.NotFound:
		return err
	}
	lost, err := w.removalOf(ctx, ref.Box, false)
	if err == nil && lost.loss != "" {
		err = agentbox.Errorf(agentbox.Conflict, "%s", lost.loss).WithHint("agentbox rm %s asks", b.Name)
	}
	if err == nil {
		_, err = call(ctx, w.app, api.Remove, ref)
	}
	if err == nil {
		w.say("box %s of branch %s is removed: %s", b.Name, branch, text)
	}
	return err
}
