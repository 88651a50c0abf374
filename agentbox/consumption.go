package agentbox

import (
	"maps"
	"slices"
	"time"
)

// Tokens are what models were asked and have answered, as their APIs say it: the four kinds that
// they charge for. The gateway reads them from answers that pass it; nothing is asked of a model's
// maker.
type Tokens struct {
	Answers int64 `json:"answers"`
	// Unsaid counts those of Answers that did not say what they used, or could not be read: the
	// figures below are without them, so they are a lower bound when it is not 0.
	Unsaid     int64 `json:"unsaid,omitempty"`
	Input      int64 `json:"input"` // that no cache had
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Output     int64 `json:"output"` // thoughts included
}

// Plus is the sum of both.
func (t Tokens) Plus(u Tokens) Tokens {
	return Tokens{
		Answers: t.Answers + u.Answers, Unsaid: t.Unsaid + u.Unsaid,
		Input: t.Input + u.Input, CacheRead: t.CacheRead + u.CacheRead, CacheWrite: t.CacheWrite + u.CacheWrite, Output: t.Output + u.Output,
	}
}

// Total is the number of tokens of every kind.
func (t Tokens) Total() int64 { return t.Input + t.CacheRead + t.CacheWrite + t.Output }

// Consumption is what the machines of a box have used, all its lives added up. It is measured from
// outside, by the supervisor. A zero field may mean that nothing was used or that it could not be
// measured.
type Consumption struct {
	CPU time.Duration `json:"cpu"` // of the processor, in nanoseconds
	// Memory is the integral over time of this host's memory that the box held, shared pages
	// divided among those that share them (PSS), in GiB seconds: the unit that rates are given in.
	Memory     float64 `json:"memory_gib_seconds"`
	MemoryPeak int64   `json:"memory_peak,omitempty"` // bytes
	In         int64   `json:"in"`                    // bytes that it received over the network
	Out        int64   `json:"out"`                   // and sent
	// Models has the tokens by the name that the answer gave; "" for answers that name none, and
	// for every name beyond MaxModels.
	Models map[string]Tokens `json:"models,omitempty"`
}

// Tokens are those of all models together.
func (c Consumption) Tokens() (sum Tokens) {
	for _, t := range c.Models {
		sum = sum.Plus(t)
	}
	return sum
}

// MaxModels bounds how many models are told apart. Names come from servers that the box chose, so
// without a bound a box could make records grow as it likes.
const MaxModels = 32

// AddTokens counts an answer of a model. Beyond MaxModels names it is counted under "", so that the
// sum stays right.
func (c *Consumption) AddTokens(model string, t Tokens) {
	if c.Models == nil {
		c.Models = map[string]Tokens{}
	}
	if _, known := c.Models[model]; !known && len(c.Models) >= MaxModels {
		model = ""
	}
	c.Models[model] = c.Models[model].Plus(t)
}

// Plus is the sum of both; of the peaks of memory it has the higher one. Neither c nor d is
// changed: maps are copied.
func (c Consumption) Plus(d Consumption) Consumption {
	c.CPU, c.Memory, c.MemoryPeak = c.CPU+d.CPU, c.Memory+d.Memory, max(c.MemoryPeak, d.MemoryPeak)
	c.In, c.Out = c.In+d.In, c.Out+d.Out
	c.Models = maps.Clone(c.Models)
	for _, name := range slices.Sorted(maps.Keys(d.Models)) {
		c.AddTokens(name, d.Models[name])
	}
	return c
}

// Cost is what consumption comes to by a table of rates. A table has one currency; amounts of
// different currencies are never added.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
	// Unrated: models that the table does not have: Amount is without them.
	Unrated []string `json:"unrated,omitempty"`
}

// AddCost adds a cost to others, of which there is one for each currency: the table may have
// changed between two attempts.
func AddCost(all []Cost, c Cost) []Cost {
	i := slices.IndexFunc(all, func(one Cost) bool { return one.Currency == c.Currency })
	all = slices.Clone(all)
	if i < 0 {
		return append(all, c)
	}
	all[i].Amount += c.Amount
	all[i].Unrated = slices.Compact(slices.Sorted(slices.Values(slices.Concat(all[i].Unrated, c.Unrated))))
	return all
}

// Denial is what a box was refused, how often. Requests to one place by one method are one Denial,
// whatever their paths, so that a program that tries again and again does not fill the list.
type Denial struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
	// What is the first attempt of this kind, as METHOD HOST:PORT/PATH. These are words of the box:
	// bound and clean them before they are shown.
	What   string `json:"what"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"` // the command that would permit it
}

// Pressure is want of something that a box has only so much of. It is evidence for the reader of a
// failed task, who could not have watched.
type Pressure struct {
	Time   time.Time `json:"time"`
	What   string    `json:"what"` // one of the constants
	Detail string    `json:"detail,omitempty"`
	Count  int       `json:"count,omitempty"` // how often until then
}

// What there was too little of.
const (
	PressureLimit     = "limit"     // a limit was reached: Detail says which
	PressureMemory    = "memory"    // the box's kernel ended processes for want of memory
	PressureProcesses = "processes" // a program was ended that had filled the box with processes
	// Almost nothing of the box's disk is free: Detail says which and how much.
	PressureDisk = "disk"
)
