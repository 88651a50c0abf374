package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox/git"
	"agentbox/agentbox/git/objects"
)

// Bounds of what is packed here: how many objects, and how many bytes they have.
const (
	maxFew     = 1000
	maxFewSize = 64 << 20
)

// few is a pack of few objects, which takes git longer to make: it looks for deltas that are smaller still,
// and hashes everything again.
type few []fewObject

type fewObject struct {
	objects.Object
	was   objects.ID // the last version of a file
	delta []byte     // to that; nil for none
}

// few makes a pack of the objects of a git.List. Files are deltas of those at the same path in base, a commit
// or "", as tip, a commit, has them. It is nil where git has to make the pack.
func (m mirror) few(ctx context.Context, list []byte, base, tip string) few {
	if bytes.Count(list, []byte("\n")) > maxFew {
		return nil
	}
	here, err := objects.Open(filepath.Join(m.dir, "objects"))
	if err != nil {
		return nil
	}
	defer here.Close()
	was, err := m.lastVersions(ctx, base, tip)
	if err != nil {
		return nil
	}
	all, left := few{}, int64(maxFewSize)
	for line := range strings.Lines(string(list)) { // ID PATH
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, err := objects.ParseID(name)
		o := fewObject{was: was[id]}
		if err == nil {
			o.Object, err = here.Read(id, left)
		}
		if err != nil {
			return nil
		}
		left -= int64(len(o.Content))
		all = append(all, o)
	}
	if all.findDeltas(here) != nil {
		return nil
	}
	return all
}

// errMuchNew is why git has to find a delta.
var errMuchNew = errors.New("much of a file is new")

// findDeltas makes deltas of what has a last version.
func (f few) findDeltas(here *objects.Store) error {
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i := range f {
		if o := &f[i]; o.was != (objects.ID{}) {
			g.Go(func() error {
				old, err := here.Read(o.was, maxFewSize)
				ok := old.Kind == o.Kind
				if err == nil && ok {
					o.delta, ok = objects.Delta(old.Content, o.Content)
				}
				if !ok && err == nil {
					err = errMuchNew
				}
				return err
			})
		}
	}
	return g.Wait()
}

// lastVersions are the files of base in place of which tip has others.
func (m mirror) lastVersions(ctx context.Context, base, tip string) (map[objects.ID]objects.ID, error) {
	was := map[objects.ID]objects.ID{}
	if base == "" || tip == "" {
		return was, nil
	}
	out, err := m.git(ctx, nil, "diff-tree", "-r", "-z", "--no-renames", "--diff-filter=M", base+"^{tree}", tip+"^{tree}")
	for _, line := range fields(out) { // ":MODE MODE ID ID M", and then the path
		f := strings.Fields(line)
		if !strings.HasPrefix(line, ":") || len(f) != 5 {
			continue
		}
		old, oldErr := objects.ParseID(f[2])
		now, nowErr := objects.ParseID(f[3])
		if oldErr == nil && nowErr == nil {
			was[now] = old
		}
	}
	return was, err
}

func (f few) write(w io.Writer) error {
	out, err := objects.NewPackWriter(w, len(f))
	for _, o := range f {
		switch {
		case err != nil:
		case o.delta != nil:
			err = out.WriteDelta(o.was, o.delta)
		default:
			err = out.Write(o.Kind, len(o.Content), bytes.NewReader(o.Content))
		}
	}
	if err == nil {
		err = out.Close()
	}
	return err
}

// packWork writes a pack of what commits have and base, which may be "", has not.
func (m mirror) packWork(ctx context.Context, w io.Writer, commits []string, present bool, base string) error {
	if !present {
		list, err := git.List(ctx, m, commits, []string{base})
		if err != nil {
			return err
		}
		if f := m.few(ctx, list, base, commits[0]); f != nil {
			return f.write(w)
		}
	}
	return git.PackWork(ctx, m, w, commits, present, base)
}
