package project

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/policy"
)

// Wish is everything that a repository asks of this host, in one document: what its boxes may
// reach, and what of this host they use. A person approves it by approving its digest. The zero
// value asks for nothing.
type Wish struct {
	Policy policy.File
	Host   []Ask // beyond what every repository has; sorted, without duplicates
}

// Ask is one thing of this host that a repository asks for. It is comparable. Which was resolved
// when the repository asked, so a link that changes later asks for something else.
type Ask struct {
	What  string // include, kernel, image, isolation, port
	Which string // a path of this host after links and variables, a reference, a kind, or a number
}

// Digest identifies the document. It is 48 bits in hex, short enough for people to read and type.
// It depends neither on the order of Host nor on comments.
func (w Wish) Digest() string {
	sum := sha256.Sum256(w.encode(""))
	return hex.EncodeToString(sum[:6])
}

// askPrefix starts the lines of a document that hold Asks. A policy parser takes them for comments.
const askPrefix = "#host "

// encode returns the document in a canonical form. The digest leaves comment out.
func (w Wish) encode(comment string) []byte {
	var b bytes.Buffer
	for _, a := range w.sorted() {
		b.WriteString(askPrefix + a.What + " " + quote(a.Which) + "\n")
	}
	b.Write(w.Policy.Encode(comment))
	return b.Bytes()
}

// sorted returns a sorted copy of Host without duplicates.
func (w Wish) sorted() []Ask {
	list := slices.Clone(w.Host)
	slices.SortFunc(list, func(a, b Ask) int { return strings.Compare(a.What+" "+a.Which, b.What+" "+b.Which) })
	return slices.Compact(list)
}

// quote keeps any name on a single line.
func quote(s string) string {
	return strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`).Replace(s)
}

// unquote reverses quote.
func unquote(s string) string {
	return strings.NewReplacer(`\\`, "\\", `\n`, "\n", `\r`, "\r").Replace(s)
}

// parseWish parses the output of encode. path is for errors.
func parseWish(path string, data []byte) (w Wish, err error) {
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), askPrefix); ok {
			what, which, _ := strings.Cut(rest, " ")
			w.Host = append(w.Host, Ask{what, unquote(which)})
		}
	}
	w.Policy, err = policy.ParseFile(path, data)
	return w, err
}

// plan returns what w asks for beyond granted, and what of the policy it gives up. It does not list
// what w gives up of the host, since that takes nothing away from an existing box.
func (w Wish) plan(granted Wish) []policy.Change {
	list := policy.Plan(granted.Policy, w.Policy, policy.DefaultPreset)
	for _, a := range w.sorted() {
		if !slices.Contains(granted.Host, a) {
			list = append(list, policy.Change{Add: true, What: a.What, Rule: a.Which, Wider: true})
		}
	}
	return list
}

const approvedComment = "What a repository asked for when it was approved. Changes here are not looked at by anybody: the name is its digest."

// approvals lists what was approved for a project. It skips a file whose contents do not match its
// name.
func (s *Store) approvals(p Project) ([]Wish, error) {
	files, err := filepath.Glob(filepath.Join(s.dir(p), "approved", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var list []Wish
	for _, path := range files {
		data, err := readFile(path, maxFile)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w, err := parseWish(path, data)
		if err != nil {
			return nil, err
		}
		if w.Digest()+".yaml" == filepath.Base(path) {
			list = append(list, w)
		}
	}
	return list, nil
}

// Approve adds w to the approved documents of a project. The caller asserts that a person has seen
// w. Approving it twice changes nothing. Only removing its file revokes an approval.
func (s *Store) Approve(p Project, w Wish) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(p, filepath.Join(s.dir(p), "approved", w.Digest()+".yaml"), w.encode(approvedComment))
}

// InForce returns the approved document with the digest in a box's record. If none is approved, it
// returns an empty document, which asks for nothing. Errors mean that files cannot be read.
func (s *Store) InForce(p Project, digest string) (Wish, error) {
	list, err := s.approvals(p)
	if i := slices.IndexFunc(list, func(w Wish) bool { return w.Digest() == digest }); i >= 0 {
		return list[i], err
	}
	return Wish{}, err
}

// Unapproved returns the error for an operation that must wait until a person has approved the
// plan. It lists what is asked of the host, because a box cannot be made without that.
func (r Review) Unapproved() error {
	var asks []string
	for _, c := range r.Plan {
		if c.Host() {
			asks = append(asks, c.What+" "+c.Rule)
		}
	}
	return agentbox.Errorf(agentbox.Conflict, "%s asks for what of this machine nobody has approved: %s", r.Root, strings.Join(asks, "; ")).
		WithHint("if you want that: agentbox policy approve %s", r.Digest)
}
