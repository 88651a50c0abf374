package config

import (
	"bufio"
	"os"
	"runtime"
	"strings"

	"agentbox/agentbox"
)

// What a key means when nobody set it. docs/configuration.md repeats these for people, and a test
// compares the two.
const (
	// 64 GiB is the size that a box sees; its file is sparse and takes what is written.
	DefaultDisk      = 64 << 30
	DefaultLifetime  = agentbox.LifetimeBranch
	DefaultIsolation = agentbox.Auto
	DefaultPolicy    = "balanced"
	DefaultSuite     = "bookworm" // where the host is neither Debian nor Ubuntu
)

// defaults leaves out what depends on the repository, which complete fills in, and what depends on
// the machine: its size counts when a box is made.
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

// defaultImage makes boxes of the release that this host runs, whose packages apt here can fetch
// and verify without further keys.
func defaultImage() string { return "apt:" + hostSuite("/etc/os-release") }

// hostSuite is the suite of the host's own distribution, because an apt: image is made from the
// host's apt sources. osRelease is the path of a file as os-release(5) describes it. Hosts that are
// no relatives of Debian, and those that cannot be read, give DefaultSuite.
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
	// A derivative names its own release, whose packages its sources hold together with those of
	// the release it is built on; Ubuntu's derivatives give that one too.
	if base := facts["UBUNTU_CODENAME"]; facts["ID"] != "ubuntu" && suiteName().MatchString(base) {
		return base
	}
	return suite
}
