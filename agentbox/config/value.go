package config

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"path"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
)

var (
	// Valid forms of names. Suites, packages and users become arguments of apt and of programs
	// in the box, so none may begin with a dash. Their forms follow Debian; that of service
	// names is our own.
	suiteName   = agentbox.Pattern(`^[a-z][a-z0-9.-]*$`)
	packageName = agentbox.Pattern(`^[a-z0-9][a-z0-9+.-]*(:[a-z0-9-]+)?([=/][A-Za-z0-9.+:~-]+)?$`)
	serviceName = agentbox.Pattern(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$`)
	userName    = agentbox.Pattern(`^[a-z_][a-z0-9_.-]{0,31}$`)
	envName     = agentbox.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
	sizeForm    = agentbox.Pattern(`^([0-9]+)(?:\.([0-9]{1,9}))?\s*([A-Za-z]*)$`)
)

// units maps lower-case size units to bytes. Single letters are binary, as in Docker and
// Kubernetes. A bare number is not allowed (ParseSize), because some readers would take it for
// bytes and others for MiB.
var units = map[string]uint64{
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// ParseSize parses a size such as 2GiB, 512M, 1.5g or 8GB and returns it in bytes, rounded up to
// a whole MiB, the unit of machine sizes. It accepts up to nine fractional digits. The error is
// one line without a code; the caller adds where the text came from.
func ParseSize(s string) (int64, error) {
	m := sizeForm().FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size: write it as 2GiB or 512MiB", s)
	}
	unit, ok := units[strings.ToLower(m[3])]
	if !ok {
		if m[3] == "" {
			return 0, fmt.Errorf("%q has no unit: write it as 2GiB or 512MiB", s)
		}
		return 0, fmt.Errorf("%q has an unknown unit: use KiB, MiB, GiB or TiB", s)
	}
	const grain = 1 << 20
	whole, err := strconv.ParseUint(m[1], 10, 64)
	hi, bytes := bits.Mul64(whole, unit)
	if err != nil || hi != 0 || bytes > math.MaxInt64-unit-grain { // leave room for the additions below
		return 0, fmt.Errorf("%q is too large", s)
	}
	if m[2] != "" {
		fraction, err := strconv.ParseFloat("0."+m[2], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a size: write it as 2GiB or 512MiB", s)
		}
		bytes += uint64(math.Ceil(fraction * float64(unit)))
	}
	return int64((bytes + grain - 1) / grain * grain), nil
}

// parseDuration parses Go's format (1h30m) and whole days (2d). It refuses zero and negative
// durations, which are never a meaningful limit.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok && err != nil {
		var n uint64
		if n, err = strconv.ParseUint(days, 10, 16); err == nil {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write it as 2h, 15m or 90s", s)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%q is not a positive duration", s)
	}
	return d, nil
}

// parsePort parses BOX or HOST:BOX. HOST defaults to BOX.
func parsePort(s string) (agentbox.ConfiguredPort, error) {
	host, box, two := strings.Cut(s, ":")
	if !two {
		box = host
	}
	var p agentbox.ConfiguredPort
	var err error
	if p.Box, err = portNumber(box); err != nil {
		return p, err
	}
	p.Host, err = portNumber(host)
	return p, err
}

// portNumber parses a decimal port from 1 to 65535, without a sign.
func portNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%q is not a port: write 3000, or 8080:3000 for host:box", s)
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %d is out of range: 1 to 65535", n)
	}
	return n, nil
}

// repoGlob checks a glob that must stay inside the repository. Each segment matches names in one
// directory. It treats ** like any other segment; agentbox/artifact gives it its meaning.
func repoGlob(s string) (string, error) {
	for segment := range strings.SplitSeq(s, "/") {
		if _, err := path.Match(segment, ""); err != nil {
			return "", fmt.Errorf("%q is not a glob: write \\[ and \\\\ where [ and \\ stand for themselves", agentbox.Clip(s))
		}
	}
	return repoPath(s)
}

// repoPath checks a path that must stay inside the repository and returns it cleaned:
// slash-separated, without . and .. elements. The file need not exist. Code that opens the path
// must handle links in it.
func repoPath(s string) (string, error) {
	if s == "" {
		return "", errors.New("is empty")
	}
	if path.IsAbs(s) || strings.HasPrefix(s, "~") {
		return "", fmt.Errorf("%q must be relative to the repository", s)
	}
	clean := path.Clean(s)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("%q leads out of the repository", s)
	}
	return clean, nil
}

// boxPath checks a path inside the box, which must be absolute or below the user's home
// directory. It returns the path cleaned, still beginning with / or ~/: only the box can resolve
// the home directory.
func boxPath(s string) (string, error) {
	if s == "~" || path.IsAbs(s) {
		return path.Clean(s), nil
	}
	rest, ok := strings.CutPrefix(s, "~/")
	if !ok {
		return "", fmt.Errorf("%q must be absolute or begin with ~/", s)
	}
	clean := path.Clean(rest)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("%q leads out of the home directory", s)
	}
	return path.Join("~", clean), nil
}
