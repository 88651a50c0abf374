package config

import (
	"bufio"
	"os"
	"runtime"
	"strings"

	"agentbox/agentbox"
)

// Defaults of keys that are not set. docs/configuration.md repeats them, and a test compares the
// two.
const (
	// 64 GiB is the size that a box sees. Its file is sparse and takes only what is written.
	DefaultDisk      = 64 << 30
	DefaultLifetime  = agentbox.LifetimeBranch
	DefaultIsolation = agentbox.Auto
	DefaultPolicy    = "balanced"
	DefaultSuite     = "bookworm" // if the host is neither Debian nor Ubuntu
)

// defaults returns a Config without the parts that depend on the repository, which complete
// fills in, and on the machine, which are chosen when a box is made.
func defaults() *Config {
	return &Config{
		Isolation: DefaultIsolation,
		Disk:      DefaultDisk,
		Lifetime:  DefaultLifetime,
		Pool:      PoolAuto,
		Policy:    DefaultPolicy,
		Env:       map[string]string{},
	}
}

// defaultImage returns the apt: image of this host's release: apt here can fetch and verify its
// packages without further keys.
func defaultImage() string { return "apt:" + hostSuite("/etc/os-release") }

// hostSuite returns the suite of the host's distribution, because an apt: image is made from the
// host's apt sources. osRelease is the path of a file in os-release(5) format. It returns
// DefaultSuite if the host is not related to Debian or the file cannot be read.
func hostSuite(osRelease string) string {
	f, err := os.Open(osRelease)
	if runtime.GOOS != "linux" || err != nil {
		return DefaultSuite
	}
	defer f.Close()
	facts := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), "="); ok {
			facts[key] = strings.Trim(value, `"'`)
		}
	}
	family := " " + facts["ID"] + " " + facts["ID_LIKE"] + " "
	suite := facts["VERSION_CODENAME"]
	if !strings.Contains(family, " debian ") && !strings.Contains(family, " ubuntu ") || !suiteName().MatchString(suite) {
		return DefaultSuite
	}
	// A derivative has a release name of its own, but its sources include the packages of the
	// release it is based on. Ubuntu's derivatives name that one as well.
	if base := facts["UBUNTU_CODENAME"]; facts["ID"] != "ubuntu" && suiteName().MatchString(base) {
		return base
	}
	return suite
}
