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

// metaPackages returns the packages that depend on a distribution's newest kernel, best first:
// Debian's cloud kernel, Ubuntu's kernels for virtual machines, then the larger generic ones. arch
// is Debian's name of it, which is Go's, too, for the processors that machines run on.
func metaPackages(arch string) []string {
	return []string{"linux-image-cloud-" + arch, "linux-image-kvm", "linux-image-virtual", "linux-image-" + arch, "linux-image-generic"}
}

// fetch downloads the distribution's kernel as an ordinary user and reads the parts. It installs
// nothing: the packages are unpacked in a temporary directory below Root. apt verifies their
// signatures. Errors: Missing if there is no apt or no package, Unavailable if the download failed.
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
	// An unpacked package has the layout of a directory that `kernel:` may name.
	p, err := readOverride(tree)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", packages[0], err)
	}
	p.Source = packages[0]
	return p, nil
}

var (
	// A package with a version in its name has a kernel; others depend on such a one. Ubuntu has
	// modules in a package of their own.
	concreteKernel  = agentbox.Pattern(`^linux-image-(unsigned-)?[0-9]`)
	concreteModules = agentbox.Pattern(`^linux-modules-[0-9]`)
)

// kernelPackages returns the newest kernel package that apt knows, and the package of its modules
// if that is another one.
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

// aptDepends lists the packages that a package depends on, alternatives included, which apt-cache
// marks with a bar. It is empty if apt does not know the package.
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

// firstMatch returns the first element of list that matches, or "".
func firstMatch(list []string, re *regexp.Regexp) string {
	for _, s := range list {
		if re.MatchString(s) {
			return s
		}
	}
	return ""
}

// download downloads packages into dir. Only the hint of an error depends on apt's words.
func download(ctx context.Context, dir string, packages []string) error {
	args := []string{"download", "-q"}
	if os.Geteuid() == 0 {
		args = append(args, "-o", "APT::Sandbox::User=root") // apt's own user may not write to dir
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

// lastLine returns the most telling line of a failed program's output: its last error, which apt
// begins with "E: ", else its last line, else err.
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
