package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentbox/agentbox/environment"
	native "agentbox/vmm/guest/capture"
)

// The test program is the guest's, too: it is started under that name, as the agent starts itself.
func TestMain(m *testing.M) {
	if serve := map[string]func() error{native.Name: native.Serve, native.TakeName: native.ServeTake}[os.Args[0]]; serve != nil {
		if err := serve(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// nativeGuest is a localGuest with the guest's own program, which has no other to leave anything to.
type nativeGuest struct {
	localGuest
	left *string // why something was left to the script
}

func (h nativeGuest) Exec(ctx context.Context, c environment.Command) (environment.Status, error) {
	args := c.Argv
	switch args[0] {
	case native.Name:
		args = args[:1]
	case native.TakeName:
	default:
		return h.localGuest.Exec(ctx, c)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	var why bytes.Buffer
	cmd.Args, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = args, c.Dir, feed(c.Stdin), c.Stdout, &why, os.Environ()
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		*h.left = why.String()
		return environment.Status{Code: exit.ExitCode()}, nil
	}
	return environment.Status{}, err
}

// sameBothWays takes a snapshot and lists what would be lost, by the guest's own program and by the
// script, and returns why the program left the snapshot to the script, or "".
func sameBothWays(t *testing.T, r rapid.TB, w world) string {
	t.Helper()
	left, why := "", ""
	var found [2]string
	for i, g := range []Guest{localGuest{}, nativeGuest{left: &left}} {
		req := w.request()
		req.Ref, req.Rest, req.All, req.ExportTo = SnapshotOf([6]byte{1}), true, true, ""
		kept, err := Keep(t.Context(), g, req)
		if err != nil {
			r.Fatal(err)
		}
		why = left
		d, id, err := NewDocument(t.Context(), kept, "p")
		if err != nil {
			r.Fatal(err)
		}
		loss, err := Unsaved(t.Context(), g, w.request(), PulledRef("x"))
		if err != nil {
			r.Fatal(err)
		}
		found[i] = strings.Join([]string{id.String(), d.Rest, d.Whole}, " ")
		for _, c := range loss.Commits {
			found[i] += "\ncommit " + c.ID + " " + c.Title
		}
		found[i] += "\n" + strings.Join(slices.Concat(loss.Files, loss.Missing), "\n")
		gitOut(t, w.mirror, "fsck", "--connectivity-only", "--no-dangling")
	}
	if found[0] != found[1] {
		r.Fatalf("the script says\n%s\nand the program\n%s", found[0], found[1])
	}
	return why
}

// The guest's own program and the script say the same of any workspace.
func TestNativeCaptureIsTheScripts(t *testing.T) {
	if program != native.Name {
		t.Errorf("boxes do not have %s", program)
	}
	anySteps(t, 4, func(r *rapid.T, done []string) { sameBothWays(t, r, newWorld(t, scriptOf(done))) })
}

// What is common is not left to the script, and what git would do otherwise than this program is.
func TestNativeCaptureKnowsItsLimits(t *testing.T) {
	isolateGit(t)
	own := []string{
		"rename", "delete", "delete staged", "delete in index", "modify", "same size", "staged and not", "mode", "mode staged", "unusual modes", "links", "link over file", "link over dir",
		"dir over file", "file over dir", "binary", "empty", "large", "sparse", "odd names", "not UTF-8", "case pairs", "commit", "branch", "tags", "ignored", "old times", "own ignore",
	}
	for several := range slices.Chunk(own, 6) {
		t.Run(several[0], func(t *testing.T) {
			if left := sameBothWays(t, t, newWorld(t, scriptOf(several))); left != "" {
				t.Error(left)
			}
		})
	}
	for name, script := range map[string]string{
		"filter":      `git config filter.x.clean 'sed s/a/b/'; echo '*.txt filter=x' >.gitattributes; echo a >>a.txt`,
		"ident":       `echo '*.txt ident' >.git/info/attributes; echo '$Id: 1 $' >>a.txt`,
		"line ends":   `echo '* text=auto' >.gitattributes; printf 'a\r\nb\r\n' >a.txt`,
		"autocrlf":    `git config core.autocrlf true; printf 'a\r\nb\r\n' >a.txt`,
		"no modes":    `git config core.fileMode false; chmod 755 a.txt`,
		"no links":    `git config core.symlinks false; ln -s a.txt link; git add link; rm link; printf a.txt >link`,
		"encoding":    `git config i18n.commitEncoding latin1; echo >>a.txt`,
		"split index": `git update-index --split-index; echo >>a.txt`,
		"unborn":      `git checkout -q --orphan fresh`,
		"damaged":     `printf x >.git/index`,
		"conflict":    steps["merge"], "rebase": steps["rebase"], "bisect": steps["bisect"], "hidden": steps["assume unchanged"], "skipped": steps["skip-worktree"],
		"intent": steps["intent to add"], "sparse": steps["sparse checkout"], "nested": steps["nested"], "submodule": steps["submodule"], "worktree": steps["worktree"],
		"stash": steps["stash"], "detached": steps["detached"] + "; git checkout -q main",
		"unreadable name": `mkdir -p d/.GIT; echo x >d/.GIT/x`,
	} {
		t.Run(name, func(t *testing.T) {
			w, left := newWorld(t, "base\n("+script+") >/dev/null 2>&1 || true"), ""
			_, err := nativeGuest{left: &left}.Exec(t.Context(), environment.Command{Argv: []string{native.Name}, Dir: w.box, Env: map[string]string{"REST": "1"}})
			if err != nil || !strings.Contains(left, "left to the script") {
				t.Errorf("it was not left: %q, %v", left, err)
			}
		})
	}
	if text := "base\necho '* text=auto' >.gitattributes; echo more >>a.txt"; sameBothWays(t, t, newWorld(t, text)) != "" {
		t.Error("attributes that change nothing")
	}
}

// metered counts what a guest sends.
type metered struct {
	nativeGuest
	sent *int
}

func (m metered) Exec(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	cmd.Stdout = io.MultiWriter(cmd.Stdout, m)
	return m.nativeGuest.Exec(ctx, cmd)
}

// wordy is a box that sends more than a pack.
type wordy struct{ nativeGuest }

func (w wordy) Exec(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	status, err := w.nativeGuest.Exec(ctx, cmd)
	_, _ = io.WriteString(cmd.Stdout, "more")
	return status, err
}

// What a box sends beside a pack is not sent on.
func TestPackWithMoreIsNotSentOn(t *testing.T) {
	isolateGit(t)
	w, left := newWorld(t, "base; echo more >>a.txt"), ""
	req := w.request()
	req.Ref, req.Rest, req.All, req.ExportTo = SnapshotOf([6]byte{1}), true, true, ""
	kept, err := Keep(t.Context(), wordy{nativeGuest{left: &left}}, req)
	if err != nil || kept.sent != nil || len(kept.Missing) > 0 || kept.Files != 1 {
		t.Errorf("%+v, %v", kept, err)
	}
}

func (m metered) Write(p []byte) (int, error) {
	*m.sent += len(p)
	return len(p), nil
}

// A snapshot brings the difference to HEAD, and of files that were brought before only what is said of them.
func TestNativeCaptureSendsTheDifference(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `mkdir repo; head -c 1000000 /dev/urandom >repo/large; base`)
	sent, left := 0, ""
	for _, one := range []struct {
		change string
		most   int
		again  bool // what is sent is what a member gets
	}{
		{`head -c 300000 /dev/urandom >untracked`, 310_000, true}, {`rm untracked; echo more >>large`, 4000, true}, {`touch large a.txt`, 2000, false},
		{`printf x | dd conv=notrunc of=large 2>/dev/null`, 4000, true}, {`git commit -qam mine; echo again >>large`, 8000, false},
		{`head -c 1000000 large | tail -c 500000 >moved; mv moved large`, 20_000, false},
	} {
		if out, err := exec.Command("sh", "-c", `cd "$1"; `+one.change, "sh", w.box).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		sent = 0
		req := w.request()
		req.Ref, req.Rest, req.All, req.ExportTo = SnapshotOf([6]byte{1}), true, true, ""
		kept, err := Keep(t.Context(), metered{nativeGuest{left: &left}, &sent}, req)
		if err != nil || left != "" {
			t.Fatalf("%v, %s", err, left)
		}
		if sent > one.most {
			t.Errorf("%q: %d bytes, at most %d", one.change, sent, one.most)
		}
		d, _, err := NewDocument(t.Context(), kept, "p")
		if err != nil {
			t.Fatal(err)
		}
		if again := d.sent != nil; again != one.again {
			t.Errorf("%q: sent on as it came: %v", one.change, again)
		}
		var history, work bytes.Buffer
		err = errors.Join(d.WriteHistory(t.Context(), w.mirror, &history), d.WriteWork(t.Context(), w.mirror, &work))
		if err := errors.Join(err, d.Receive(t.Context(), filepath.Join(t.TempDir(), "there.git"), &history, bytes.NewReader(work.Bytes()))); err != nil {
			t.Errorf("%q: there: %v", one.change, err)
		}
		gitOut(t, w.mirror, "fsck", "--connectivity-only", "--no-dangling")
	}
}
