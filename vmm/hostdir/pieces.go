package hostdir

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
)

// Pieces are what the files of a tree consist of, so that another machine which has the same ones need not
// be sent them. A file is one piece; a large one is cut where its own bytes say (the gear hash of FastCDC,
// USENIX ATC 2016), so that a pack of git has pieces in common with another one of the same objects.
type Pieces struct {
	tree  string
	files map[string][]piece // by the path in the tree
}

type piece struct {
	digest agentbox.Digest
	size   int64
}

// Sizes in bytes. A file of less than smallFile is sent as it is.
const (
	smallFile = 1 << 10
	wholeFile = 4 << 20
	minPiece  = 16 << 10
	maxPiece  = 256 << 10
	// cutBits is how many bits of a sum are zero where a file is cut: every 64 KiB, beyond minPiece.
	cutBits = 16
)

// Cut reads all files of a tree, which nothing may change meanwhile. Those it cannot read have no pieces.
func Cut(ctx context.Context, tree string) (*Pieces, error) {
	p, mu := &Pieces{tree, map[string][]piece{}}, sync.Mutex{}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.NumCPU())
	err := filepath.WalkDir(tree, func(at string, e fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || !e.Type().IsRegular() {
			return err
		}
		all.Go(func() error {
			cuts, cutErr := cutFile(at)
			rel, err := filepath.Rel(tree, at)
			if cutErr == nil && len(cuts) > 0 {
				mu.Lock()
				defer mu.Unlock()
				p.files[filepath.ToSlash(rel)] = cuts
			}
			return err
		})
		return nil
	})
	return p, errors.Join(err, all.Wait())
}

func cutFile(name string) (all []piece, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < smallFile {
		return nil, err
	}
	if info.Size() <= wholeFile {
		d, n, err := agentbox.DigestOf(f)
		return []piece{{d, n}}, err
	}
	in, gear := bufio.NewReaderSize(f, 4*maxPiece), gears()
	for {
		p, err := in.Peek(maxPiece)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if len(p) == 0 {
			return all, nil
		}
		n := cut(p, gear)
		all = append(all, piece{sha256.Sum256(p[:n]), int64(n)})
		_, _ = in.Discard(n) // they are there
	}
}

// cut returns where the first piece of p ends, which has maxPiece bytes or is the rest of a file.
func cut(p []byte, gear *[256]uint64) int {
	sum := uint64(0)
	for i := minPiece; i < len(p); i++ {
		if sum = sum<<1 + gear[p[i]]; sum>>(64-cutBits) == 0 {
			return i + 1
		}
	}
	return len(p)
}

// gears is a number for each byte, as random as splitmix64 makes it.
func gears() *[256]uint64 {
	var gear [256]uint64
	for i := range gear {
		x := uint64(i+1) * 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		gear[i] = x ^ x>>31
	}
	return &gear
}

// Index says where pieces are.
type Index map[agentbox.Digest]located

type located struct {
	file string
	at   int64
	size int64
}

// Index is that of all pieces. One of no Pieces is empty.
func (p *Pieces) Index() Index {
	x := Index{}
	if p == nil {
		return x
	}
	for name, cuts := range p.files {
		at := int64(0)
		for _, c := range cuts {
			x[c.digest] = located{filepath.Join(p.tree, filepath.FromSlash(name)), at, c.size}
			at += c.size
		}
	}
	return x
}

// maxDigests bounds what is said of the pieces of a machine: a workspace of some 60 GB.
const maxDigests = 1 << 20

// WriteDigests says which pieces are here.
func (ix Index) WriteDigests(w io.Writer) error {
	n := min(len(ix), maxDigests)
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+n*sha256.Size), uint32(n))
	for d := range ix {
		if n--; n < 0 {
			break
		}
		b = append(b, d[:]...)
	}
	_, err := w.Write(b)
	return err
}

// ReadDigests reads what WriteDigests of another machine wrote.
func ReadDigests(r io.Reader) (there map[agentbox.Digest]bool, err error) {
	var n uint32
	if err := binary.Read(r, binary.BigEndian, &n); err != nil {
		return nil, err
	}
	if n > maxDigests {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the other machine says that it has %d pieces", n)
	}
	there = map[agentbox.Digest]bool{}
	in := bufio.NewReader(io.LimitReader(r, int64(n)*sha256.Size))
	for range n {
		var d agentbox.Digest
		if _, err := io.ReadFull(in, d[:]); err != nil {
			return nil, err
		}
		there[d] = true
	}
	return there, nil
}

// A file of which pieces are there is, in an archive, a byte for each piece, and after isThere its digest,
// after isHere its size and its bytes. sizeRecord of its header is the size of the file.
const (
	isHere     = 0
	isThere    = 1
	sizeRecord = "AGENTBOX.size"
)

// shared returns the pieces of a file with size bytes of which some are there, and how many bytes it has in
// an archive; none if nothing is.
func (a *archive) shared(name string, size int64) (cuts []piece, encoded int64) {
	if a.own == nil {
		return nil, 0
	}
	cuts = a.own.files[name]
	some := false
	for _, c := range cuts {
		size -= c.size
		encoded += 1 + 8 + c.size
		if a.there[c.digest] {
			some = true
			encoded += sha256.Size - 8 - c.size
		}
	}
	if !some || size != 0 {
		return nil, 0
	}
	return cuts, encoded
}

func (a *archive) writePieces(f *os.File, cuts []piece) error {
	for _, c := range cuts {
		var err error
		if a.there[c.digest] {
			_, err = a.out.Write(append([]byte{isThere}, c.digest[:]...))
			_, seekErr := f.Seek(c.size, io.SeekCurrent)
			err = errors.Join(err, seekErr)
		} else if _, err = a.out.Write(binary.BigEndian.AppendUint64([]byte{isHere}, uint64(c.size))); err == nil {
			_, err = io.CopyN(a.out, f, c.size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readPieces writes a file with size bytes of which some pieces are here.
func (ix Index) readPieces(to *os.File, size int64, content io.Reader) (err error) {
	var from *os.File
	defer func() {
		if from != nil {
			err = errors.Join(err, from.Close())
		}
	}()
	for size > 0 {
		var head [1 + 8]byte
		if _, err := io.ReadFull(content, head[:1]); err != nil {
			return err
		}
		n := int64(0)
		switch head[0] {
		case isHere:
			if _, err := io.ReadFull(content, head[1:]); err != nil {
				return err
			}
			if n = int64(binary.BigEndian.Uint64(head[1:])); n <= 0 || n > size {
				return fmt.Errorf("a piece has %d bytes of %d", n, size)
			}
			_, err = io.CopyN(to, content, n)
		case isThere:
			var d agentbox.Digest
			if _, err := io.ReadFull(content, d[:]); err != nil {
				return err
			}
			at, ok := ix[d]
			if n = at.size; !ok || n > size {
				return fmt.Errorf("a piece that was not offered, or of %d bytes of %d", n, size)
			}
			from, err = at.copy(to, from)
		default:
			err = fmt.Errorf("a piece of kind %d", head[0])
		}
		if err != nil {
			return err
		}
		size -= n
	}
	return nil
}

// copy copies a piece. from may be the file that it is in, open, and is what it returns.
func (l located) copy(to, from *os.File) (*os.File, error) {
	if from == nil || from.Name() != l.file {
		if from != nil {
			from.Close()
		}
		var err error
		if from, err = os.Open(l.file); err != nil {
			return nil, err
		}
	}
	if _, err := from.Seek(l.at, io.SeekStart); err != nil {
		return from, err
	}
	_, err := io.CopyN(to, from, l.size) // by the kernel alone
	return from, err
}
