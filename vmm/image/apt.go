package image

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/vmm/guest/javastore"
	"agentbox/vmm/image/rootfs"
)

// basePackages are in every apt image, in addition to Debian's required packages: a shell and its
// tools, certificates, ps and kill, and sudo. netbase has the names of services and protocols.
var basePackages = []string{"bash", "ca-certificates", "coreutils", "netbase", "procps", "sudo"}

// mergedUsrHooks, on the host, come with mmdebstrap and make /bin, /lib and /sbin links from the
// start. Otherwise Debian installs a program that does, and with it Perl, a third of the image.
const mergedUsrHooks = "/usr/share/mmdebstrap/hooks/maybe-merged-usr"

// beforeMergedUsr are the releases that do not have the package usr-is-merged.
var beforeMergedUsr = []string{"buster", "bullseye", "bionic", "focal", "jammy"}

// excludedPaths are patterns of dpkg's path-exclude: files that neither a build nor a box unpacks.
// The directories of manual pages stay, because some packages cannot be installed without them.
var excludedPaths = []string{"/usr/share/doc/*", "/usr/share/man/*/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/lintian/*"}

// hostState are files that a build leaves of the host or of itself. They would make every build
// different. Boxes get their own when they start.
var hostState = []string{
	"/etc/hostname", "/etc/resolv.conf", "/etc/apt/sources.list", "/etc/apt/auth.conf", "/etc/apt/apt.conf", "/var/lib/dbus/machine-id", "/.dockerenv",
	"/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-",
	"/var/cache/debconf/config.dat-old", "/var/cache/debconf/templates.dat-old",
	"/var/lib/dpkg/status-old", "/var/lib/dpkg/available", "/var/lib/dpkg/lock", "/var/lib/dpkg/lock-frontend",
}

// hostFiles are directories all of whose files are host state. The directories themselves stay.
var hostFiles = []string{"/etc/apt/sources.list.d", "/etc/apt/auth.conf.d", "/var/lib/apt/lists", "/var/cache/apt", "/var/cache/ldconfig", "/var/log"}

// apt makes the root file system of a Debian release from the host's apt sources, and sets
// Image.Versions. Code Missing if the host lacks mmdebstrap or the right to run it (bootstrapMode).
func (b *build) apt(ctx context.Context, r Recipe) error {
	_, suite := r.source()
	sources, err := aptSources(os.DirFS("/"), suite)
	if err != nil {
		return err
	}
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "mmdebstrap is not installed, which makes apt images").
			WithHint("`sudo apt-get install mmdebstrap`, or use an OCI image")
	}
	mode, err := bootstrapMode(ctx)
	if err != nil {
		return err
	}
	if err := b.bootstrap(ctx, program, bootstrapArgs(mode, suite, r), sources, suite); err != nil {
		return err
	}
	// Remove what differs from build to build.
	if err := errors.Join(b.removeHostState(), b.javaStore(), b.ownClusters()); err != nil {
		return err
	}
	b.image.Versions, err = b.versions()
	return err
}

// bootstrapArgs returns the command line of mmdebstrap, which reads sources from its standard input
// and writes an archive to its standard output. It is a pure function, and sorts packages.
func bootstrapArgs(mode, suite string, r Recipe) []string {
	packages := slices.Concat(basePackages, r.Packages)
	var hooks []string
	if !slices.Contains(beforeMergedUsr, suite) {
		packages, hooks = append(packages, "usr-is-merged"), []string{"--hook-dir=" + mergedUsrHooks}
	}
	slices.Sort(packages)
	args := []string{"--mode=" + mode, "--variant=minbase", "--format=tar", "--include=" + strings.Join(slices.Compact(packages), ",")}
	args = append(args, hooks...)
	if _, arch, _ := strings.Cut(r.Platform, "/"); arch != "" {
		args = append(args, "--architectures="+cmp.Or(debianArchs[arch], arch))
	}
	for _, pattern := range excludedPaths {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	return append(args, suite, "-", "-")
}

// debianArchs has Debian's names of the architectures that have another name in Go.
var debianArchs = map[string]string{"386": "i386", "arm": "armhf", "arm/v7": "armhf", "arm64/v8": "arm64", "ppc64le": "ppc64el"}

// aptSettings is where packages put settings for apt. A file with a password in it, as that of a
// site's proxy, is not for an image: boxes and the team read it.
const aptSettings = "/etc/apt/apt.conf.d"

// removeHostState removes what the build left of the host, credentials for apt among it, and gives
// programs the empty files that they expect. An empty machine-id means that there is none yet.
func (b *build) removeHostState() error {
	var errs []error
	for _, name := range hostState {
		errs = append(errs, b.tree.Remove(name))
	}
	for _, dir := range hostFiles {
		b.tree.RemoveFiles(dir)
	}
	for name, ino := range b.entriesOf(aptSettings) {
		text, err := ino.ReadAll(maxText)
		if ino.Type() == rootfs.TypeRegular && (err != nil || userinfo().Match(text)) {
			errs = append(errs, b.tree.Remove(path.Join(aptSettings, name)))
		}
	}
	for _, name := range []string{"/etc/machine-id", "/etc/resolv.conf"} {
		errs = append(errs, b.tree.Put(name, &rootfs.Inode{Mode: rootfs.TypeRegular | 0o644, ModTime: epoch}))
	}
	return errors.Join(errs...)
}

// authorities is the file from which Debian makes Java's trust store.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

// javaStore replaces Java's trust store, if there is one. Debian's contains the time at which it
// was made, which would make every build different. Every box writes it again, with its own
// authority.
func (b *build) javaStore() error {
	old := b.tree.Lookup(javastore.Debian, true)
	if old == nil || old.Type() != rootfs.TypeRegular {
		return nil
	}
	bundle, err := b.read(authorities)
	if err != nil {
		return err
	}
	return b.put(javastore.Debian, &rootfs.Inode{Mode: old.Mode, UID: old.UID, GID: old.GID, ModTime: epoch}, javastore.Encode(bundle, epoch))
}

// versions lists dpkg's packages as name=version, sorted: the pins of agentbox.lock.
func (b *build) versions() ([]string, error) {
	ino := b.tree.Lookup("/var/lib/dpkg/status", true)
	if ino == nil {
		return nil, agentbox.Errorf(agentbox.Internal, "mmdebstrap made a file system without a list of packages")
	}
	text, err := ino.ReadAll(64 << 20)
	if err != nil {
		return nil, err
	}
	var list []string
	var name string
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "Package: "); ok {
			name = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "Version: "); ok {
			list = append(list, name+"="+strings.TrimSpace(v))
		}
	}
	slices.Sort(list)
	return list, nil
}
