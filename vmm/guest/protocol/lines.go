package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// AppendLife appends what begins a life: Magic and message as a line of JSON.
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

// ParseHello reads the line a Scanner found and checks that it is complete.
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

// AsksToAttach tells whether a Hello has an Attach, for a reader that cannot wait until it is
// parsed: inside of a string the quotes would have backslashes before them.
func AsksToAttach(line []byte) bool { return bytes.Contains(line, []byte(`"attach":`)) }

// ReadReady drops what r has until the Ready that carries token, and leaves r at the byte after it.
// It ends only when that comes or r fails: the caller sets a deadline on what is below r.
func ReadReady(r *bufio.Reader, token string) (Ready, error) {
	for {
		if err := skipMagic(r); err != nil {
			return Ready{}, err
		}
		line, err := readLine(r)
		if err != nil {
			return Ready{}, err
		}
		var ready Ready
		if json.Unmarshal(line, &ready) == nil && ready.Token == token {
			return ready, nil
		}
	}
}

// skipMagic reads up to the end of the next Magic.
func skipMagic(r *bufio.Reader) error {
	matched := 0
	for matched < len(Magic) {
		c, err := r.ReadByte()
		if err != nil {
			return err
		}
		for matched > 0 && Magic[matched] != c {
			matched = magicPrefix([]byte(Magic[1:matched]))
		}
		if Magic[matched] == c {
			matched++
		}
	}
	return nil
}

// readLine reads a bounded line. One that is too long, or torn by another Magic, comes back as far
// as it was read, and is no JSON then.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for len(line) < MaxLine {
		c, err := r.ReadByte()
		if err == io.EOF && len(line) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if c != '\n' {
			line = append(line, c)
			continue
		}
		if bytes.HasSuffix(line, []byte(Magic[:len(Magic)-1])) {
			line = line[:0]
			continue
		}
		break
	}
	return line, nil
}

// validMachineID wants the form of /etc/machine-id.
func validMachineID(s string) bool {
	for _, c := range s {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return len(s) == 32
}

// validHostname wants what is safe in /etc/hosts and a prompt, and no longer than Linux takes.
func validHostname(s string) bool {
	for _, c := range s {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '.') {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 64
}
