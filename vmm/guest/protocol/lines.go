package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// AppendLife appends the beginning of a life: Magic, and message as a line of JSON.
func AppendLife(b []byte, message any) ([]byte, error) {
	line, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	if len(line) > MaxLine {
		return nil, fmt.Errorf("message of %d bytes is longer than %d", len(line), MaxLine)
	}
	b = append(b, Magic...)
	b = append(b, line...)
	return append(b, '\n'), nil
}

// ParseHello decodes the line that a Scanner found and checks that it is complete.
func ParseHello(line []byte) (Hello, error) {
	var h Hello
	if err := json.Unmarshal(line, &h); err != nil {
		return Hello{}, fmt.Errorf("hello: %w", err)
	}
	switch {
	case h.Version != Version:
		return h, fmt.Errorf("hello: protocol version %d, want %d", h.Version, Version)
	case h.Token == "":
		return h, fmt.Errorf("hello: no token")
	case len(h.HostKey) != 32:
		return h, fmt.Errorf("hello: host key of %d bytes, want 32", len(h.HostKey))
	case len(h.Entropy) < 32:
		return h, fmt.Errorf("hello: %d bytes of entropy, want 32 at least", len(h.Entropy))
	case !validMachineID(h.MachineID):
		return h, fmt.Errorf("hello: machine id %q is not 32 hex digits", h.MachineID)
	case !validHostname(h.Hostname):
		return h, fmt.Errorf("hello: hostname %q is not one", h.Hostname)
	}
	return h, nil
}

// HasAttach reports whether a Hello has an Attach, without parsing it. Inside of a string the
// quotes would have backslashes before them.
func HasAttach(line []byte) bool { return bytes.Contains(line, []byte(`"attach":`)) }

// ReadReady drops what it reads until the Ready that carries token, and leaves r at the byte after
// that. It ends only with the Ready or an error of r, so the caller sets a deadline.
func ReadReady(r *bufio.Reader, token string) (Ready, error) {
	var ready, none Ready
	lives := Scanner{
		Data: func([]byte) {},
		Begin: func(line []byte) {
			if ready = none; json.Unmarshal(line, &ready) != nil || ready.Token != token {
				ready = none
			}
		},
	}
	for ready == none {
		c, err := r.ReadByte()
		if err != nil {
			return none, err
		}
		lives.Feed([]byte{c})
	}
	return ready, nil
}

func validMachineID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// validHostname requires what is safe in /etc/hosts and a prompt, and no longer than Linux takes.
func validHostname(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return len(s) > 0 && len(s) <= 64 && strings.Trim(s, letters+"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") == ""
}
