package objects

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// ReadPack reads a whole pack and gives each of its objects to each, in order. base returns what deltas build
// on that is not before them in the pack. It reads at most most bytes of all objects, which it holds until it
// returns. After an error, some may have been given to each.
func ReadPack(r io.Reader, most int64, base func(ID) (Object, error), each func(Object) error) error {
	whole := &summed{r: r, sum: sha1.New()}
	in := bufio.NewReaderSize(whole, 1<<18)
	n, err := readPackHead(in)
	if err != nil {
		return err
	}
	seen := map[int64]Object{}
	var z inflater
	for range n {
		at := whole.n - int64(in.Buffered())
		e, err := z.readEntry(in, most)
		if err != nil {
			return err
		}
		o := Object{e.kind, e.content}
		if e.kind > Tag {
			from, ok := seen[at-e.back]
			if e.kind == nameDelta {
				from, err = base(e.base)
			} else if !ok {
				err = errDelta
			}
			if err == nil {
				o, err = from.apply([][]byte{e.content}, most)
			}
			if err != nil {
				return err
			}
		}
		if most -= int64(len(o.Content)); most < 0 {
			return errLarge
		}
		seen[at] = o
		if err := each(o); err != nil {
			return err
		}
	}
	return endOfPack(in, whole)
}

// readPackHead reads how many objects a pack has.
func readPackHead(in io.Reader) (n uint32, err error) {
	head := make([]byte, packHead)
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, err
	}
	if string(head[:8]) != "PACK\x00\x00\x00\x02" {
		return 0, errors.New("a pack of another version")
	}
	return binary.BigEndian.Uint32(head[8:]), nil
}

// endOfPack reads what follows the objects, which has to be the sum of all.
func endOfPack(in io.Reader, whole *summed) error {
	if n, err := io.Copy(io.Discard, in); err != nil || n != sha1.Size || !bytes.Equal(whole.sum.Sum(nil), whole.last) {
		return fmt.Errorf("a pack with a wrong sum, or with more behind it: %w", errors.Join(err, errDelta))
	}
	return nil
}

// summed reads a pack, and computes the sum of all but its last bytes, which are that sum.
type summed struct {
	r    io.Reader
	sum  hash.Hash
	last []byte // not summed yet: the sum's size of bytes at most
	n    int64
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	s.last = append(s.last, p[:n]...)
	if extra := len(s.last) - sha1.Size; extra > 0 {
		_, _ = s.sum.Write(s.last[:extra])
		s.last = append(s.last[:0], s.last[extra:]...)
	}
	return n, err
}
