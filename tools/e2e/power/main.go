// Command power uses a store in a box whose power fails, and checks afterwards that the store is
// consistent and durable.
//
//	power work DIR    stores, names and evicts until it is killed; prints a line for each durable blob
//	power check DIR   reads these lines from standard input, and checks the blobs and the store
//
// A line is "image DIGEST ROUND" or "stream DIGEST ROUND".
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

// run opens the store as agentbox does after a crash, with two exceptions: gc may remove new data
// (Grace), because it would have nothing to do otherwise, and there is no reserve file. The key is
// constant, so that the names of an earlier run are trusted.
func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: power work|check DIR")
	}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	s, err := cachestore.Open(ctx, cachestore.Config{Dir: args[1], Key: key, ReserveFile: -1, Grace: -1})
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

// work is one round. It stores an image that shares blocks with those of all other rounds, and a
// stream. The pin replaces that of the previous round, so that gc can remove the previous image.
// A blob must survive a loss of power as soon as its line is printed.
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

// content returns what a round stores. It depends on the number alone, so that check needs no copy.
func content(round uint32) (image, stream []byte) {
	image = noise(0, 4*blob.BlockSize)
	copy(image[blob.BlockSize:], noise(round, 1000))
	return image, noise(round, 300<<10)
}

// noise returns n bytes that depend on seed and do not compress.
func noise(seed uint32, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}).Read(b)
	return b
}

// check checks that every stream and the last image of standard input exist, and that the index
// claims nothing that the files do not hold. It checks only the last image, because only that is
// pinned. It ignores an incomplete line at the end of the connection.
func check(ctx context.Context, s *cachestore.Store) error {
	images, streams := 0, 0
	durable := map[string]func() error{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var what string
		var d agentbox.Digest
		var round uint32
		f := strings.Fields(lines.Text())
		if len(f) != 3 || d.UnmarshalText([]byte(f[1])) != nil {
			continue // incomplete
		}
		if _, err := fmt.Sscan(f[2], &round); err != nil {
			continue
		}
		what = f[0]
		image, stream := content(round)
		if what == "image" {
			images++
			durable["image"] = func() error { return same(ctx, s, d, image) }
			continue
		}
		streams++
		durable[f[2]] = func() error { return same(ctx, s, d, stream) }
	}
	for what, verify := range durable {
		if err := verify(); err != nil {
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

// same returns an error unless a blob has the bytes that were stored.
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
