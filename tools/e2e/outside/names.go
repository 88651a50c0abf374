package main

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// resolve answers for the site's names and for names below names.example whose first label encodes
// an address: at-7f000001 resolves to that address, cname-7f000001 through a CNAME, and
// turn-7f000001 first to the site and from then on to the address (DNS rebinding). Each type turns
// on its own, because clients ask for A and AAAA at once. resolve records every question before it
// answers, and returns only when the socket fails.
func resolve(c net.PacketConn, questions *os.File) error {
	turned := map[string]bool{}
	b := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return err
		}
		var m dnsmessage.Message
		if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		fmt.Fprintln(questions, q.Name, q.Type)
		m.Response, m.Additionals = true, nil
		name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
		how, a := resolveTo(name)
		if how == "turn" && !turned[q.GoString()] {
			turned[q.GoString()], a = true, netip.MustParseAddr(address)
		}
		if m.Answers = answers(q, how, a); !a.IsValid() {
			m.RCode = dnsmessage.RCodeNameError
		}
		answer, err := m.Pack()
		if err != nil {
			return err
		}
		if _, err := c.WriteTo(answer, from); err != nil {
			return err
		}
	}
}

// resolveTo returns the address of a name, and how it resolves: at, cname or turn. An invalid address
// means that the name does not exist.
func resolveTo(name string) (how string, a netip.Addr) {
	first, rest, _ := strings.Cut(name, ".")
	if rest != "names.example" {
		if name == "a.example" || name == "b.example" {
			a = netip.MustParseAddr(address)
		}
		return "at", a
	}
	how, digits, _ := strings.Cut(first, "-")
	if b, err := hex.DecodeString(digits); err == nil {
		a, _ = netip.AddrFromSlice(b)
	}
	return how, a
}

// answers returns the records for a question. There are none if the address is of the other family.
func answers(q dnsmessage.Question, how string, a netip.Addr) []dnsmessage.Resource {
	h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
	var all []dnsmessage.Resource
	if how == "cname" {
		to := dnsmessage.MustNewName("inside.example.")
		all = append(all, dnsmessage.Resource{Header: h, Body: &dnsmessage.CNAMEResource{CNAME: to}})
		h.Name = to
	}
	switch {
	case a.Is4() && q.Type == dnsmessage.TypeA:
		all = append(all, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
	case a.Is6() && q.Type == dnsmessage.TypeAAAA:
		all = append(all, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
	}
	return all
}
