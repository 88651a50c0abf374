package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/git"
	"agentbox/agentbox/git/objects"
)

// fsckOptions tolerates harmless mistakes of old tools, which many histories contain.
const fsckOptions = "--strict=zeroPaddedFilemode=ignore,missingSpaceBeforeDate=ignore,badTimezone=ignore,missingNameBeforeEmail=ignore,nullSha1=ignore,gitmodulesParse=ignore"

// receivePack adds the objects of a pack of at most limit bytes, after git has checked each of
// them. They stay in quarantine, as in a git push, until everything reachable from tips is present.
// tips are full hex. With partial, blobs and trees may be absent: the work is of a partial clone, where
// git gets them when it needs them. Errors: NoSpace beyond limit, Corrupt for a pack that git refuses.
func (m mirror) receivePack(ctx context.Context, pack io.Reader, limit int64, partial bool, tips []string) error {
	return m.receive(ctx, pack, limit, partial, tips, func(string) {})
}

// receive is receivePack, and shows the directory of the objects that were accepted before they are in the
// mirror.
func (m mirror) receive(ctx context.Context, pack io.Reader, limit int64, partial bool, tips []string, show func(dir string)) error {
	quarantine, env, err := m.quarantine()
	if err != nil {
		return err
	}
	defer os.RemoveAll(quarantine)
	loose := m.unpack(ctx, quarantine, env, pack, limit)
	if !loose {
		if err := m.indexPack(ctx, quarantine, env, bufio.NewReader(pack), limit, false); err != nil {
			return packError(err, limit)
		}
	}
	list := strings.NewReader(strings.Join(tips, "\n") + "\n")
	// Each object was checked by itself; this finds missing ones.
	args := []string{"rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"}
	if partial {
		args[1] = "--missing=allow-any"
		args = slices.Insert(args, 1, "--objects")
	}
	if _, _, err := m.Run(ctx, git.Call{Env: env, Stdin: list, Stdout: io.Discard, Args: args}); err != nil {
		return packError(err, limit)
	}
	show(quarantine)
	if loose {
		// Like git it leaves it to the file system that they are there before refs that name them.
		return mirrorError(objects.MoveLoose(quarantine, filepath.Join(m.dir, "objects")))
	}
	return m.movePacks(filepath.Join(quarantine, "pack"))
}

// quarantine makes a directory of objects that are not in the mirror yet, and the environment for git to use
// both. It is inside the mirror, so that adopting a pack is a rename.
func (m mirror) quarantine() (dir string, env []string, err error) {
	if dir, err = os.MkdirTemp(m.dir, "incoming-"); err != nil {
		return "", nil, mirrorError(err)
	}
	return dir, []string{"GIT_OBJECT_DIRECTORY=" + dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(m.dir, "objects")}, nil
}

// index adds the objects of a pack that this host made, and shows the directory of packs that has it before.
func (m mirror) index(ctx context.Context, pack func(context.Context, io.Writer) error, show func(packs string)) error {
	dir, env, err := m.quarantine()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	err = background.Pipe(ctx, pack, func(ctx context.Context, r io.Reader) error {
		return m.indexPack(ctx, dir, env, bufio.NewReader(r), math.MaxInt64-1, true)
	})
	if err != nil {
		return mirrorError(err)
	}
	packs := filepath.Join(dir, "pack")
	show(packs)
	return m.movePacks(packs)
}

// unpack makes a file of each object of a pack that has few and can be read again, and tells whether it has:
// index-pack would copy, and hash, all that deltas build on. Files it writes itself; what git reads to find
// its way, all other objects, git checks and writes. A failure is left to index-pack, which tolerates more.
func (m mirror) unpack(ctx context.Context, quarantine string, env []string, pack io.Reader, limit int64) bool {
	again, ok := pack.(io.ReadSeeker)
	if !ok {
		return false
	}
	in := bufio.NewReader(again)
	head, err := in.Peek(12) // "PACK", the version, and how many objects follow
	if err == nil && binary.BigEndian.Uint32(head[8:]) > maxLoose {
		err = errManyObjects
	}
	var structure *bytes.Buffer
	if err == nil {
		structure, err = m.unpackFiles(ctx, quarantine, in, min(limit, maxUnpacked))
	}
	if err == nil {
		_, _, err = m.Run(ctx, git.Call{Env: env, Stdin: structure, Stdout: io.Discard, Args: []string{"-c", "core.compression=0", "unpack-objects", "-q", "--strict"}})
	}
	if err == nil {
		return true
	}
	_, _ = again.Seek(0, io.SeekStart) // else index-pack fails, too
	written, _ := filepath.Glob(filepath.Join(quarantine, "??"))
	for _, dir := range written {
		_ = os.RemoveAll(dir) // the caller removes all
	}
	return false
}

// errManyObjects is why a pack stays one.
var errManyObjects = errors.New("it has many objects")

// indexPack puts a pack into the quarantine, with its index, after each of its objects was checked, unless
// this host made it, as own says. One of few objects, hence large ones if it takes time at all, is indexed
// here while it comes: git uses one processor for that, and hashes everything twice. git checks what is no
// file, and does what is left to it.
func (m mirror) indexPack(ctx context.Context, quarantine string, env []string, pack *bufio.Reader, limit int64, own bool) error {
	if head, err := pack.Peek(12); err != nil || binary.BigEndian.Uint32(head[8:]) > objects.MaxIndexed {
		return m.gitIndexPack(ctx, env, pack, limit, own)
	}
	dir := filepath.Join(quarantine, "pack")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return mirrorError(err)
	}
	raw, err := os.OpenFile(filepath.Join(dir, "coming"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return mirrorError(err)
	}
	defer raw.Close()
	var structure []objects.Object
	left := int64(maxUnpacked)
	err = objects.Index(ctx, pack, raw, limit, func(o objects.Object) error {
		if left -= int64(len(o.Content)); left < 0 {
			return errManyObjects
		}
		structure = append(structure, o)
		return nil
	})
	if err == nil {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return mirrorError(raw.Sync()) })
		if !own {
			g.Go(func() error { return m.check(ctx, quarantine, structure) })
		}
		return g.Wait()
	}
	if _, err := io.Copy(raw, io.LimitReader(pack, limit+1)); err != nil {
		return mirrorError(err)
	}
	if _, err := raw.Seek(0, io.SeekStart); err != nil {
		return mirrorError(err)
	}
	// By a pipe: of a file, git refuses one with more behind the pack.
	return errors.Join(m.gitIndexPack(ctx, env, bufio.NewReader(raw), limit, own), mirrorError(os.Remove(raw.Name())))
}

// gitIndexPack is indexPack by git.
func (m mirror) gitIndexPack(ctx context.Context, env []string, pack io.Reader, limit int64, own bool) error {
	// To compress again what deltas build on would take longer than all the rest.
	args := []string{"-c", "core.compression=0", "index-pack", "--stdin", "--fix-thin", fmt.Sprintf("--max-input-size=%d", limit)}
	if !own {
		args = append(args, fsckOptions)
	}
	_, _, err := m.Run(ctx, git.Call{Env: env, Stdin: pack, Stdout: io.Discard, Args: args})
	return err
}

// check has git look at objects of the quarantine, as it does with those that come to it: at their form, and
// at what they name, files of git's own among that.
func (m mirror) check(ctx context.Context, quarantine string, all []objects.Object) error {
	scratch := filepath.Join(quarantine, "checked")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return mirrorError(err)
	}
	defer os.RemoveAll(scratch)
	return background.Pipe(ctx, func(_ context.Context, w io.Writer) error { return objects.WritePack(w, all) }, func(ctx context.Context, r io.Reader) error {
		_, _, err := m.Run(ctx, git.Call{Stdin: r, Stdout: io.Discard, Args: []string{"-c", "core.fsync=none", "-c", "core.compression=0", "index-pack", "--stdin", fsckOptions},
			Env: []string{"GIT_OBJECT_DIRECTORY=" + scratch, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quarantine + ":" + filepath.Join(m.dir, "objects")}})
		return err
	})
}

// maxWaiting is how many files are written at once: more than there are processors, as they wait for disks.
const maxWaiting = 16

// maxUnpacked bounds what is held of a pack that is read here, in bytes.
const maxUnpacked = 128 << 20

// unpackFiles writes the files of a pack into a directory of objects, and returns a pack of all else.
func (m mirror) unpackFiles(ctx context.Context, to string, pack io.Reader, most int64) (*bytes.Buffer, error) {
	here, err := objects.Open(filepath.Join(m.dir, "objects"))
	if err != nil {
		return nil, err
	}
	defer here.Close()
	var structure []objects.Object
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxWaiting)
	err = objects.ReadPack(pack, most, func(id objects.ID) (objects.Object, error) { return here.Read(id, most) }, func(o objects.Object) error {
		if o.Kind != objects.Blob {
			structure = append(structure, o)
			return ctx.Err()
		}
		g.Go(func() error {
			_, err := objects.WriteLoose(to, o, true)
			return err
		})
		return ctx.Err()
	})
	rest := &bytes.Buffer{}
	return rest, errors.Join(err, g.Wait(), objects.WritePack(rest, structure))
}

// packError returns the error for a pack that git did not accept.
func packError(err error, limit int64) error {
	failed, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	if strings.Contains(failed.Stderr, "exceeds maximum allowed size") {
		return tooLarge(limit)
	}
	return agentbox.Errorf(agentbox.Corrupt, "git refuses what the box sent: %s", agentbox.Printable(failed.Error()))
}

func tooLarge(limit int64) error {
	return agentbox.Errorf(agentbox.NoSpace, "the work in the box is larger than %d MiB", limit>>20).
		WithHint("copy what matters: agentbox cp BOX:PATH DIR")
}

// movePacks moves packs into the mirror. The index of each comes last, because git ignores a pack
// without one.
func (m mirror) movePacks(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return mirrorError(err)
	}
	packs := filepath.Join(m.dir, "objects", "pack")
	// Two boxes may send the same pack. Its name derives from its contents, so either copy will
	// do.
	for _, suffix := range []string{".pack", ".rev", ".idx"} {
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), suffix) {
				continue
			}
			if err := os.Rename(filepath.Join(dir, e.Name()), filepath.Join(packs, e.Name())); err != nil {
				return mirrorError(err)
			}
		}
	}
	return mirrorError(durable.SyncDir(packs))
}
