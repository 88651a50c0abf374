package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"agentbox/agentbox"
)

// metaPackages are the packages that depend on a distribution's newest kernel for virtual machines,
// best first: Debian's cloud kernel, then Ubuntu's. The generic ones are larger but work. arch is
// Debian's name, which for the processors that we run on is Go's.
func metaPackages(arch string) []string {
	return []string{"linux-image-cloud-" + arch, "linux-image-kvm", "linux-image-virtual", "linux-image-" + arch, "linux-image-generic"}
}

// fetch downloads the distribution's kernel as an ordinary user and reads what is needed from it.
// Nothing is installed: the packages are downloaded into a temporary directory below Root and
// unpacked there. What apt verified by its signatures is believed. Errors: Missing where there is
// no apt or no package, Unavailable where the download failed, each with what to do instead.
func (c *Config) fetch(ctx context.Context) (*parts, error) {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, agentbox.Errorf(agentbox.Missing, "there is no guest kernel, and no %s to fetch one with", tool).
				WithHint("put a vmlinuz and its modules somewhere and name it with the `kernel:` key")
		}
	}
	packages, err := kernelPackages(ctx, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(c.Root, ".fetch-")
	if err != nil {
		return nil, fmt.Errorf("fetch kernel: %w", err)
	}
	defer os.RemoveAll(tmp)
	c.Progress("downloading " + packages[0])
	if err := download(ctx, tmp, packages); err != nil {
		return nil, err
	}
	c.Progress("unpacking " + packages[0])
	tree := filepath.Join(tmp, "tree")
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) == 0 {
		return nil, agentbox.Errorf(agentbox.Internal, "apt-get download left no package of %s", packages[0])
	}
	for _, deb := range debs {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, tree).CombinedOutput(); err != nil {
			return nil, agentbox.Errorf(agentbox.Corrupt, "unpack %s: %s", filepath.Base(deb), lastLine(out, err))
		}
	}
	// An unpacked package looks like what a user could name by the `kernel:` key.
	p, err := readOverride(tree)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", packages[0], err)
	}
	p.Source = packages[0]
	return p, nil
}

var (
	// A package with a version in its name holds a kernel; one without depends on such a one.
	// Ubuntu has modules in a package of their own.
	concreteKernel  = agentbox.Pattern(`^linux-image-(unsigned-)?[0-9]`)
	concreteModules = agentbox.Pattern(`^linux-modules-[0-9]`)
)

// kernelPackages names the newest kernel package apt knows, and the package of its modules where
// that is another.
func kernelPackages(ctx context.Context, arch string) ([]string, error) {
	for _, meta := range metaPackages(arch) {
		image := firstMatch(aptDepends(ctx, meta), concreteKernel())
		if image == "" {
			continue
		}
		packages := []string{image}
		if modules := firstMatch(aptDepends(ctx, image), concreteModules()); modules != "" {
			packages = append(packages, modules)
		}
		return packages, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("fetch kernel: %w", err)
	}
	return nil, agentbox.Errorf(agentbox.Missing, "apt knows no kernel package (%s)", metaPackages(arch)[0]).
		WithHint("run `sudo apt-get update`, or name a kernel with the `kernel:` key")
}

// aptDepends lists what a package depends on; nothing when apt does not know it. apt-cache prints
// alternatives with a bar before them; they are taken, too.
func aptDepends(ctx context.Context, pkg string) []string {
	cmd := exec.CommandContext(ctx, "apt-cache", "depends", pkg)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	var depends []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimLeft(line, " |"), "Depends: "); ok {
			depends = append(depends, strings.TrimSpace(name))
		}
	}
	return depends
}

// firstMatch is the first of list that matches, or "".
func firstMatch(list []string, re *regexp.Regexp) string {
	for _, s := range list {
		if re.MatchString(s) {
			return s
		}
	}
	return ""
}

// download puts the packages' files into dir. The sandbox option is for root only: apt then
// downloads as a user of its own, who may not write into dir. apt's words decide about the hint and
// nothing else.
func download(ctx context.Context, dir string, packages []string) error {
	args := []string{"download", "-q"}
	if os.Geteuid() == 0 {
		args = append(args, "-o", "APT::Sandbox::User=root") // its own user may not write to our directory
	}
	cmd := exec.CommandContext(ctx, "apt-get", append(args, packages...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("download %s: %w", packages[0], ctx.Err())
	}
	failed := agentbox.Errorf(agentbox.Unavailable, "download %s: %s", packages[0], lastLine(out, err))
	if bytes.Contains(out, []byte("404")) || bytes.Contains(out, []byte("Can't find")) || bytes.Contains(out, []byte("Unable to locate")) {
		return failed.WithHint("apt's lists are stale: run `sudo apt-get update`")
	}
	return failed.WithHint("check the network, or name a kernel with the `kernel:` key")
}

// lastLine is the most telling line of a failed program's output. apt and dpkg begin errors with
// "E: ". err is for a program that said nothing.
func lastLine(out []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if line, ok := strings.CutPrefix(lines[i], "E: "); ok {
			return line
		}
	}
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return fmt.Sprintf("exit status %d and no message", e.ExitCode())
	}
	return err.Error()
}
