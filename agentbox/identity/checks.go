package identity

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox/durable"
)

// Check is one comparison of a box with what CI reported, without the values that differed.
type Check struct {
	Time    time.Time `json:"time"`
	Project string    `json:"project"`
	Box     string    `json:"box"` // its ID
	Task    string    `json:"task,omitempty"`
	Commit  string    `json:"commit,omitempty"` // that CI had
	Differs []Point   `json:"differs,omitempty"`
}

// Point is what two environments may disagree about.
type Point struct {
	What string `json:"what"`
	Name string `json:"name,omitempty"`
}

// Stats says how often CI and boxes disagreed, and by what.
type Stats struct {
	Checks    int     `json:"checks"`
	Tasks     int     `json:"tasks"` // of which so many were of tasks
	Disagreed int     `json:"disagreed"`
	By        []Count `json:"by"` // most often first
}

// Count is in how many checks a Point differed.
type Count struct {
	Point
	Times int `json:"times"`
}

// Sum counts checks.
func Sum(all []Check) Stats {
	s, times := Stats{By: []Count{}}, map[Point]int{}
	for _, c := range all {
		s.Checks++
		if c.Task != "" {
			s.Tasks++
		}
		if len(c.Differs) > 0 {
			s.Disagreed++
		}
		for _, p := range c.Differs {
			times[p]++
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(times), func(a, b Point) int {
		return cmp.Or(times[b]-times[a], rank(a.What)-rank(b.What), strings.Compare(a.Name, b.Name))
	}) {
		s.By = append(s.By, Count{p, times[p]})
	}
	return s
}

// rank orders what matters most first.
func rank(what string) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name == what })
}

// Checks keeps the newest checks of a home in File. Methods may be called at once.
type Checks struct {
	File string

	mu sync.Mutex
}

// Bounds of what is kept.
const (
	maxChecks = 2000
	maxPoints = 200 // of a check
)

// Add keeps a check, instead of an earlier one of the same box or task with the same commit.
func (c *Checks) Add(one Check) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err := c.read()
	if err != nil {
		return err
	}
	of := func(k Check) [2]string { return [2]string{cmp.Or(k.Task, k.Box), k.Commit} }
	one.Differs = one.Differs[:min(len(one.Differs), maxPoints)]
	all = append(slices.DeleteFunc(all, func(k Check) bool { return of(k) == of(one) }), one)
	return durable.WriteJSON(c.File, all[max(len(all)-maxChecks, 0):], 0o600)
}

// Since returns the checks since a time, of one project unless that is "".
func (c *Checks) Since(since time.Time, project string) ([]Check, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err := c.read()
	return slices.DeleteFunc(all, func(k Check) bool { return k.Time.Before(since) || project != "" && k.Project != project }), err
}

func (c *Checks) read() (all []Check, err error) {
	if err = durable.ReadJSON(c.File, &all); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}
