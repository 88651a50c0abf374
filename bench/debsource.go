package bench

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
)

// fetchSource unpacks the source of a package of the host's distribution into dir, from where the
// host's apt gets its packages: an address of our own would be one more thing that can be gone.
// Nothing of the host's own apt is changed: lists and downloads lie in scratch. Both directories
// are made. Signatures are checked as apt does by the host's keys. Unavailable without the network,
// NotFound when the distribution has no such source.
func fetchSource(ctx context.Context, pkg, scratch, dir string) error {
	parts, lists, down := filepath.Join(scratch, "parts"), filepath.Join(scratch, "lists"), filepath.Join(scratch, "down")
	for _, d := range []string{parts, filepath.Join(lists, "partial"), filepath.Join(scratch, "cache/archives/partial"), down, dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := writeSourceParts(os.DirFS("/"), parts); err != nil {
		return err
	}
	// Every path that apt would write to is in scratch, so it needs no rights and leaves nothing.
	options := []string{
		"-q", "-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=" + parts, "-o", "Dir::State::Lists=" + lists,
		"-o", "Dir::Cache=" + filepath.Join(scratch, "cache"),
	}
	if os.Geteuid() == 0 {
		options = append(options, "-o", "APT::Sandbox::User=root") // its own user may not write here
	}
	for _, verb := range [][]string{{"update"}, {"source", "--download-only", pkg}} {
		cmd := exec.CommandContext(ctx, "apt-get", append(options, verb...)...)
		cmd.Dir, cmd.Env = down, append(os.Environ(), "LC_ALL=C")
		if out, err := cmd.CombinedOutput(); err != nil {
			return agentbox.Errorf(agentbox.Unavailable, "fetch the source of %s: %w: %s", pkg, err, lastLine(out)).
				WithHint("--only leaves out what needs it: --only 'work/[pg]*'")
		}
	}
	// The upstream archive alone: what the distribution changes is no part of the project.
	archives, err := filepath.Glob(filepath.Join(down, pkg+"_*.orig.tar.*"))
	if err != nil || len(archives) == 0 {
		return agentbox.Errorf(agentbox.NotFound, "apt has no source of %s", pkg)
	}
	cmd := exec.CommandContext(ctx, "tar", "-xf", archives[0], "-C", dir, "--strip-components=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", filepath.Base(archives[0]), err, bytes.TrimSpace(out))
	}
	return nil
}

// writeSourceParts writes what the host's apt is told, with sources in the place of binaries, into
// to. root is the host's file system. Most hosts have no entries for sources, as nobody needs them
// from day to day.
func writeSourceParts(root fs.FS, to string) error {
	names, err := fs.Glob(root, "etc/apt/sources.list.d/*")
	if err != nil {
		return err
	}
	for _, name := range append(names, "etc/apt/sources.list") {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			continue // there is none, or it is not ours to read: apt as this user would not see it either
		}
		text := ""
		switch filepath.Ext(name) {
		case ".list":
			text = sourceList(string(b))
		case ".sources":
			text = sourceStanzas(string(b))
		}
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sourceList keeps the entries of one line each (sources.list), as sources.
func sourceList(list string) string {
	var out strings.Builder
	for line := range strings.Lines(list) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb "); ok {
			fmt.Fprintln(&out, "deb-src", rest)
		}
	}
	return out.String()
}

// sourceStanzas keeps those of many lines (deb822), as sources.
func sourceStanzas(stanzas string) string {
	var out strings.Builder
	for line := range strings.Lines(stanzas) {
		if name, _, _ := strings.Cut(line, ":"); strings.EqualFold(name, "types") {
			line = "Types: deb-src\n"
		}
		out.WriteString(line)
	}
	return out.String()
}
