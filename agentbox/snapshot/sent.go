package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// acceptWhole is receivePack for a box that has no commits of its own: its pack is what WriteWork would make,
// once more and slower, unless it has another set of objects. It stays in k.kept.sent for that, and is
// unpacked as it comes.
func (k *keepRun) acceptWhole(ctx context.Context, pack io.Reader, tips []string) error {
	sent, err := os.CreateTemp(k.mirror.dir, "incoming-")
	if err != nil {
		return mirrorError(err)
	}
	if err := os.Remove(sent.Name()); err != nil { // it is gone with its last user
		return mirrorError(err)
	}
	in := &copied{from: io.LimitReader(pack, k.req.Limit+1), file: sent, left: k.req.Limit}
	var fresh []string
	err = k.mirror.receive(ctx, in, k.req.Limit, false, tips, func(dir string) {
		fresh, _ = filepath.Glob(filepath.Join(dir, "??", "*"))
	})
	if in.left < 0 {
		err = tooLarge(k.req.Limit)
	} else if in.failed != nil {
		err = agentbox.MarkNoSpace(mirrorError(in.failed))
	}
	whole := false
	if err == nil && len(fresh) > 0 {
		whole, err = k.hasAll(ctx, sent, fresh, tips)
	}
	if err != nil || !whole {
		return errors.Join(err, sent.Close())
	}
	k.kept.sent = sent
	return nil
}

// copied reads what comes, of which file gets a copy, until it is asked to begin again: then it reads that.
type copied struct {
	from  io.Reader
	file  *os.File
	left  int64 // bytes that may still come
	again bool

	failed error // of file
}

func (c *copied) Read(p []byte) (int, error) {
	if c.again {
		return c.file.Read(p)
	}
	n, err := c.from.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errors.New("more comes than may")
	}
	if _, c.failed = c.file.Write(p[:n]); c.failed != nil {
		return 0, c.failed
	}
	return n, err
}

func (c *copied) Seek(offset int64, whence int) (int64, error) {
	if !c.again {
		if _, err := io.Copy(io.Discard, c); err != nil {
			return 0, err
		}
		c.again = true
	}
	return c.file.Seek(offset, whence)
}

// hasAll tells whether a pack has all that tips have and the base has not, and nothing else. fresh are the
// files of those of its objects that were not in the mirror before.
func (k *keepRun) hasAll(ctx context.Context, pack io.ReaderAt, fresh, tips []string) (bool, error) {
	list, err := git.List(ctx, k.mirror, tips, []string{k.req.Base})
	if err != nil {
		return false, mirrorError(err)
	}
	wanted := map[string]bool{}
	for line := range strings.Lines(string(list)) { // ID PATH
		id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		wanted[id] = true
	}
	for _, name := range fresh {
		if !wanted[filepath.Base(filepath.Dir(name))+filepath.Base(name)] {
			return false, nil
		}
	}
	head := make([]byte, 12) // as in unpack
	if _, err := pack.ReadAt(head, 0); err != nil {
		return false, err
	}
	return binary.BigEndian.Uint32(head[8:]) == uint32(len(wanted)), nil
}
