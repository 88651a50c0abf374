package snapshot

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox/durable"
	"agentbox/agentbox/git"
	"agentbox/agentbox/git/index"
)

// historyDir is a directory of a mirror with a pack of the history of a commit, and of nothing else, by its
// name: of the last one that a checkout began with. Checkouts have hard links to its files, which nobody
// changes.
const historyDir = "history"

// linkHistory puts the history of a commit into the directory of packs of a repository near the mirror,
// and tells whether it has.
func (m mirror) linkHistory(ctx context.Context, commit, packs string) bool {
	if commit == "" {
		return false
	}
	kept := filepath.Join(m.dir, historyDir, commit)
	if !exists(kept) {
		if has, err := m.has(ctx, commit); err != nil || !has[commit] || m.packHistory(ctx, commit) != nil {
			return false
		}
	}
	return linkPacks(kept, packs) == nil
}

// packHistory makes the pack of a commit's history.
func (m mirror) packHistory(ctx context.Context, commit string) error {
	fresh, err := os.MkdirTemp(m.dir, "incoming-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := git.PackInto(ctx, m, fresh, []string{commit}, false); err != nil {
		return err
	}
	return m.keepHistory(fresh, commit)
}

// keepHistory keeps the packs in a directory as the history of a commit, in place of that of another.
func (m mirror) keepHistory(dir, commit string) error {
	all, fresh := filepath.Join(m.dir, historyDir), filepath.Join(dir, "kept")
	if err := errors.Join(os.Mkdir(fresh, 0o700), linkPacks(dir, fresh), durable.SyncDir(fresh)); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(all), os.Mkdir(all, 0o700), os.Rename(fresh, filepath.Join(all, commit)))
}

// historyPack opens the pack of a commit's history; nil if there is none.
func (m mirror) historyPack(commit string) *os.File {
	names, err := filepath.Glob(filepath.Join(m.dir, historyDir, commit, "pack-*.pack"))
	if err != nil || len(names) != 1 {
		return nil
	}
	f, err := os.Open(names[0])
	if err != nil {
		return nil
	}
	return f
}

// linkPacks links the packs of a directory into another one; the index of each is last.
func linkPacks(from, to string) error {
	n := 0
	for _, pattern := range []string{"pack-*.pack", "pack-*.rev", "pack-*.idx"} {
		names, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			n++
			if err := os.Link(name, filepath.Join(to, filepath.Base(name))); err != nil {
				return err
			}
		}
	}
	if n < 2 {
		return fmt.Errorf("%s has no pack", from)
	}
	return nil
}

// receiveHistory takes a snapshot's history, and has a ref keep it. Into a mirror that had nothing, its pack
// is all of it, and checkouts share that.
func (m mirror) receiveHistory(ctx context.Context, history io.Reader, d Document) error {
	before, err := m.tips(ctx)
	if err != nil {
		return err
	}
	err = m.receive(ctx, history, maxTree, d.Partial, []string{d.Base}, func(dir string) {
		if len(before) == 0 && !d.Partial {
			_ = m.keepHistory(filepath.Join(dir, "pack"), d.Base) // it is only faster with it
		}
	})
	if err != nil {
		return err
	}
	if has, err := m.has(ctx, d.Base); err != nil || !has[d.Base] {
		return errors.Join(err, corruptDocument("%.12s is not a commit", d.Base))
	}
	return m.setRefs(ctx, map[string]string{basesRef + d.Base: d.Base})
}

// likeTree is a checkout that Checkout has made, whose files may be shared.
type likeTree struct {
	root  *os.Root
	files map[string]index.Entry
}

func (l *likeTree) close() {
	if l != nil {
		l.root.Close()
	}
}

// openLike opens a checkout; nil if there is none, or it cannot be read. Files whose mode or time is the
// rest's are not shared: those are set in place.
func openLike(dir string, r rest) *likeTree {
	if dir == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		return nil
	}
	x, err := index.Parse(text)
	if err != nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	l := &likeTree{root, make(map[string]index.Entry, len(x.Entries))}
	for _, e := range x.Entries {
		_, hasMode := r.modes[e.Path]
		_, hasTime := r.times[e.Path]
		if !hasMode && !hasTime && !e.Special {
			l.files[e.Path] = e
		}
	}
	return l
}

// link makes a file of a checkout a link to the one that the other has, if that is known to be the same,
// and tells whether it has.
func (l *likeTree) link(root *os.Root, dir, name, mode, id string, at time.Time) bool {
	if l == nil || mode == "120000" {
		return false
	}
	e, ok := l.files[name]
	if !ok || fmt.Sprintf("%o", e.Mode) != mode || hex.EncodeToString(e.ID[:]) != id || e.MTime != indexTime(at) {
		return false
	}
	from := filepath.Join(l.root.Name(), filepath.FromSlash(name))
	info, err := os.Lstat(from)
	if err != nil {
		return false
	}
	if within, err := l.root.Lstat(name); err != nil || !os.SameFile(within, info) || !info.Mode().IsRegular() || info.Mode().Perm() != permOf(mode) || !info.ModTime().Equal(at) || uint32(info.Size()) != e.Size {
		return false
	}
	return root.MkdirAll(filepath.Dir(name), 0o755) == nil && os.Link(from, filepath.Join(dir, filepath.FromSlash(name))) == nil
}

func permOf(mode string) fs.FileMode {
	if mode == "100755" {
		return 0o755
	}
	return 0o644
}

func indexTime(t time.Time) index.Time {
	return index.Time{Sec: uint32(t.Unix()), Nsec: uint32(t.Nanosecond())}
}

// fillIndex has the index of a checkout know the files that are as it says, so that git does not read
// them all to find out. An index that it cannot read stays as it is.
func (t *treeWriter) fillIndex(gitDir, dir string) error {
	file := filepath.Join(gitDir, "index")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return mirrorError(err)
	}
	x, err := index.Parse(text)
	if err != nil {
		return nil
	}
	for i, e := range x.Entries {
		if e.Special || e.Mode&^0o777 != 0o100000 || t.ids[e.Path] != hex.EncodeToString(e.ID[:]) {
			continue
		}
		if info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(e.Path))); err == nil && info.Mode().IsRegular() {
			x.SetStat(i, uint32(info.Size()), indexTime(info.ModTime()))
		}
	}
	return mirrorError(durable.Replace(file, x.Bytes(), 0o644))
}
