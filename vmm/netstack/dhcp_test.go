package netstack

import (
	"bytes"
	"testing"
)

// dhcpMessage is a message of a client, of the given type and with options behind that.
func dhcpMessage(kind byte, options ...byte) []byte {
	m := make([]byte, dhcpHeader)
	m[0], m[1], m[2] = 1, 1, 6
	copy(m[4:], "abcd")
	copy(m[28:], guestMAC[:])
	copy(m[236:], dhcpCookie)
	m = append(m, optionType, 1, kind)
	return append(append(m, options...), optionEnd)
}

func TestDHCPLease(t *testing.T) {
	right := append([]byte{optionRequested, 4}, guestIP[:]...)
	for _, c := range []struct {
		name    string
		message []byte
		want    byte
	}{
		{"discover", dhcpMessage(dhcpDiscover), dhcpOffer},
		{"request", dhcpMessage(dhcpRequest, right...), dhcpACK},
		{"request of another address", dhcpMessage(dhcpRequest, optionRequested, 4, 10, 0, 0, 1), dhcpNAK},
		{"inform", dhcpMessage(dhcpInform), dhcpACK},
		{"release", dhcpMessage(7), 0},
		{"no type", dhcpMessage(dhcpDiscover)[:dhcpHeader], 0},
		{"half a header", dhcpMessage(dhcpDiscover)[:200], 0},
	} {
		a := dhcpAnswer(c.message)
		if c.want == 0 {
			if a != nil {
				t.Errorf("%s is answered", c.name)
			}
			continue
		}
		if len(a) < 300 || string(a[4:8]) != "abcd" {
			t.Errorf("%s: the answer %x is none", c.name, a)
			continue
		}
		o := dhcpOptions(a[dhcpHeader:])
		if !bytes.Equal(o[optionType], []byte{c.want}) || !bytes.Equal(o[optionServer], gatewayIP[:]) {
			t.Errorf("%s: answered with %v", c.name, o)
		}
		if c.want == dhcpNAK {
			continue
		}
		if !bytes.Equal(a[16:20], guestIP[:]) || !bytes.Equal(o[optionRouter], gatewayIP[:]) || !bytes.Equal(o[optionDNS], gatewayIP[:]) ||
			!bytes.Equal(o[optionMask], []byte{255, 255, 255, 252}) || !bytes.Equal(o[optionMTU], []byte{0xff, 0xf0}) {
			t.Errorf("%s: the lease is %v of %v", c.name, a[16:20], o)
		}
	}
}

func TestDHCPOverLink(t *testing.T) {
	_, c := startStack(t, &policy{}, maxStreams, maxFlows)
	c.send(t, datagram("255.255.255.255", 68, 67, dhcpMessage(dhcpDiscover), from("0.0.0.0")))
	ip := c.receive(t)[etherLen:]
	if [4]byte(ip[12:16]) != gatewayIP || [4]byte(ip[16:20]) != [4]byte{255, 255, 255, 255} || ip[ipLen+1] != 67 || ip[ipLen+3] != 68 {
		t.Errorf("the offer is %x", ip[:ipLen+udpLen])
	}
	if o := dhcpOptions(ip[ipLen+udpLen+dhcpHeader:]); !bytes.Equal(o[optionType], []byte{dhcpOffer}) {
		t.Errorf("the offer holds %v", o)
	}
}

func FuzzDHCP(f *testing.F) {
	for _, kind := range []byte{dhcpDiscover, dhcpRequest, dhcpInform, 0} {
		f.Add(dhcpMessage(kind))
	}
	f.Add(dhcpMessage(dhcpRequest, optionRequested, 200, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a := dhcpAnswer(b); a != nil && len(a) < 300 {
			t.Errorf("an answer of %d bytes", len(a))
		}
	})
}
