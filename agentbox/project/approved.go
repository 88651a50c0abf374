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

// Wish is all that a repository asks of this host, in one document: what its boxes may reach, and
// what of this host they are made with. A person who approves it approves its digest. The zero
// value asks for nothing.
type Wish struct {
	Policy policy.File
	Host   []Ask // beyond what every repository has; sorted, each once
}

// Ask is one thing of this host that a repository asks for. It is comparable. Which is as it was
// resolved when it was asked for, so that a link which changes later asks for something else.
type Ask struct {
	What  string // include, kernel, image, isolation, port
	Which string // a path of this host after links and variables, a reference, a kind, a number
}

// Digest names the document. It is 48 bits as hex, to be read and typed by people. It does not
// depend on the order of Host, and not on comments.
func (w Wish) Digest() string {
	sum := sha256.Sum256(w.encode(""))
	return hex.EncodeToString(sum[:6])
}

// askPrefix begins the lines of a document that are not the policy's, which takes them for
// comments.
const askPrefix = "#host "

// encode is the document in a canonical form, with a comment in it that the digest leaves out.
func (w Wish) encode(comment string) []byte {
	var b bytes.Buffer
	for _, a := range w.sorted() {
		b.WriteString(askPrefix + a.What + " " + quote(a.Which) + "\n")
	}
	b.Write(w.Policy.Encode(comment))
	return b.Bytes()
}

// sorted is Host in order, each once, in a slice of its own.
func (w Wish) sorted() []Ask {
	list := slices.Clone(w.Host)
	slices.SortFunc(list, func(a, b Ask) int { return strings.Compare(a.What+" "+a.Which, b.What+" "+b.Which) })
	return slices.Compact(list)
}

// quote keeps a name on its line, whatever it is made of.
func quote(s string) string {
	return strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`).Replace(s)
}

// unquote undoes quote.
func unquote(s string) string {
	return strings.NewReplacer(`\\`, "\\", `\n`, "\n", `\r`, "\r").Replace(s)
}

// parseWish reads what encode wrote; path is for errors.
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

// plan is what w asks for beyond granted, and what it gives up. What of the host is given up is not
// told: it takes nothing away from a box that is there.
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

// approvals lists what was approved for a project. A file that is not what its name says is none.
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

// Approve makes w one of the documents that are approved for a project. It says that a person has
// seen w. Approving it twice changes nothing, and nothing takes an approval back but removing its
// file.
func (s *Store) Approve(p Project, w Wish) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(p, filepath.Join(s.dir(p), "approved", w.Digest()+".yaml"), w.encode(approvedComment))
}

// InForce is the approved document of that digest, which is that of a box's record. What is not
// approved is an empty document, which asks for nothing. Errors are of files that cannot be read.
func (s *Store) InForce(p Project, digest string) (Wish, error) {
	list, err := s.approvals(p)
	if i := slices.IndexFunc(list, func(w Wish) bool { return w.Digest() == digest }); i >= 0 {
		return list[i], err
	}
	return Wish{}, err
}

// Unapproved is the error of what cannot go on before a person has approved a plan. It names what
// is asked of the host, as a box cannot be made without that.
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
