package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// FileOrigin is the file beside fetched parts that says which member of the team fetched them from
// the distribution. Without the file, this host did.
const FileOrigin = "origin.json"

// origin is the content of FileOrigin. By is the PeerID that Config.FetchRemote returned.
type origin struct {
	By string `json:"by"`
}

// maxParts is the most bytes of kernel.json of parts that another member wrote. An honest one lists
// some dozens of modules.
const maxParts = 1 << 20

// fetchRemote gets parts that another member fetched, and keeps them below fetched like parts that
// were fetched here. It compares every byte with their list, and the release with that of the
// kernel. Config.FetchRemote judges who wrote the list. After any error, fs.ErrNotExist if nobody
// is asked, the next source is tried. The directory has a temporary name until it is verified.
func (c *Config) fetchRemote(ctx context.Context, fetched string) (*parts, error) {
	if c.FetchRemote == nil {
		return nil, fs.ErrNotExist
	}
	tmp, err := newDir(fetched)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	by, err := c.FetchRemote(ctx, tmp)
	if err != nil {
		return nil, err
	}
	p, err := readRemote(tmp)
	if err != nil {
		return nil, err
	}
	// Without an origin the kernel counts as this host's own, and no revocation removes it.
	if by != "" {
		if err := durable.WriteJSON(filepath.Join(tmp, FileOrigin), origin{by}, 0o644); err != nil {
			return nil, err
		}
	}
	if err := publish(tmp, filepath.Join(fetched, p.Release)); err != nil {
		return nil, err
	}
	return p, nil
}

// readRemote reads and verifies parts that another member wrote.
func readRemote(dir string) (*parts, error) {
	info, err := os.Stat(filepath.Join(dir, FileManifest))
	if err != nil || info.Size() > maxParts {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the kernel has no %s, or a long one", FileManifest)
	}
	p, err := loadParts(dir)
	if err == nil {
		err = p.load()
	}
	if err != nil {
		return nil, err
	}
	release, err := imageRelease(p.vmlinuz)
	if err != nil || release != p.Release {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the kernel is not of release %.80q, which its %s says", p.Release, FileManifest)
	}
	return p, nil
}

// Fetched are parts that are kept on this host.
type Fetched struct {
	Release string // as in kernel.json
	Dir     string // its last element is the release
	By      string // PeerID of the member that fetched them from the distribution; "" for this host
	Unknown bool   // By cannot be read and is empty
}

// ListFetched lists fetched parts by name. root is Config.Root. If an origin cannot be read, that
// is an error, and the parts are listed as Unknown.
func ListFetched(root string) ([]Fetched, error) {
	releases, err := releasesIn(filepath.Join(root, "fetched"))
	var out []Fetched
	for _, release := range releases {
		f := Fetched{Release: release, Dir: filepath.Join(root, "fetched", release)}
		var from origin
		readErr := durable.ReadJSON(filepath.Join(f.Dir, FileOrigin), &from)
		f.By, f.Unknown = from.By, readErr != nil
		err = errors.Join(err, readErr)
		out = append(out, f)
	}
	return out, err
}

// releasesIn lists the directories of fetched parts by name, none if fetched does not exist.
func releasesIn(fetched string) ([]string, error) {
	entries, err := os.ReadDir(fetched)
	var out []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return out, err
}

// Drop removes the fetched parts for which gone(Fetched.By) is true or which are Unknown, and the
// kernel directories made from them: those of revoked members. Running machines go on, but their
// saved states fit no other kernel. Drop continues after an error and returns all of them.
func Drop(ctx context.Context, root string, gone func(by string) bool) error {
	list, err := ListFetched(root)
	for _, f := range list {
		if f.Unknown || gone(f.By) {
			err = errors.Join(err, drop(ctx, root, f))
		}
	}
	return err
}

// drop removes fetched parts, holding Root's lock. Kernel directories go first: after a crash the
// parts still tell which ones are left. The parts lose their name before their first file, as
// without their origin they would count as this host's own.
func drop(ctx context.Context, root string, f Fetched) error {
	unlock, err := durable.Lock(ctx, filepath.Join(root, "lock"), nil)
	if err != nil {
		return fmt.Errorf("kernel directory: %w", err)
	}
	defer unlock()
	p, err := loadParts(f.Dir)
	if err != nil {
		return errors.Join(err, removeDir(f.Dir))
	}
	made, err := filepath.Glob(filepath.Join(root, "*", FileManifest)) // the pattern is valid
	for _, file := range made {
		var m manifest
		if readManifest(filepath.Dir(file), &m) == nil && m.Release == p.Release && m.Vmlinuz == p.Vmlinuz {
			err = errors.Join(err, os.RemoveAll(filepath.Dir(file)))
		}
	}
	return errors.Join(err, removeDir(f.Dir))
}

// removeDir removes a directory, which takes another name first.
func removeDir(dir string) error {
	tmp, err := newDir(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(dir, filepath.Join(tmp, "removed")), durable.SyncDir(filepath.Dir(dir)), os.RemoveAll(tmp))
}
