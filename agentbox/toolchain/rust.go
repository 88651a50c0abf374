package toolchain

import (
	"path"

	"agentbox/agentbox"

	"github.com/pelletier/go-toml/v2"
)

// rustVersion matches a version of a toolchain: 1.70 or 1.70.0.
var rustVersion = agentbox.Pattern(`^1\.[0-9]{1,3}(\.[0-9]{1,3})?$`)

// readRust reads the needs of the crate, its lock and the pinned toolchain; the newest counts. If
// both pin files exist, rust-toolchain takes precedence: rustup's book, "The toolchain file".
func readRust(s *scan, dir string) {
	file := path.Join(dir, "Cargo.toml")
	if content, ok := s.read(file); ok {
		s.need(cargoNeed(file, content))
		s.lock(dir, "Cargo.lock")
	}
	file = path.Join(dir, "Cargo.lock")
	if content, ok := s.head(file); ok {
		if n, ok := lockNeed(file, content); ok {
			s.need(n)
		}
	}
	for _, name := range []string{"rust-toolchain", "rust-toolchain.toml"} {
		file := path.Join(dir, name)
		if content, ok := s.read(file); ok {
			s.need(channelNeed(file, content))
			return
		}
	}
}

// The first toolchains that understand each edition and each version of Cargo.lock. Older ones
// fail.
var (
	editionsSince = map[string]string{"2018": "1.31", "2021": "1.56", "2024": "1.85"}
	locksSince    = map[string]string{"3": "1.53", "4": "1.78"}
)

// cargoLockVersion is before the packages. Locks without it are of the first versions.
var cargoLockVersion = agentbox.Pattern(`(?m)^version = ([0-9]{1,3})$`)

// lockNeed returns the need of a Cargo.lock for its version; ok is false for one that every
// toolchain reads. content is the head of the file, which has the version.
func lockNeed(file, content string) (n Need, ok bool) {
	found := cargoLockVersion().FindStringSubmatch(content)
	if found == nil || locksSince[found[1]] == "" {
		return Need{}, false
	}
	return Need{Tool: Rust, Constraint: locksSince[found[1]], File: file, Key: "version"}, true
}

// cargoNeed is the need for the oldest toolchain that builds the crate, or the workspace's.
func cargoNeed(file, content string) Need {
	type pkg struct {
		RustVersion any `toml:"rust-version"` // a table if the crate inherits it from its workspace
		Edition     any `toml:"edition"`
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
	// A field that the crate inherits from its workspace is a table instead of text.
	first := func(own, workspace any) string {
		text, ok := own.(string)
		if !ok {
			text, _ = workspace.(string)
		}
		return text
	}
	if version := first(c.Package.RustVersion, c.Workspace.Package.RustVersion); version != "" {
		return needOf(Rust, file, "rust-version", version)
	}
	return needOf(Rust, file, "edition", editionsSince[first(c.Package.Edition, c.Workspace.Package.Edition)])
}

// channelNeed parses both forms of rust-toolchain: a table, and the bare name of a channel.
func channelNeed(file, content string) Need {
	var c struct {
		Toolchain struct {
			Channel string `toml:"channel"`
		} `toml:"toolchain"`
	}
	if toml.Unmarshal([]byte(content), &c) == nil { // a pin of components alone has no channel
		return needOf(Rust, file, "toolchain.channel", c.Toolchain.Channel)
	}
	return needOf(Rust, file, "", firstWord(content))
}
