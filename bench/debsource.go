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

// FetchSource unpacks the source of a package of the host's distribution into dir. It asks the
// mirrors of the host's apt, because an address of our own could disappear. It creates scratch and
// dir. Lists and downloads go to scratch, so the host's own apt stays unchanged. apt checks
// signatures with the host's keys. The error is Unavailable without network, and NotFound when the
// distribution has no such source.
func FetchSource(ctx context.Context, pkg, scratch, dir string) error {
	parts, lists, down := filepath.Join(scratch, "parts"), filepath.Join(scratch, "lists"), filepath.Join(scratch, "down")
	for _, d := range []string{parts, filepath.Join(lists, "partial"), filepath.Join(scratch, "cache/archives/partial"), down, dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := writeSourceParts(os.DirFS("/"), parts); err != nil {
		return err
	}
	// Every path that apt writes to is in scratch, so it needs no privileges and leaves nothing.
	options := []string{
		"-q", "-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=" + parts, "-o", "Dir::State::Lists=" + lists,
		"-o", "Dir::Cache=" + filepath.Join(scratch, "cache"),
	}
	if os.Geteuid() == 0 {
		options = append(options, "-o", "APT::Sandbox::User=root") // apt's own user may not write here
	}
	for _, verb := range [][]string{{"update"}, {"source", "--download-only", "--tar-only", pkg}} {
		cmd := exec.CommandContext(ctx, "apt-get", append(options, verb...)...)
		cmd.Dir, cmd.Env = down, append(os.Environ(), "LC_ALL=C")
		if out, err := cmd.CombinedOutput(); err != nil {
			return agentbox.Errorf(agentbox.Unavailable, "fetch the source of %s: %w: %s", pkg, err, LastLine(out)).
				WithHint("--only leaves out what needs it: --only 'work/[pg]*'")
		}
	}
	// The upstream archive alone: the distribution's patches are not part of the project.
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

// writeSourceParts copies the host's apt sources to the directory to, with source packages instead
// of binary ones, because most hosts have no entries for source packages. root is the host's file
// system.
func writeSourceParts(root fs.FS, to string) error {
	names, err := fs.Glob(root, "etc/apt/sources.list.d/*")
	if err != nil {
		return err
	}
	for _, name := range append(names, "etc/apt/sources.list") {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			continue // absent or unreadable: apt as this user would not see it either
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

// sourceList turns the one-line entries of a sources.list into entries for source packages.
func sourceList(list string) string {
	var out strings.Builder
	for line := range strings.Lines(list) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb "); ok {
			fmt.Fprintln(&out, "deb-src", rest)
		}
	}
	return out.String()
}

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
