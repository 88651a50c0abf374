package userns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"agentbox/agentbox"
)

// sysctls has the host's settings.
const sysctls = "/proc/sys"

// Explain explains why the launcher could not be started.
func Explain(err error) error { return explainBy(sysctls, err) }

// explainBy looks in the directory settings for those that are known to forbid namespaces.
// It names the first that does, with the command that changes it.
func explainBy(settings string, err error) error {
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("start the launcher: %w", err)
	}
	const forbidden = "this host does not let %s make user namespaces, which machines run in: %w"
	for _, s := range []struct{ name, bad, good string }{
		{"kernel.unprivileged_userns_clone", "0", "1"},
		{"user.max_user_namespaces", "0", "65536"},
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
	} {
		if b, err := os.ReadFile(filepath.Join(settings, strings.ReplaceAll(s.name, ".", "/"))); err == nil && strings.TrimSpace(string(b)) == s.bad {
			// The kernel's own error is misleading: it may be "no space left on device".
			return agentbox.Errorf(agentbox.Missing, forbidden, userName(), fmt.Errorf("%s is %s", s.name, s.bad)).
				WithHint("as root: sysctl -w %s=%s", s.name, s.good)
		}
	}
	return agentbox.Errorf(agentbox.Missing, forbidden, userName(), err).
		WithHint("a container needs user namespaces allowed (seccomp, AppArmor); or use --isolation microvm")
}

func userName() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return "an ordinary user"
}
