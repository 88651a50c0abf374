package team

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"unicode"

	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
)

// Context is something that a machine works on: a box or a task. It travels as the JSON text of a
// catalogue record. Each of its strings has at most maxField bytes.
type Context struct {
	Kind      catalogue.Kind `json:"-"` // Box or Task
	ID        string         `json:"-"`
	Name      string         `json:"name,omitempty"`
	State     string         `json:"state,omitempty"`
	Project   string         `json:"project,omitempty"`
	Branch    string         `json:"branch,omitempty"`
	Isolation string         `json:"isolation,omitempty"`
	// Copies are peers that are to have a copy of a task, of the state that Version names; each is the ID
	// of a member. Of is whose it is, in the catalogue of a machine that has a copy.
	Copies  []string `json:"copies,omitempty"`
	Version string   `json:"version,omitempty"`
	Of      string   `json:"of,omitempty"`
}

// MaxContexts is how many contexts a machine announces. The rest is left out, because the size of
// a catalogue is bounded (catalogue.MaxBytes).
const MaxContexts = 500

// maxTaskOffers is how many tasks are offered at once. The rest is offered when some of these are taken.
const maxTaskOffers = 200

// OffersOfOthers lists what the present members offer. It reads only memory.
func (t *Team) OffersOfOthers() map[identity.PeerID][]catalogue.Record {
	all := map[identity.PeerID][]catalogue.Record{}
	m, c := t.catalogues()
	if c == nil {
		return all
	}
	for _, id := range m.OnlinePeers() {
		_, records, _ := c.Records(id)
		for _, r := range records {
			if r.Kind == catalogue.Offer {
				all[id] = append(all[id], r)
			}
		}
	}
	return all
}

// maxField bounds each string, in bytes, so that all of them fit into a record's text.
const maxField = 80

// announced is what a catalogue was last told of what this machine works on.
type announced struct {
	in       *catalogue.Store
	contexts []Context
	offers   []catalogue.Record
}

// announceContexts writes what this machine works on into its catalogue, unless it did so the last time.
func (t *Team) announceContexts(ctx context.Context) error {
	_, c := t.catalogues()
	if c == nil || t.Contexts == nil {
		return nil
	}
	t.announcing.Lock()
	defer t.announcing.Unlock()
	list, err := t.Contexts(ctx)
	if err != nil {
		return err
	}
	now := announced{in: c, contexts: list[:min(len(list), MaxContexts)]}
	if t.Offers != nil {
		all := t.Offers()
		now.offers = all[:min(len(all), maxTaskOffers)]
	}
	if last := t.announced; last.in == c && reflect.DeepEqual(now.contexts, last.contexts) && reflect.DeepEqual(now.offers, last.offers) {
		return nil
	}
	if err := now.write(); err != nil {
		return err
	}
	t.announced = now
	return nil
}

// write changes nothing in a catalogue that already says the same, so that nothing is sent.
func (a announced) write() error {
	records := map[catalogue.Kind][]catalogue.Record{}
	for _, one := range a.contexts {
		one.sanitized()
		text, err := json.Marshal(one)
		if len(text) > catalogue.MaxText { // of long names
			one.Copies = nil
			text, err = json.Marshal(one)
		}
		if err != nil {
			return err
		}
		records[one.Kind] = append(records[one.Kind], catalogue.Record{Kind: one.Kind, Key: one.ID, Text: string(text)})
	}
	return a.in.Update(func(e *catalogue.Edit) {
		e.Replace(catalogue.Offer, a.offers)
		e.Replace(catalogue.Box, records[catalogue.Box])
		e.Replace(catalogue.Task, records[catalogue.Task])
	})
}

func (c *Context) sanitized() {
	for _, word := range []*string{&c.Name, &c.State, &c.Project, &c.Branch, &c.Isolation, &c.Version, &c.Of} {
		*word = printable(*word)
	}
}

// printable returns the printable part of s, cut to at most maxField bytes at a character boundary.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar || r == '<' || r == '>' || r == '&' { // JSON writes the last three with six bytes
			return -1
		}
		return r
	}, s)
	for len(s) > maxField {
		s = s[:len(s)-1]
	}
	return strings.ToValidUTF8(s, "")
}

// AnnouncedContext is a context as announced by the machine that works on it.
type AnnouncedContext struct {
	Context
	Announcer identity.PeerID // where it is, or a copy of it
	Owner     identity.PeerID // the announcer, but for a copy
}

// TeamContexts lists what the machines of the team work on. It reads only memory and asks no
// machine, so a machine that is offline is listed with what it announced last.
func (t *Team) TeamContexts() []AnnouncedContext {
	m, c := t.catalogues()
	if c == nil {
		return nil
	}
	peers, err := m.Peers()
	if err != nil {
		return nil
	}
	var out []AnnouncedContext
	for _, p := range peers {
		_, records, _ := c.Records(p.ID)
		for _, r := range records {
			if r.Kind != catalogue.Box && r.Kind != catalogue.Task {
				continue
			}
			announced := AnnouncedContext{Announcer: p.ID, Owner: p.ID}
			if json.Unmarshal([]byte(r.Text), &announced.Context) != nil {
				continue // written by another version of agentbox
			}
			announced.sanitized() // its owner may not have done so
			announced.Kind, announced.ID = r.Kind, r.Key
			if announced.Of != "" {
				if announced.Owner, err = identity.ParsePeer(announced.Of); err != nil {
					continue
				}
			}
			out = append(out, announced)
		}
	}
	return out
}
