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

// Request is everything that a repository asks of this host, in one document: what its boxes may
// reach, and what of this host they use. A person approves it by approving its digest. The zero
// value asks for nothing.
type Request struct {
	Policy policy.File
	Host   []Ask // beyond what every repository has; sorted, without duplicates
}

// Ask is one thing of this host that a repository asks for. It is comparable. Which was resolved
// when the repository asked, so a link that changes later asks for something else.
type Ask struct {
	What  string // include, kernel, image, isolation, port, gpus, check
	Which string // a path of this host after links and variables, a reference, a kind, or a number
}

// Digest identifies the document: the SHA-256 of its canonical form, as 64 hex digits. It depends
// neither on the order of Host nor on comments.
//
// It is never shortened. The repository's author writes both documents of a collision, one to be
// read and one to be used, and finds two with the same n bits after about 2^(n/2) attempts.
func (req Request) Digest() string {
	sum := sha256.Sum256(req.encode(""))
	return hex.EncodeToString(sum[:])
}

// askPrefix starts the lines of a document that hold Asks. A policy parser takes them for comments.
const askPrefix = "#host "

// encode returns the document in a canonical form. The digest leaves comment out.
func (req Request) encode(comment string) []byte {
	var b bytes.Buffer
	for _, a := range req.sorted() {
		b.WriteString(askPrefix + a.What + " " + quote(a.Which) + "\n")
	}
	b.Write(req.Policy.Encode(comment))
	return b.Bytes()
}

// sorted returns a sorted copy of Host without duplicates. Documents that ask for the same thus have
// the same digest.
func (req Request) sorted() []Ask {
	list := slices.Clone(req.Host)
	slices.SortFunc(list, func(a, b Ask) int { return strings.Compare(a.What+" "+a.Which, b.What+" "+b.Which) })
	return slices.Compact(list)
}

// quote escapes line breaks, so that a name cannot begin another line of the document.
func quote(s string) string {
	return strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`).Replace(s)
}

func unquote(s string) string {
	return strings.NewReplacer(`\\`, "\\", `\n`, "\n", `\r`, "\r").Replace(s)
}

// parseRequest parses the output of encode; path is the file's name in errors (Invalid).
func parseRequest(path string, data []byte) (req Request, err error) {
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), askPrefix); ok {
			what, which, _ := strings.Cut(rest, " ")
			req.Host = append(req.Host, Ask{what, unquote(which)})
		}
	}
	req.Policy, err = policy.ParseFile(path, data)
	return req, err
}

// plan returns what req asks for beyond granted, and what of the policy it gives up. It does not
// list what req gives up of the host, since that takes nothing away from an existing box.
func (req Request) plan(granted Request) []policy.Change {
	list := policy.Plan(granted.Policy, req.Policy, policy.DefaultPreset)
	for _, a := range req.sorted() {
		if !slices.Contains(granted.Host, a) {
			list = append(list, policy.Change{Add: true, Kind: a.What, Rule: a.Which, Widens: true})
		}
	}
	return list
}

const approvedComment = "What a repository asked for when it was approved. The file name is its digest, so agentbox ignores an edited file."

// approvals lists what was approved for a project. It skips a file whose contents do not match its
// name. That includes the files of earlier builds, whose names are only the first 12 digits of a
// digest: another document may have been approved under such a name, so a person is asked again.
func (s *Store) approvals(p Project) ([]Request, error) {
	files, err := filepath.Glob(filepath.Join(s.dir(p), "approved", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var list []Request
	for _, path := range files {
		data, err := readFile(path, maxFile)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		req, err := parseRequest(path, data)
		if err != nil {
			return nil, err
		}
		if req.Digest()+".yaml" == filepath.Base(path) {
			list = append(list, req)
		}
	}
	return list, nil
}

// Approve adds req to the approved documents of a project. The caller asserts that a person has
// seen req. Approving it twice changes nothing. Only removing its file revokes an approval.
func (s *Store) Approve(p Project, req Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(p, filepath.Join(s.dir(p), "approved", req.Digest()+".yaml"), req.encode(approvedComment))
}

// InForce returns the approved document with the digest in a box's record. If none is approved, it
// returns an empty document, which asks for nothing. Errors mean that files cannot be read.
func (s *Store) InForce(p Project, digest string) (Request, error) {
	list, err := s.approvals(p)
	if i := slices.IndexFunc(list, func(req Request) bool { return req.Digest() == digest }); i >= 0 {
		return list[i], err
	}
	return Request{}, err
}

// HasApproved tells whether any approved document of a project has an Ask.
func (s *Store) HasApproved(p Project, a Ask) (bool, error) {
	list, err := s.approvals(p)
	return slices.ContainsFunc(list, func(req Request) bool { return slices.Contains(req.Host, a) }), err
}

// Unapproved returns the error for an operation that must wait until a person has approved the
// plan. It lists what is asked of the host, because a box cannot be made without that.
func (r Review) Unapproved() error {
	var asks []string
	for _, c := range r.Plan {
		if c.Host() {
			asks = append(asks, c.Kind+" "+c.Rule)
		}
	}
	return agentbox.Errorf(agentbox.Conflict, "%s asks for something of this machine that nobody has approved: %s", r.Root, strings.Join(asks, "; ")).
		WithHint("if you want that: agentbox policy approve %s", r.Digest)
}
