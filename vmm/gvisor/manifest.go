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

// manifest describes a saved state. It covers every byte but those of files of the workspace, of
// which it has names, sizes, modes and times: hashing gigabytes would take longer than the pause. A
// passing one has only sizes.
type manifest struct {
	statedir.Basis

	Images    map[string]image `json:"images"`              // what runsc wrote, by file name
	Disks     bool             `json:"disks,omitempty"`     // with a copy of the workspace, if there is one
	Workspace *agentbox.Digest `json:"workspace,omitempty"` // of the listing of that copy; zero if Transient
	Transient bool             `json:"passing,omitempty"`   // vmm.Transient: digests are zero, and a restore moves the workspace
}

// image is a file of a checkpoint. Its digest is the digest of the digests of its chunks, which are
// hashed in parallel.
type image struct {
	Size   int64           `json:"size"` // bytes
	Digest agentbox.Digest `json:"digest"`
}

// imageNames are the files of a checkpoint, in the order of the descriptors from plan.FDFirst on
// and of Checkpoint's files.
var imageNames = []string{kernelFile, pagesMetaFile, pagesFile}

// Check returns what is wrong with a manifest by itself. It ignores images of other names, which
// nothing opens.
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
	if m.Transient {
		return statedir.WriteManifest(dir, m, durable.Replace)
	}
	return statedir.WriteManifest(dir, m, durable.Create)
}

const chunkSize = 4 << 20

// digestImage hashes size bytes of r, which must have that many. It hashes four chunks at a time,
// to leave CPUs to running machines.
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

// openImages opens the images of a directory, in the order of imageNames, and does not verify them.
// The caller closes them.
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

// verify compares the images that openImages opened with their digests, unless the state is
// passing. Code Corrupt if one does not match or cannot be read.
func (m manifest) verify(ctx context.Context, dir string, files []*os.File) error {
	if m.Transient {
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
