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

// FileOrigin is the file beside fetched parts that says who got them from the distribution.
const FileOrigin = "origin.json"

// origin is what it holds. Without it, this host did. By is the PeerID that Config.Elsewhere gave.
type origin struct {
	By string `json:"by"`
}

// maxParts bounds kernel.json of parts that somebody else wrote: some dozens of modules.
const maxParts = 1 << 20

// elsewhere gets parts that somebody else fetched, and keeps them below fetched as if they had been
// fetched here. Every byte is what their list says, and the kernel is of the release that it says;
// who wrote the list is for Config.Elsewhere to judge. Its error is fs.ErrNotExist where nobody is
// asked; any error only means that the next source is tried. The directory is filled under a
// temporary name, so what does not fit leaves nothing.
func (c *Config) elsewhere(ctx context.Context, fetched string) (*parts, error) {
	if c.Elsewhere == nil {
		return nil, fs.ErrNotExist
	}
	tmp, err := newDir(fetched)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	by, err := c.Elsewhere(ctx, tmp)
	if err != nil {
		return nil, err
	}
	p, err := readForeign(tmp)
	if err != nil {
		return nil, err
	}
	// Without an origin the kernel counts as this host's own, and goes with no member.
	if by != "" {
		if err := durable.WriteJSON(filepath.Join(tmp, FileOrigin), origin{by}, 0o644); err != nil {
			return nil, err
		}
	}
	if err := appear(tmp, filepath.Join(fetched, p.Release)); err != nil {
		return nil, err
	}
	return p, nil
}

// readForeign reads parts that somebody else wrote.
func readForeign(dir string) (*parts, error) {
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

// Fetched is a kernel that was got for this host, without a guest agent.
type Fetched struct {
	// As in its kernel.json, and the name of Dir.
	Release string
	Dir     string
	By      string // the member that got it from the distribution, as Config.Elsewhere said; "": this host
}

// ListFetched lists them. root is Config.Root. The order is by name. An origin that cannot be read
// is an error, and the kernel is listed all the same, as this host's.
func ListFetched(root string) ([]Fetched, error) {
	releases, err := releasesIn(filepath.Join(root, "fetched"))
	var out []Fetched
	for _, release := range releases {
		f := Fetched{Release: release, Dir: filepath.Join(root, "fetched", release)}
		var from origin
		err = errors.Join(err, durable.ReadJSON(filepath.Join(f.Dir, FileOrigin), &from))
		f.By = from.By
		out = append(out, f)
	}
	return out, err
}

// releasesIn lists the directories of fetched kernels, by name. No directory is an empty one.
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

// Drop removes the fetched kernels of which gone is true, and the kernel directories made from
// them. Machines that run go on; what is saved of them fits no other kernel. It is how what a
// revoked member made goes: gone is asked with Fetched.By. It goes on after an error and returns
// all of them.
func Drop(ctx context.Context, root string, gone func(by string) bool) error {
	list, err := ListFetched(root)
	for _, f := range list {
		if gone(f.By) {
			err = errors.Join(err, drop(ctx, root, f))
		}
	}
	return err
}

// drop removes one fetched kernel, under Root's lock. Kernel directories go first: if that is cut
// short, the parts still say which ones are left.
func drop(ctx context.Context, root string, f Fetched) error {
	unlock, err := durable.Lock(ctx, filepath.Join(root, "lock"), nil)
	if err != nil {
		return fmt.Errorf("kernel directory: %w", err)
	}
	defer unlock()
	p, err := loadParts(f.Dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(f.Dir))
	}
	made, err := filepath.Glob(filepath.Join(root, "*", FileManifest)) // the pattern is valid
	for _, file := range made {
		var m manifest
		if readManifest(filepath.Dir(file), &m) == nil && m.Release == p.Release && m.Vmlinuz == p.Vmlinuz {
			err = errors.Join(err, os.RemoveAll(filepath.Dir(file)))
		}
	}
	return errors.Join(err, os.RemoveAll(f.Dir))
}
