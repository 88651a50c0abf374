package policy

import (
	"net"
	"strconv"
	"strings"
)

// hint is the command that would permit a denied flow. Denials that a user's rule cannot lift have none.
func hint(f Flow, v Verdict) string {
	target := f.Name
	if target == "" && f.Addr.IsValid() {
		target = f.Addr.String()
	}
	if target == "" || v.Source == Organisation || v.Rule != "" && v.Source != User {
		return ""
	}
	private := false
	if f.Addr.IsValid() || f.Name == HostName {
		class, _ := Classify(f.Addr)
		if class == Refused && f.Addr.IsValid() {
			return ""
		}
		private = class == Private || f.Name == HostName || v.Rule == "" && strings.Contains(v.Reason, "explicit grant")
	}
	if f.Port != 0 && (f.Proto == UDP || f.Port != 80 && f.Port != 443) {
		target = net.JoinHostPort(target, strconv.Itoa(int(f.Port)))
	}
	if f.Proto == UDP {
		target = "udp://" + target
	}
	command := "agentbox policy allow "
	if v.Source == User && v.Rule != "" {
		return "agentbox policy deny --remove '" + v.Rule + "'"
	}
	if private {
		command += "--private "
	}
	return command + target
}
