package toolchain

import (
	"path"
	"strings"

	"agentbox/agentbox"

	"github.com/pelletier/go-toml/v2"
)

// rustVersion is a version of a toolchain: 1.70 or 1.70.0.
var rustVersion = agentbox.Pattern(`^1\.[0-9]{1,3}(\.[0-9]{1,3})?$`)

func readRust(s *scan, dir string) {
	file := path.Join(dir, "Cargo.toml")
	if content, ok := s.read(file); ok {
		s.need(cargoNeed(file, content))
		s.lock(dir, "Cargo.lock")
	}
	for _, name := range []string{"rust-toolchain.toml", "rust-toolchain"} {
		file := path.Join(dir, name)
		if content, ok := s.read(file); ok {
			s.need(channelNeed(file, content))
			return
		}
	}
}

// cargoNeed is the oldest toolchain that the crate, or the workspace's crates, build with.
func cargoNeed(file, content string) Need {
	type pkg struct {
		RustVersion any `toml:"rust-version"` // a table where a crate takes it from its workspace
	}
	var c struct {
		Package   pkg `toml:"package"`
		Workspace struct {
			Package pkg `toml:"package"`
		} `toml:"workspace"`
	}
	if toml.Unmarshal([]byte(content), &c) != nil {
		return Need{Tool: Rust, File: file}
	}
	version, ok := c.Package.RustVersion.(string)
	if !ok {
		version, _ = c.Workspace.Package.RustVersion.(string)
	}
	return rustNeed(file, "rust-version", version)
}

// channelNeed reads both forms of rust-toolchain: a table, and the bare name of a channel.
func channelNeed(file, content string) Need {
	var c struct {
		Toolchain struct {
			Channel string `toml:"channel"`
		} `toml:"toolchain"`
	}
	if toml.Unmarshal([]byte(content), &c) == nil && c.Toolchain.Channel != "" {
		return rustNeed(file, "toolchain.channel", c.Toolchain.Channel)
	}
	return rustNeed(file, "", firstWord(content))
}

func rustNeed(file, key, version string) Need {
	n := Need{Tool: Rust, File: file, Key: key}
	switch version = strings.TrimSpace(version); {
	case version == "", version == "stable":
		n.Key = ""
	case rustVersion().MatchString(version):
		n.Constraint = version
	default:
		n.Refused = clip(version)
	}
	return n
}
