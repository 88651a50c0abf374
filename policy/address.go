package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// Class is the kind of place that an address is.
type Class string

// The classes. Ordinary rules cover only Public.
const (
	Public  Class = "public"  // the internet, as far as an address can tell
	Private Class = "private" // private, shared or loopback ranges, and the host's own addresses: reached by explicit grant only
	Refused Class = "refused" // reached by no grant: link-local, metadata, multicast, translation and reserved ranges
)

// metadataNames are names of metadata services. Those that lead to link-local addresses are refused
// there too; some have public addresses, and some are answered by a proxy on the way.
var metadataNames = []string{
	"metadata.google.internal", "metadata.goog", "metadata.azure.internal", "metadata.azure.com", "instance-data.ec2.internal", "instance-data",
	"metadata.oraclecloud.com", "metadata.oci.oraclecloud.com", "metadata.tencentyun.com", "metadata.packet.net", "metadata.platformequinix.com",
	"metadata.digitalocean.com", "api.metadata.cloud.ibm.com", "metadata",
}

// isMetadata describes such an address or name in verdicts.
const isMetadata = "a platform's metadata service"

// isMetadataName reports whether a canonical name is that of a metadata service, or below one.
// Names are checked in addition to addresses because the host's resolver may answer them with any
// address.
func isMetadataName(name string) bool {
	return slices.ContainsFunc(metadataNames, func(m string) bool { return name == m || strings.HasSuffix(name, "."+m) })
}

// special lists the ranges that are not public. The first match counts, so exceptions come before
// the wider range that contains them, and ::/0 at the end refuses everything unknown. Documentation
// ranges are absent: no route leads there except in networks that chose to use them.
//
// First are the addresses outside of link-local at which platforms serve their machines'
// credentials and settings. Each comes from the platform's own documentation or client, and is
// refused even within a granted private range.
var special = []struct {
	prefix netip.Prefix
	class  Class
	what   string
}{
	{netip.MustParsePrefix("168.63.129.16/32"), Refused, isMetadata},       // Azure: WireServer, at a public address
	{netip.MustParsePrefix("100.100.100.200/32"), Refused, isMetadata},     // Alibaba
	{netip.MustParsePrefix("100.96.0.96/32"), Refused, isMetadata},         // Volcengine
	{netip.MustParsePrefix("192.0.0.192/32"), Refused, isMetadata},         // Oracle, classic
	{netip.MustParsePrefix("fd00:ec2::/32"), Refused, isMetadata},          // AWS: metadata, credentials of pods, and the resolver beside them
	{netip.MustParsePrefix("fd20:ce::254/128"), Refused, isMetadata},       // Google
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), Refused, isMetadata}, // Oracle
	{netip.MustParsePrefix("fd00:42::42/128"), Refused, isMetadata},        // Scaleway
	{netip.MustParsePrefix("fd00:a9fe:a9fe::/64"), Refused, isMetadata},    // Akamai
	{netip.MustParsePrefix("fd00:100::100:200/128"), Refused, isMetadata},  // Alibaba
	{netip.MustParsePrefix("0.0.0.0/8"), Refused, "\"this network\""},
	{netip.MustParsePrefix("10.0.0.0/8"), Private, "a private range"},
	{netip.MustParsePrefix("100.64.0.0/10"), Private, "a range shared behind carriers' NAT"},
	{netip.MustParsePrefix("127.0.0.0/8"), Private, "the host's loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), Refused, "link-local, where clouds serve metadata"},
	{netip.MustParsePrefix("172.16.0.0/12"), Private, "a private range"},
	{netip.MustParsePrefix("192.0.0.0/24"), Refused, "reserved for protocols"},
	{netip.MustParsePrefix("192.88.99.0/24"), Refused, "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), Private, "a private range"},
	{netip.MustParsePrefix("198.18.0.0/15"), Private, "a range for benchmarks"},
	{netip.MustParsePrefix("224.0.0.0/4"), Refused, "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), Refused, "reserved or broadcast"},
	{netip.MustParsePrefix("::1/128"), Private, "the host's loopback"},
	{netip.MustParsePrefix("fc00::/7"), Private, "a private range"},
	{netip.MustParsePrefix("fe80::/10"), Refused, "link-local"},
	{netip.MustParsePrefix("ff00::/8"), Refused, "multicast"},
	{netip.MustParsePrefix("2001:db8::/32"), Public, ""},
	{netip.MustParsePrefix("2001::/23"), Refused, "Teredo or reserved for protocols"},
	{netip.MustParsePrefix("2002::/16"), Refused, "6to4, which hides an IPv4 address"},
	{netip.MustParsePrefix("2000::/3"), Public, ""},
	{netip.MustParsePrefix("::/0"), Refused, "not an address of the internet (NAT64 and mapped addresses included)"},
}

// Classify returns the class of an address, and a description if it is not public. IPv4 addresses
// in IPv6 notation count as IPv4, or are refused. It does not know which addresses are the host's
// own: Policy checks that in addition (New).
func Classify(a netip.Addr) (Class, string) {
	if !a.IsValid() {
		return Refused, "no address"
	}
	a = a.Unmap().WithZone("")
	return classOf(netip.PrefixFrom(a, a.BitLen()))
}

// Class returns the class of everything that the rule covers, and a description if it is not
// public. A rule about several classes counts as public, and so does one about names, which may
// lead anywhere.
func (r Rule) Class() (Class, string) {
	switch {
	case r.Host == HostName:
		return Private, "this machine's own loopback"
	case isMetadataName(r.Host):
		return Refused, isMetadata
	case !r.Prefix.IsValid():
		return Public, ""
	}
	return classOf(r.Prefix)
}

func classOf(p netip.Prefix) (Class, string) {
	for _, s := range special {
		switch {
		case !s.prefix.Overlaps(p):
		case s.prefix.Bits() <= p.Bits():
			return s.class, s.what
		case s.what != isMetadata: // a single address within changes nothing of the rest
			return Public, ""
		}
	}
	return Public, ""
}
