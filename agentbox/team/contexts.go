package team

import (
	"context"
	"encoding/json"
	"strings"
	"unicode"

	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
)

// Context is something that a machine works on: a box or a task. It travels as the JSON text of a
// catalogue's record, at most maxWord bytes for each word.
type Context struct {
	Kind      catalogue.Kind `json:"-"` // Box, Task
	ID        string         `json:"-"`
	Name      string         `json:"name,omitempty"`
	State     string         `json:"state,omitempty"`
	Project   string         `json:"project,omitempty"`
	Branch    string         `json:"branch,omitempty"`
	Isolation string         `json:"isolation,omitempty"`
}

// mostContexts is how many a machine tells of. The rest is not told: a catalogue is bounded
// (catalogue.MaxBytes).
const mostContexts = 500

// maxWord bounds each of the words, so that a record's text holds them all.
const maxWord = 80

// tellContexts makes the catalogue say what this machine works on. A catalogue that says the same
// already is not changed, so nothing is sent.
func (t *Team) tellContexts(ctx context.Context) error {
	_, c := t.catalogues()
	if c == nil || t.Contexts == nil {
		return nil
	}
	list, err := t.Contexts(ctx)
	if err != nil {
		return err
	}
	records := map[catalogue.Kind][]catalogue.Record{}
	for _, one := range list[:min(len(list), mostContexts)] {
		one.plain()
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		records[one.Kind] = append(records[one.Kind], catalogue.Record{Kind: one.Kind, Key: one.ID, Text: string(text)})
	}
	return c.Update(func(e *catalogue.Edit) {
		e.Replace(catalogue.Box, records[catalogue.Box])
		e.Replace(catalogue.Task, records[catalogue.Task])
	})
}

// plain makes all words what can be shown.
func (c *Context) plain() {
	for _, word := range []*string{&c.Name, &c.State, &c.Project, &c.Branch, &c.Isolation} {
		*word = plain(*word)
	}
}

// plain is what of a word can be shown and fits. It ends at whole characters.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar || r == '<' || r == '>' || r == '&' { // which JSON writes with six bytes
			return -1
		}
		return r
	}, s)
	for len(s) > maxWord {
		s = s[:len(s)-1]
	}
	return strings.ToValidUTF8(s, "")
}

// Told is a context as the machine that works on it tells it.
type Told struct {
	Context
	Owner identity.PeerID
}

// Everybody lists what the machines of the team work on, by memory. It asks nobody: a machine that
// is away is listed with what it said last.
func (t *Team) Everybody() []Told {
	m, c := t.catalogues()
	if c == nil {
		return nil
	}
	peers, err := m.Peers()
	if err != nil {
		return nil
	}
	var out []Told
	for _, p := range peers {
		_, records, _ := c.Of(p.ID)
		for _, r := range records {
			if r.Kind != catalogue.Box && r.Kind != catalogue.Task {
				continue
			}
			told := Told{Owner: p.ID}
			if json.Unmarshal([]byte(r.Text), &told.Context) != nil {
				continue // of another version of agentbox
			}
			told.plain() // whatever its owner did
			told.Kind, told.ID = r.Kind, r.Key
			out = append(out, told)
		}
	}
	return out
}
