package config

import (
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
	"agentbox/vmm/guest/protocol"
)

// PoolAuto lets the daemon choose the size of the warm pool by the free memory of the machine.
const PoolAuto = -1

// Config is the complete configuration of the boxes of one repository, with defaults filled in.
// Paths in the repository are slash-separated and relative to Root, even if the configuration
// was found below Root. Only Load makes a Config; each call returns a new one, which the caller
// may modify.
type Config struct {
	Root     string   // absolute path of the repository's root, or of the directory itself outside a repository
	Path     string   // absolute path of the file; "" when the configuration was detected
	Source   string   // for display: agentbox.yaml, .devcontainer/devcontainer.json, or "detected go.mod, Makefile"
	Warnings []string // what boxes do not do as a devcontainer.json says, one line each

	// Contents of the image. An image named by an OCI reference is used as it is; packages and
	// tools can only be added to apt: images.
	Image     string             // apt:SUITE, or an OCI reference
	Build     *Build             // makes the image where it succeeds; Image is for where it does not
	Packages  []string           // Debian packages added to an apt: image
	Toolchain toolchain.Needs    // tools added to an apt: image, with the files that ask for them
	Include   []Include          // host directories copied into the image
	Kernel    string             // a kernel to use instead of agentbox's own choice; "" for that
	Isolation agentbox.Isolation // agentbox.Auto unless the repository requires a kind
	Machine   string             // for ssh isolation, as ssh takes it; "" for none
	CPUs      int                // 0: chosen by the machine's capacity
	GPUs      int                // of the host, to be approved; agentbox.AllGPUs for all
	Memory    int64              // bytes, whole MiB; 0: chosen by the machine's capacity
	Disk      int64              // bytes, whole MiB
	Least     Least              // what CPUs and Memory are at least where they are 0
	Lifetime  agentbox.Lifetime
	User      string // the user that runs commands in the box; "" for the box's default
	Pool      int    // machines kept restored in advance, or PoolAuto

	// Commands run in the box: setup when its result is made, then start and the services in
	// each life of the machine.
	Setup     []string   // for sh -c, in order; run once per key
	Start     []string   // for sh -c, in order; run at each start of a machine, before the services
	Lockfiles []string   // files whose contents are part of the key of setup and caches
	Caches    []string   // directories in the box, absolute or beginning with ~/
	Services  []Service  // in the order of the file, which is the start order
	Compose   []Composed // of a Compose file, in the order in which they start, before Services
	Ports     []agentbox.ConfiguredPort
	Env       map[string]string
	Derived   map[string]string // like Env; values may have ${containerEnv:NAME}, which Environment replaces
	Checks    []agentbox.Check  // without digests
	Artifacts []string          // globs, relative to Root; ** crosses directories
	Limits    Limits
	Policy    string              // a preset, or a file relative to Root; a request only, until somebody approves it (host/consent)
	Bench     []toolchain.Command // what `agentbox bench` measures, in the order of the file

	features added
}

// Least is the least that a box should get of this machine; 0 for any.
type Least struct {
	CPUs   int   `json:"cpus,omitempty"`
	Memory int64 `json:"memory,omitempty"` // bytes, whole MiB
}

// Build is an image that a Dockerfile makes. Paths are relative to the repository's root, and inside.
type Build struct {
	Dockerfile string            `json:"dockerfile"`
	Context    string            `json:"context"` // "." for the root
	Target     string            `json:"target,omitempty"`
	Args       map[string]string `json:"args,omitempty"`
}

// Built is the configuration of boxes of the image that Build makes: nothing is added to it.
func (c *Config) Built() *Config {
	built := *c
	built.Image, built.Packages, built.Toolchain = "dockerfile:"+c.Build.Dockerfile, nil, nil
	return &built
}

// WithoutBuild is the configuration of boxes where the Dockerfile cannot be built. A user that only
// its image has is not theirs.
func (c *Config) WithoutBuild() *Config {
	own := *c
	if own.Build = nil; own.User != "root" {
		own.User = ""
	}
	return &own
}

// Include is a file or directory of the host that is copied into the image. A repository can
// name any path here; the code that copies decides whether to allow it.
type Include struct {
	From string // path on the host: absolute, or beginning with a variable such as $GOROOT
	To   string // path in the box: absolute, or beginning with ~/
}

// Service is a long-running command of the box.
type Service = protocol.Service

// Limits bound one run or task; Connections and Bytes apply to every box. Zero means no limit.
// The supervisor enforces them; agentbox/place/local/supervisor/limits.go documents how each one ends or
// pauses a box.
type Limits struct {
	Wall        time.Duration // from start to end
	Idle        time.Duration // without output
	CPU         time.Duration // CPU time of the machine
	Connections int           // network connections open at once
	Bytes       int64         // in and out over the network, during one life of the machine
	Cost        float64       // in the currency of the rate table
}

// Suite returns the release of an apt: image and "" for any other image. Tools can be added only
// where there is a suite.
func (c *Config) Suite() string {
	suite, apt := strings.CutPrefix(c.Image, "apt:")
	if !apt {
		return ""
	}
	return suite
}

// SetupOnce reports whether setup runs once per key, in a clean box, instead of once in every
// workspace. This requires lockfiles or caches: without either there is no key by which to find
// a result again.
func (c *Config) SetupOnce() bool {
	return len(c.Setup) > 0 && len(c.Lockfiles)+len(c.Caches) > 0
}
