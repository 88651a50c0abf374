package gvisor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm/statedir"
)

// manifest describes a template or a saved state. Every byte is accounted for, except those of the
// files of a saved workspace, of which it has names, sizes, modes and times. A passing one has
// sizes only. A workspace may hold gigabytes, and hashing them would cost more than the pause.
type manifest struct {
	statedir.Basis

	Images    map[string]image `json:"images"`              // by file name: what runsc wrote
	Disks     bool             `json:"disks,omitempty"`     // saved states: with a copy of the workspace, if there was one
	Workspace *agentbox.Digest `json:"workspace,omitempty"` // of that copy's listing, if there was one; zero when Passing
	Passing   bool             `json:"passing,omitempty"`   // vmm.Passing: digests are zero, and restoring takes the workspace
}

// image is one file of a checkpoint. Its digest is that of the digests of its chunks, which are
// hashed side by side.
type image struct {
	Size   int64           `json:"size"` // bytes
	Digest agentbox.Digest `json:"digest"`
}

// imageNames are the files of a checkpoint, in the order in which the sandbox takes and gives them.
// It never changes; the order is that of plan.FDFirst at a restore, of Checkpoint's files and of a
// template's Files.
var imageNames = []string{kernelFile, pagesMetaFile, pagesFile}

// Check says what is wrong with it, as far as that can be said without the other files. Images of
// other names are ignored: nothing opens them.
func (m manifest) Check() error {
	if err := m.CheckFormat(formatVersion); err != nil {
		return err
	}
	for _, name := range imageNames {
		if i, ok := m.Images[name]; !ok || i.Size < 0 {
			return fmt.Errorf("it does not describe %s", name)
		}
	}
	return nil
}

// write puts the manifest into a directory, durably unless it is passing.
func (m manifest) write(dir string) error {
	if m.Passing {
		return statedir.WriteManifest(dir, m, durable.Replace)
	}
	return statedir.WriteManifest(dir, m, durable.Create)
}

const chunkSize = 4 << 20

// digestImage hashes size bytes of r. The error is that of reading. r must have at least that many
// bytes. Four chunks at a time keep a few CPUs busy without taking them all from machines that run;
// each has its own buffer inside of io.Copy.
func digestImage(ctx context.Context, r io.ReaderAt, size int64) (image, error) {
	chunks := (size + chunkSize - 1) / chunkSize
	sums := make([]byte, chunks*sha256.Size)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i := range chunks {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			h := sha256.New()
			n := min(chunkSize, size-i*chunkSize)
			if read, err := io.Copy(h, io.NewSectionReader(r, i*chunkSize, n)); err != nil || read != n {
				return errors.Join(err, fmt.Errorf("%d bytes instead of %d", read, n))
			}
			copy(sums[i*sha256.Size:], h.Sum(nil))
			return nil
		})
	}
	err := group.Wait()
	return image{size, sha256.Sum256(sums)}, err
}

// openImages opens the images of a directory, in the order of imageNames, for the caller to close.
// It says nothing of their content.
func (m manifest) openImages(dir string) (files []*os.File, err error) {
	for _, name := range imageNames {
		f, err := statedir.Open(dir, name, m.Images[name].Size)
		if err != nil {
			return nil, errors.Join(err, statedir.Close(files...))
		}
		files = append(files, f)
	}
	return files, nil
}

// verify hashes the images that openImages opened, unless nobody did when they were saved. files
// are in the order of imageNames. What does not match, or cannot be read, makes dir Corrupt.
func (m manifest) verify(ctx context.Context, dir string, files []*os.File) error {
	if m.Passing {
		return nil
	}
	for i, name := range imageNames {
		got, err := digestImage(ctx, files[i], m.Images[name].Size)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return statedir.Corrupt(dir, "%s: %w", name, err)
		}
		if got != m.Images[name] {
			return statedir.Corrupt(dir, "%s does not match its digest", name)
		}
	}
	return nil
}
