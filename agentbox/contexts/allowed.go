package contexts

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/mesh/identity"
)

// Subject is what may be entered: a box or a task.
type Subject struct {
	ID      string // of a box or a task
	Project string
}

// OfProject is all boxes and tasks of a project.
func OfProject(name string) Subject { return Subject{Project: name} }

func (s Subject) key() string {
	if s.ID == "" {
		return "project " + s.Project
	}
	return s.ID
}

// pushKey is the key of those who may hand work back.
func (s Subject) pushKey() string { return "push " + s.key() }

// Everybody stands for all members.
const Everybody = "*"

// Allowed remembers who may enter what. Methods may be called at once. File is needed.
type Allowed struct {
	File string

	mu   sync.Mutex
	read bool
	by   map[string][]string // members or Everybody, by key of a subject
}

// allowedFile is what File holds.
type allowedFile struct {
	Version int                 `json:"version"`
	Allowed map[string][]string `json:"allowed"`
}

const (
	allowedVersion = 1
	maxAllowed     = 4 << 20 // bytes
)

// Set replaces who may enter a subject and, with push, hand work back; nobody if there are no members.
// It lasts: it is written down before it counts.
func (a *Allowed) Set(s Subject, members []string, push bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(); err != nil {
		return err
	}
	next := map[string][]string{}
	for key, list := range a.by {
		next[key] = list
	}
	delete(next, s.key())
	delete(next, s.pushKey())
	if len(members) > 0 {
		next[s.key()] = members
	}
	if len(members) > 0 && push {
		next[s.pushKey()] = members
	}
	if err := durable.WriteJSON(a.File, allowedFile{allowedVersion, next}, 0o600); err != nil {
		return err
	}
	a.by = next
	return nil
}

// Members are those that may enter a subject, for itself or its project.
func (a *Allowed) Members(s Subject) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(); err != nil {
		return nil, err
	}
	return slices.Concat(a.by[s.key()], a.by[OfProject(s.Project).key()]), nil
}

// Any tells whether anything may be entered by anybody.
func (a *Allowed) Any() (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.load()
	return len(a.by) > 0, err
}

// May tells whether a member may enter a subject. After an error the answer is no.
func (a *Allowed) May(s Subject, member identity.PeerID) (bool, error) {
	list, err := a.Members(s)
	return err == nil && (slices.Contains(list, Everybody) || slices.Contains(list, member.String())), err
}

// MayPush tells whether a member may hand back work on a subject, or pause it. After an error the
// answer is no.
func (a *Allowed) MayPush(s Subject, member identity.PeerID) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(); err != nil {
		return false, err
	}
	list := slices.Concat(a.by[s.pushKey()], a.by[OfProject(s.Project).pushKey()])
	return slices.Contains(list, Everybody) || slices.Contains(list, member.String()), nil
}

// load reads the file once. While it cannot be read, nobody may enter anything. Callers hold mu.
func (a *Allowed) load() error {
	if a.read {
		return nil
	}
	b, err := os.ReadFile(a.File)
	if err == nil {
		a.by, err = decodeAllowed(b)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return agentbox.Classify(agentbox.Corrupt, "%s: %w", a.File, err).WithHint("remove it: nobody may enter anything then")
	}
	a.read = true
	return nil
}

func decodeAllowed(b []byte) (map[string][]string, error) {
	var f allowedFile
	if len(b) > maxAllowed {
		return nil, agentbox.Errorf(agentbox.Corrupt, "it has %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &f); err != nil || f.Version != allowedVersion {
		return nil, agentbox.Errorf(agentbox.Corrupt, "it is no list of who may enter what")
	}
	return f.Allowed, nil
}
