package config

import (
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
	"agentbox/vmm/guest/protocol"
)

// PoolAuto lets the daemon choose the size of the warm pool from the free memory of the machine.
const PoolAuto = -1

// Config is the configuration of the boxes of one repository, complete: what a file leaves out has
// its default. Paths in the repository are slash-separated and relative to Root, wherever below it
// the configuration was found. It is made by Load alone; callers may change their copy, and nobody
// else holds it.
type Config struct {
	Root     string   // absolute path of the repository's root, or of the directory itself outside a repository
	Path     string   // absolute path of the file that was read; "" when the configuration was detected
	Source   string   // for people: agentbox.yaml, .devcontainer/devcontainer.json, or "detected go.mod, Makefile"
	Warnings []string // one line each: what a devcontainer.json asks for that boxes do not have

	// What the image of the box is made of. An image by OCI reference is taken as it is: packages
	// and tools go into apt: images only.
	Image     string             // apt:SUITE, or an OCI reference
	Packages  []string           // Debian packages added to an apt: image
	Toolchain toolchain.Needs    // tools that are added to an apt: image, with the files that ask for them
	Include   []Include          // directories of the host that are copied into the image
	Kernel    string             // a kernel instead of the one agentbox finds; "" for that one
	Isolation agentbox.Isolation // agentbox.Auto unless the repository insists
	CPUs      int                // 0: as the machine affords
	Memory    int64              // bytes, whole MiB; 0: as the machine affords
	Disk      int64              // bytes, whole MiB
	Lifetime  agentbox.Lifetime
	User      string // the user commands run as in the box; "" for the box's own
	Pool      int    // machines kept restored ahead of need, or PoolAuto

	// What is run in the box, in this order: setup when its result is made, start and the services
	// in each life.
	Setup     []string  // for sh -c, in order, once per key
	Start     []string  // for sh -c, in order, each time a machine of the box starts, before the services
	Lockfiles []string  // files whose content keys setup and caches
	Caches    []string  // directories in the box, absolute or beginning with ~/
	Services  []Service // in the order of the file, which is the order they start in
	Ports     []agentbox.ConfiguredPort
	Env       map[string]string
	Artifacts []string // globs, relative to Root; ** crosses directories
	Limits    Limits
	Policy    string // a preset, or a file relative to Root; only a wish until somebody approved it (host/consent)
	Bench     Bench
}

// Include is a directory (or file) of the host that is copied into the image by content. A
// repository can ask for any path here: the code that copies it decides whether it may.
type Include struct {
	From string // path on the host: absolute, or beginning with a variable such as $GOROOT
	To   string // path in the box: absolute, or beginning with ~/
}

// Service is a long-running command of the box.
type Service = protocol.Service

// Limits bound one run or task, and Connections and Bytes every box; zero means no limit. They are
// given to the supervisor, which enforces them (agentbox/supervisor/limits.go); how each ends or
// pauses a box is told there.
type Limits struct {
	Wall        time.Duration // from start to end
	Idle        time.Duration // without output
	CPU         time.Duration // CPU time of the machine
	Connections int           // network connections open at once
	Bytes       int64         // in and out over the network, in one life of the machine
	Cost        float64       // in the currency of the rate table
}

// Bench holds the commands `agentbox bench` runs; "" where there is none.
type Bench struct {
	Setup string
	Build string
	Test  string
}

// Suite is the release of an apt: image, "" for any other. Only where there is one can tools be
// added.
func (c *Config) Suite() string {
	suite, apt := strings.CutPrefix(c.Image, "apt:")
	if !apt {
		return ""
	}
	return suite
}

// SetupOnce tells whether setup runs once for each key, in a clean box, and not once in every
// workspace: it does when the configuration says what it depends on or what it fills. Without
// either there is no key by which a result could be found again.
func (c *Config) SetupOnce() bool {
	return len(c.Setup) > 0 && len(c.Lockfiles)+len(c.Caches) > 0
}
