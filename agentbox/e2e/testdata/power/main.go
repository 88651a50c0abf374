// Command power puts a store to work in a box whose power fails, and finds afterwards whether what
// the store promised holds.
//
//	power work DIR    stores, names, evicts and verifies until it is killed, and says on standard output what was promised
//	power check DIR   reads such promises on standard input, and looks
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run opens the store as an agentbox would after a crash, but for two things: gc may drop what is
// new (Grace), as it otherwise would have nothing to do, and no ballast is set aside. The key is
// always the same, so that names of an earlier run are believed.
func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: power work|check DIR")
	}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	s, err := cachestore.Open(ctx, cachestore.Config{Dir: args[1], Key: key, Ballast: -1, Grace: -1})
	if err != nil {
		return err
	}
	if args[0] == "work" {
		for round := rand.Uint32N(1 << 30); err == nil; round++ {
			err = work(ctx, s, round)
		}
	} else {
		err = check(ctx, s)
	}
	return errors.Join(err, s.Close())
}

// work is a round: an image that shares blocks with that of every other round, and a stream. A pin
// of the same name takes the place of the one before, so what that kept goes. What is printed was
// promised: by then it must outlive a loss of power.
func work(ctx context.Context, s *cachestore.Store, round uint32) error {
	image, stream := content(round)
	i, err := s.PutImage(ctx, bytes.NewReader(image), int64(len(image)), blob.Info{Kind: blob.Image})
	if err == nil {
		err = s.Pin(ctx, "image", i.Manifest)
	}
	if err != nil {
		return err
	}
	fmt.Println("image", i.Manifest, round)
	c, err := s.PutStream(ctx, bytes.NewReader(stream), blob.Info{Kind: blob.Cache})
	if err == nil {
		_, err = s.Publish(ctx, blob.Name{Namespace: "cache", Key: fmt.Sprint(round), Manifest: c.Manifest, Scope: blob.Local})
	}
	if err != nil {
		return err
	}
	fmt.Println("stream", c.Manifest, round)
	_, err = s.GC(ctx, cachestore.GCOptions{All: true})
	return err
}

// content is what a round stores. It is made of the number alone, so that check can tell without
// having kept anything.
func content(round uint32) (image, stream []byte) {
	image = noise(0, 4*blob.BlockSize)
	copy(image[blob.BlockSize:], noise(round, 1000))
	return image, noise(round, 300<<10)
}

// noise is n bytes that follow from a seed and cannot be compressed.
func noise(seed uint32, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}).Read(b)
	return b
}

// check finds every stream and the last image that were promised, and an index that claims nothing
// the files do not hold. A line that was cut off promises nothing: it is printed only after the
// store has promised. Of images only the last is pinned, and so promised.
func check(ctx context.Context, s *cachestore.Store) error {
	images, streams := 0, 0
	promised := map[string]func() error{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var what string
		var d agentbox.Digest
		var round uint32
		f := strings.Fields(lines.Text())
		if len(f) != 3 || d.UnmarshalText([]byte(f[1])) != nil {
			continue // the connection broke in it
		}
		if _, err := fmt.Sscan(f[2], &round); err != nil {
			continue
		}
		what = f[0]
		image, stream := content(round)
		if what == "image" {
			images++
			promised["image"] = func() error { return same(ctx, s, d, image) }
			continue
		}
		streams++
		promised[f[2]] = func() error { return same(ctx, s, d, stream) }
	}
	for what, look := range promised {
		if err := look(); err != nil {
			return fmt.Errorf("%s was promised: %w", what, err)
		}
	}
	r, err := s.Verify(ctx, cachestore.VerifyOptions{})
	if err != nil || len(r.Damaged) != 0 || r.Lost != 0 || len(r.Missing) != 0 {
		return fmt.Errorf("verify: %+v, %w", r, err)
	}
	fmt.Printf("kept: %d images, %d streams; %d claims hold\n", images, streams, r.Chunks)
	return nil
}

// same compares a blob with what was stored.
func same(ctx context.Context, s *cachestore.Store, d agentbox.Digest, want []byte) error {
	r, err := s.OpenBlob(ctx, d, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("other bytes")
	}
	return err
}
