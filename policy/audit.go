package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agentbox/agentbox"
)

// Entry is one line of the audit log: one flow and its end, or another event that a reader has to
// know. It holds no values of secrets, no bodies, no headers and no queries. Log fills in Seq, Time
// and Box. Empty members are left out. New ones may be added, and readers of the JSON ignore
// unknown ones.
type Entry struct {
	Seq  uint64    `json:"seq"`  // from 1, without gaps
	Time time.Time `json:"time"` // when the entry was written: at the end of the flow
	// Kind is KindFlow, one of the other Kind constants, or what the gateway or the network stack
	// refused by itself (docs/internals/network.md lists them).
	Kind  string `json:"kind"`
	Box   string `json:"box,omitempty"` // its id
	Proto Proto  `json:"proto,omitempty"`
	// Name is canonical and clipped, "" for a bare address.
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"` // where it went, or would have gone
	Port    uint16 `json:"port,omitempty"`
	Method  string `json:"method,omitempty"`
	Path    string `json:"path,omitempty"` // without query, clipped
	// Allow, Rule, Source, Reason and Hint are the verdict's (Verdict).
	Allow  bool   `json:"allow"`
	Rule   string `json:"rule,omitempty"`
	Source Source `json:"source,omitempty"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`   // the command that would permit it
	Secret string `json:"secret,omitempty"` // the name of the secret that was used, or tried
	In     int64  `json:"in,omitempty"`     // bytes the box received
	Out    int64  `json:"out,omitempty"`    // bytes the box sent
	Millis int64  `json:"millis,omitempty"` // how long the flow took
	Count  int    `json:"count,omitempty"`  // how many such flows the entry stands for, when more than one
}

// Kinds of entries, besides the kinds of refusals.
const (
	KindFlow      = "flow"
	KindPolicy    = "policy"    // another policy is in force; Reason has its digest
	KindLimit     = "limit"     // a limit was reached; Reason says which
	KindRecovered = "recovered" // the last line was torn by a crash and has been cut off; Reason says how much
	KindStart     = "start"     // a machine of the box began its life; Reason says how it is isolated
)

// EntryFor makes an entry of a flow and its verdict. What the box chose (name, method, path) is
// clipped, and the path loses its query, which may be private.
func EntryFor(f Flow, v Verdict) Entry {
	e := Entry{
		Kind: cmp.Or(v.Kind, KindFlow), Proto: f.Proto, Name: agentbox.Clip(f.Name), Port: f.Port, Method: agentbox.Clip(f.Method),
		Allow: v.Allow, Rule: v.Rule, Source: v.Source, Reason: v.Reason, Hint: v.Hint,
	}
	if f.Addr.IsValid() {
		e.Address = f.Addr.String()
	}
	if f.Path != "" {
		p, _ := CanonicalPath(f.Path)
		e.Path = agentbox.Clip(p)
	}
	return e
}

// line is an entry as it is stored. Hash, its last member, covers every byte of the line before it,
// and Prev is that of the line before. So no line can be changed, added or removed without changing
// all that follow.
type line struct {
	Entry
	Prev string `json:"prev"`
	Hash string `json:"hash,omitempty"` // "" until the others are encoded
}

// genesis is the Prev of the first line: as long as a hash, and the hash of nothing.
const genesis = "0000000000000000000000000000000000000000000000000000000000000000"

// maxLine bounds a line, in bytes; longer ones are not ours. Everything that a box chooses in one
// is clipped, so an entry is far below it.
const maxLine = 16 << 10

// hashMember starts the last member of a line, after what it covers.
const hashMember = `,"hash":"`

// encodeLine returns the bytes of a line, including its newline, and its hash. Times are rounded to
// microseconds, so that an entry survives a round trip.
func encodeLine(prev string, e Entry) ([]byte, string, error) {
	e.Time = e.Time.UTC().Round(time.Microsecond)
	b, err := json.Marshal(line{Entry: e, Prev: prev})
	if err != nil {
		return nil, "", err
	}
	b = bytes.TrimSuffix(b, []byte("}"))
	sum := sha256.Sum256(b)
	hash := hex.EncodeToString(sum[:])
	b = append(b, hashMember+hash+"\"}\n"...)
	if len(b) > maxLine {
		return nil, "", fmt.Errorf("an entry of %d bytes is too long for the audit log", len(b))
	}
	return b, hash, nil
}

// decodeLine parses one line, without its newline, and checks its hash over the very bytes: JSON
// that means the same in other words is not what was written. Unknown members are refused, as the
// hash would cover them and nobody would see them.
func decodeLine(b []byte) (line, error) {
	var l line
	body := len(b) - len(hashMember) - len(genesis) - len(`"}`)
	if body < 0 || len(b) > maxLine || !bytes.HasPrefix(b[body:], []byte(hashMember)) {
		return l, errors.New("the line is not an entry")
	}
	sum := sha256.Sum256(b[:body])
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil || dec.InputOffset() != int64(len(b)) {
		return l, errors.New("the line is not an entry")
	}
	if string(b[body+len(hashMember):]) != hex.EncodeToString(sum[:])+`"}` {
		return l, errors.New("the line was changed: its hash does not match")
	}
	return l, nil
}
