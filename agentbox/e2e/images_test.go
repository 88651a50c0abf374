package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"agentbox/agentbox"
)

// images are those that several scripts start from and the seed lacks, by their homes. The first
// script that needs one makes it. Meanwhile the others wait, and give up their slots.
type images struct {
	mu    sync.Mutex
	homes map[string]*madeImage
}

type madeImage struct {
	done chan struct{}
	err  error // once done
}

// cmdImage adds to the script's home the image of Debian with these packages, as for a
// configuration with the same list.
func cmdImage(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 0, "image PACKAGE...")
	ts.Check(shared.image(ts.Getenv("AGENTBOX_HOME"), ts.Value(roomKey{}).(slots), args))
}

func (w *world) image(home string, room slots, packages []string) error {
	list := strings.Join(slices.Sorted(slices.Values(packages)), ", ")
	digest, _, err := agentbox.DigestOf(strings.NewReader(list))
	if err != nil {
		return err
	}
	from := filepath.Join(w.seed+"-images", digest.Hex()[:8])
	w.images.mu.Lock()
	made := w.images.homes[from]
	first := made == nil
	if first {
		made = &madeImage{done: make(chan struct{})}
		w.images.homes[from] = made
	}
	w.images.mu.Unlock()
	if first {
		made.err = w.makeImage(from, list)
		close(made.done)
	}
	select {
	case <-made.done:
	default:
		room.without(func() { <-made.done })
	}
	for _, name := range []string{"images/images", "images/recipes"} {
		if made.err == nil {
			err = errors.Join(err, linkEntries(filepath.Join(home, name), filepath.Join(from, name)))
		}
	}
	return errors.Join(made.err, err)
}

// makeImage makes an image in a home of its own, unless it is there.
func (w *world) makeImage(home, packages string) error {
	dir := filepath.Join(w.dir, "of-"+filepath.Base(home))
	for _, made := range []string{home, dir} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	config := fmt.Sprintf("image: apt:bookworm\npackages: [%s]\n", packages)
	if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte(config), 0o644); err != nil {
		return err
	}
	program := filepath.Join(w.bin, "agentbox")
	return w.each(dir, home, []string{"git", "init", "-q"}, []string{program, "image", "build", "-q"}, []string{program, "daemon", "stop"})
}
