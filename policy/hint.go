package policy

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// requestHint is the command that would permit only this request, or the whole place if a rule
// cannot express the request. The command is for a shell: anything that could end its quotes is
// left out.
func requestHint(f Flow) string {
	path, clear := CanonicalPath(f.Path)
	if !clear || checkPattern(path) != nil || strings.ContainsAny(path, "'*") || !slices.Contains(methodNames, f.Method) {
		return "agentbox policy allow " + f.Name
	}
	host := f.Name
	if f.Port != 443 {
		host = net.JoinHostPort(f.Name, strconv.Itoa(int(f.Port)))
	} else {
		host = "https://" + host
	}
	return "agentbox policy allow '" + f.Method + " " + host + path + "'"
}

// hint is the command that would permit a denied flow; "" where no rule of a user's can.
func hint(f Flow, v Verdict) string {
	target := f.Host()
	if target == "" || isMetadataName(f.Name) || v.Source == Organisation || v.Rule != "" && v.Source != User {
		return ""
	}
	class := Public
	if f.Addr.IsValid() {
		class, _ = Classify(f.Addr)
	}
	switch {
	case class == Refused:
		return ""
	case v.Rule != "":
		return "agentbox policy deny --remove '" + v.Rule + "'"
	}
	command := "agentbox policy allow "
	if class == Private || f.Name == HostName || f.Addr.IsValid() && strings.Contains(v.Reason, "explicit grant") {
		command += "--private "
	}
	if f.Port == 0 && f.Name == HostName {
		target += ":PORT" // a question for a name has none, and hardly anything here listens on those that a rule without one covers
	}
	if f.Port != 0 && (f.Proto == UDP || f.Port != 80 && f.Port != 443) {
		target = net.JoinHostPort(target, strconv.Itoa(int(f.Port)))
	}
	if f.Proto == UDP {
		target = "udp://" + target
	}
	return command + target
}
