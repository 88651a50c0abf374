package e2b

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

// network is what a program says of its sandbox's network. What is allowed goes before what is denied.
type network struct {
	AllowOut           []string `json:"allowOut"` // names, addresses and ranges
	DenyOut            []string `json:"denyOut"`  // addresses and ranges
	AllowPublicTraffic *bool    `json:"allowPublicTraffic"`
	Internet           *bool    `json:"allow_internet_access"` // in an update; beside the network of a new one
}

// everywhere are the ranges that deny everything.
var everywhere = []string{"0.0.0.0/0", "::/0"}

// setNetwork replaces all that a program said of its sandbox's network before.
func (f *Face) setNetwork(r *http.Request, c caller) (int, any, error) {
	b, err := found(r, c)
	var said json.RawMessage
	if err == nil {
		err = read(r, &said)
	}
	var bound string
	if err == nil {
		bound, err = boundOf(said, nil)
	}
	if err == nil {
		_, err = client.Call(r.Context(), c.Client, api.Bind, api.BindRequest{BoxRef: refTo(b), Bound: bound}, nil)
	}
	return http.StatusNoContent, nil, err
}

// boundOf is the bound of a sandbox's box (api.UpRequest), "" for none. It narrows what its machine
// allows. What it cannot say is an error. internet is what a new sandbox is given beside its network.
func boundOf(said json.RawMessage, internet *bool) (string, error) {
	var of network
	if said != nil {
		in := json.NewDecoder(bytes.NewReader(said))
		in.DisallowUnknownFields()
		if err := in.Decode(&of); err != nil {
			return "", agentbox.Errorf(agentbox.Invalid, "network: %w", err).WithHint("agentbox has allowOut and denyOut")
		}
	}
	if p := of.AllowPublicTraffic; p != nil && !*p {
		return "", agentbox.Errorf(agentbox.Invalid, "network: allowPublicTraffic: the ports of a sandbox are served to whoever reaches agentbox serve")
	}
	closed := internet != nil && !*internet || of.Internet != nil && !*of.Internet
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
