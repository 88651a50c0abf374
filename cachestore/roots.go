package cachestore

import (
	"strings"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// roots are the manifests that must stay, with the names and pins that keep each of them.
type roots struct {
	names map[agentbox.Digest][]blob.Name
	pins  map[agentbox.Digest][]string
}

func (r roots) keeps(d agentbox.Digest) bool { return len(r.names[d]) > 0 || len(r.pins[d]) > 0 }

func (r roots) describe(d agentbox.Digest) string {
	for _, n := range r.names[d] {
		return n.Namespace + "/" + n.Key
	}
	for _, name := range r.pins[d] {
		return "what the pin " + name + " keeps"
	}
	return d.Short()
}

// all returns every manifest with a root.
func (r roots) all() map[agentbox.Digest]bool {
	out := map[agentbox.Digest]bool{}
	for d := range r.names {
		out[d] = true
	}
	for d := range r.pins {
		out[d] = true
	}
	return out
}

// roots reads names and pins. Names of untrusted producers keep their manifests, too, until they
// are removed. A damaged name keeps nothing, because it can be published again. A damaged pin is an
// error.
func (s *Store) roots() (roots, error) {
	r := roots{names: map[agentbox.Digest][]blob.Name{}, pins: map[agentbox.Digest][]string{}}
	err := s.names.each(func(file string, n blob.Name, err error) error {
		// After an error of the disk, we cannot know what the name keeps.
		if err != nil && !mayFetch(err) {
			return err
		}
		if err == nil && !strings.HasSuffix(file, alarmSuffix) && !n.Expired(s.cfg.Now()) {
			r.names[n.Manifest] = append(r.names[n.Manifest], n)
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	pins, err := s.Pins()
	for _, p := range pins {
		for _, d := range p.Manifests {
			r.pins[d] = append(r.pins[d], p.Name)
		}
	}
	return r, err
}
