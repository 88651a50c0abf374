package e2b

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// network is what a program says of its sandbox's network. What is allowed goes before what is denied.
type network struct {
	AllowOut           []string `json:"allowOut"` // names, addresses and ranges
	DenyOut            []string `json:"denyOut"`  // addresses and ranges
	AllowPublicTraffic *bool    `json:"allowPublicTraffic"`
}

// everywhere are the ranges that deny everything.
var everywhere = []string{"0.0.0.0/0", "::/0"}

// bound is the bound of the sandbox's box (api.UpRequest), "" for none. It narrows what its machine
// allows. What it cannot say is an error.
func (n newSandbox) bound() (string, error) {
	var of network
	if n.Network != nil {
		in := json.NewDecoder(bytes.NewReader(n.Network))
		in.DisallowUnknownFields()
		if err := in.Decode(&of); err != nil {
			return "", agentbox.Errorf(agentbox.Invalid, "network: %w", err).WithHint("agentbox has allowOut and denyOut")
		}
	}
	if p := of.AllowPublicTraffic; p != nil && !*p {
		return "", agentbox.Errorf(agentbox.Invalid, "network: allowPublicTraffic: the ports of a sandbox are served to whoever reaches agentbox serve")
	}
	closed := n.Internet != nil && !*n.Internet
	var denied []string
	for _, d := range of.DenyOut {
		if slices.Contains(everywhere, d) {
			closed = true
			continue
		}
		denied = append(denied, everyPort(d))
	}
	file := map[string]any{}
	switch {
	case closed && len(of.AllowOut) == 0:
		file["preset"] = "offline"
	case closed:
		allowed := []string{}
		for _, a := range of.AllowOut {
			allowed = append(allowed, everyPort(a))
		}
		file["allow"] = allowed
	case len(denied) == 0:
		return "", nil // what is allowed there is allowed without being named
	case len(of.AllowOut) > 0:
		return "", agentbox.Errorf(agentbox.Invalid, "network: exceptions from some denied addresses").WithHint("deny %s and allow what is needed", everywhere[0])
	default:
		file["deny"] = denied
	}
	text, err := json.Marshal(file) // which is YAML, too
	return string(text), err
}

// everyPort is the rule for an address or a range at every port; names are those of web servers.
func everyPort(host string) string {
	addr, err := netip.ParsePrefix(host)
	if err != nil {
		var one netip.Addr
		if one, err = netip.ParseAddr(host); err != nil {
			return host
		}
		addr = netip.PrefixFrom(one, one.BitLen())
	}
	if host = addr.String(); strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":*"
}
