package toolchain

import (
	"path"

	"agentbox/agentbox"

	"github.com/pelletier/go-toml/v2"
)

// rustVersion is a version of a toolchain: 1.70 or 1.70.0.
var rustVersion = agentbox.Pattern(`^1\.[0-9]{1,3}(\.[0-9]{1,3})?$`)

// readRust takes what the crate, its lock and the pinned toolchain each ask for: the newest counts.
// Where both files of a pin are there, rust-toolchain hides the other: rustup's book, "The
// toolchain file".
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

// These are the toolchains that first understood each edition and each version of Cargo.lock,
// where an older one fails.
var (
	editionsSince = map[string]string{"2018": "1.31", "2021": "1.56", "2024": "1.85"}
	locksSince    = map[string]string{"3": "1.53", "4": "1.78"}
)

// cargoLockVersion stands before the packages; locks without it are of the first versions.
var cargoLockVersion = agentbox.Pattern(`(?m)^version = ([0-9]{1,3})$`)

// lockNeed is what a Cargo.lock asks for by its version; ok is false for one that every toolchain
// reads. Only the head of the file is given: the version stands there.
func lockNeed(file, content string) (n Need, ok bool) {
	found := cargoLockVersion().FindStringSubmatch(content)
	if found == nil || locksSince[found[1]] == "" {
		return Need{}, false
	}
	return Need{Tool: Rust, Constraint: locksSince[found[1]], File: file, Key: "version"}, true
}

// cargoNeed is the oldest toolchain that the crate, or the workspace's crates, build with.
func cargoNeed(file, content string) Need {
	type pkg struct {
		RustVersion any `toml:"rust-version"` // a table where a crate takes it from its workspace
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
	// What the crate takes from its workspace is a table, and no text.
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

// channelNeed reads both forms of rust-toolchain: a table, and the bare name of a channel.
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
