package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"agentbox/agentbox"
)

// HostName is the name by which a box reaches those services on its host's own loopback that the
// user granted. It is below .internal, which is in no public DNS, and neither * nor a wildcard
// covers it.
const HostName = "host.agentbox.internal"

// ToolsName is the name at which a box reaches the tool servers that the user registered on its host,
// at port 80. It leads to no address, and must be named by a rule as HostName must.
const ToolsName = "mcp.agentbox.internal"

// isReserved tells whether a name means something on the host, so that no wildcard covers it.
func isReserved(name string) bool { return name == HostName || name == ToolsName }

// profile maps names as browsers do: case and width folded, then punycode. The characters of a host
// name are checked afterwards, on the result.
var profile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckHyphens(false), idna.StrictDomainName(false))

// maxName and maxLabel are in bytes (RFC 1035).
const (
	maxName  = 253
	maxLabel = 63
)

// CanonicalName returns the one form in which names are compared: lower case, punycode, without the
// trailing dot. It refuses what is not a host name, including addresses in any notation: a resolver
// or a library might take 0x7f.1 for an address that no rule was asked about. It is idempotent.
// Errors are one line, and clip the input.
func CanonicalName(s string) (string, error) {
	if s == "" {
		return "", errors.New("the name is empty")
	}
	if len(s) > 4*maxName {
		return "", errors.New("the name is too long")
	}
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("%q is not a host name", agentbox.Clip(s))
	}
	for _, r := range s {
		if r <= ' ' || r == 0x7f || strings.ContainsRune("%/\\:@?#[]*'\"<>", r) {
			return "", fmt.Errorf("%q is not a host name: it contains %q", agentbox.Clip(s), r)
		}
	}
	name, err := profile.ToASCII(s)
	if err != nil {
		return "", fmt.Errorf("%q is not a host name", agentbox.Clip(s))
	}
	// The rule for text in two directions is applied to what s has, before it is mapped: a symbol can
	// become a letter that may not stand there.
	if again, err := profile.ToASCII(name); err != nil || again != name {
		return "", fmt.Errorf("%q is not a host name", agentbox.Clip(s))
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if len(name) > maxName {
		return "", errors.New("the name is too long")
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if !label(l) {
			return "", fmt.Errorf("%q is not a host name", agentbox.Clip(s))
		}
	}
	if looksNumeric(labels[len(labels)-1]) {
		return "", fmt.Errorf("%q is an address in an unusual notation, not a host name", agentbox.Clip(s))
	}
	return name, nil
}

// CanonicalHost parses a name or an IP address in its ordinary notation, in brackets or not;
// exactly one of the two results is set. An address with a zone is refused, as it means another
// place on every machine.
func CanonicalHost(s string) (string, netip.Addr, error) {
	if addr, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		if addr.Zone() != "" {
			return "", netip.Addr{}, fmt.Errorf("%q has a zone", agentbox.Clip(s))
		}
		return "", addr.Unmap(), nil
	}
	name, err := CanonicalName(s)
	return name, netip.Addr{}, err
}

// label reports whether l may stand between two dots of a name. Underscores are not valid in host
// names, but services use them in names.
func label(l string) bool {
	return l != "" && len(l) <= maxLabel && strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// looksNumeric reports whether programs would take a name that ends in this label for an IPv4
// address:
// 127.1, 0x7f.1, 017700000001.
func looksNumeric(l string) bool {
	if hex, ok := strings.CutPrefix(l, "0x"); ok {
		_, err := strconv.ParseUint(hex, 16, 64)
		return err == nil || hex == ""
	}
	return strings.Trim(l, "0123456789") == ""
}
