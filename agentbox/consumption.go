package agentbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Tokens counts what models were asked and answered, as their APIs report it, in the four kinds
// that they charge for. The gateway reads the counts from answers that pass through it and sends no
// requests of its own to the model's provider.
type Tokens struct {
	Answers int64 `json:"answers"`
	// Unreported counts those of Answers that did not report their usage or could not be read. The
	// other fields do not include these, so they are a lower bound if Unreported is not 0.
	Unreported int64 `json:"unreported,omitempty"`
	Input      int64 `json:"input"` // not served from a cache
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Output     int64 `json:"output"` // including thinking
	// Cut and Refused count those of Answers that ended at their limit or in the middle, and those that the
	// model or a filter refused. Some agents end with 0 nevertheless.
	Cut     int64 `json:"cut,omitempty"`
	Refused int64 `json:"refused,omitempty"`
}

// UnmarshalJSON also reads "unsaid", which builds up to 0e3ba6c8 wrote.
func (t *Tokens) UnmarshalJSON(b []byte) error {
	type plain Tokens
	former := struct {
		*plain
		Unsaid int64
	}{plain: (*plain)(t)}
	err := json.Unmarshal(b, &former)
	t.Unreported = max(t.Unreported, former.Unsaid)
	return err
}

// Plus returns the sum of t and u.
func (t Tokens) Plus(u Tokens) Tokens {
	return Tokens{
		Answers: t.Answers + u.Answers, Unreported: t.Unreported + u.Unreported,
		Input: t.Input + u.Input, CacheRead: t.CacheRead + u.CacheRead, CacheWrite: t.CacheWrite + u.CacheWrite, Output: t.Output + u.Output,
		Cut: t.Cut + u.Cut, Refused: t.Refused + u.Refused,
	}
}

// Total returns the number of tokens of all kinds.
func (t Tokens) Total() int64 { return t.Input + t.CacheRead + t.CacheWrite + t.Output }

// Unfinished says which of a model's answers did not end as it meant to; "" for none.
func (t Tokens) Unfinished() string {
	var parts []string
	if t.Cut > 0 {
		parts = append(parts, fmt.Sprintf("%d cut off", t.Cut))
	}
	if t.Refused > 0 {
		parts = append(parts, fmt.Sprintf("%d refused", t.Refused))
	}
	return strings.Join(parts, ", ")
}

// Consumption is what the machines of a box have used over all its lives. The supervisor measures
// it from outside the box. A zero field means either that nothing was used or that it could not be
// measured.
type Consumption struct {
	CPU time.Duration `json:"cpu"` // nanoseconds of processor time
	// Memory is the host memory that the box held, integrated over time, in GiB-seconds: the unit
	// that rates use. Shared pages are divided among the processes that share them (PSS).
	Memory     float64 `json:"memory_gib_seconds"`
	MemoryPeak int64   `json:"memory_peak,omitempty"` // bytes
	In         int64   `json:"in"`                    // bytes received over the network
	Out        int64   `json:"out"`                   // bytes sent
	// Models maps the model name in an answer to its tokens. The key "" collects answers that name
	// no model, and all names beyond MaxModels.
	Models map[string]Tokens `json:"models,omitempty"`
}

// Tokens returns the sum over all models.
func (c Consumption) Tokens() (sum Tokens) {
	for _, t := range c.Models {
		sum = sum.Plus(t)
	}
	return sum
}

// MaxModels bounds how many models are counted separately. Names come from servers that the box
// chose, so without a bound a box could make records grow without limit.
const MaxModels = 32

// AddTokens counts an answer of a model. Beyond MaxModels names it counts under "", so that the
// total stays right.
func (c *Consumption) AddTokens(model string, t Tokens) {
	if c.Models == nil {
		c.Models = map[string]Tokens{}
	}
	if _, known := c.Models[model]; !known && len(c.Models) >= MaxModels {
		model = ""
	}
	c.Models[model] = c.Models[model].Plus(t)
}

// Plus returns the sum of c and d, with the higher of the two memory peaks. It changes neither:
// maps are copied.
func (c Consumption) Plus(d Consumption) Consumption {
	c.CPU, c.Memory, c.MemoryPeak = c.CPU+d.CPU, c.Memory+d.Memory, max(c.MemoryPeak, d.MemoryPeak)
	c.In, c.Out = c.In+d.In, c.Out+d.Out
	c.Models = maps.Clone(c.Models)
	for _, name := range slices.Sorted(maps.Keys(d.Models)) {
		c.AddTokens(name, d.Models[name])
	}
	return c
}

// Cost is the price of some consumption by a table of rates. A table has one currency; amounts in
// different currencies are never added.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
	// Unrated lists models that the table lacks. Amount does not include them.
	Unrated []string `json:"unrated,omitempty"`
}

// AddCost adds c to all, which has one entry per currency. There may be several because the table
// may have changed between two attempts.
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

// Denial is something that a box was refused, and how often. Requests to one host and port with one
// method share a Denial, whatever their paths, so that a program that keeps retrying does not fill
// the list.
type Denial struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
	// What is the first attempt of this kind, as METHOD HOST:PORT/PATH. The box chose these words:
	// bound and clean them before you show them.
	What   string `json:"what"`
	Host   string `json:"host,omitempty"` // the name in What
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"` // the command that would allow it
}

// Pressure is a shortage of something that a box has a bounded amount of. It explains a failed task
// to a reader who could not watch it.
type Pressure struct {
	Time   time.Time `json:"time"`
	What   string    `json:"what"` // one of the constants
	Detail string    `json:"detail,omitempty"`
	Count  int       `json:"count,omitempty"` // how often up to then
}

// What was short.
const (
	PressureLimit     = "limit"     // a limit was reached; Detail says which
	PressureMemory    = "memory"    // the box's kernel killed processes because memory ran out
	PressureProcesses = "processes" // a fork bomb was ended
	// The box's disk is almost full; Detail is which one: workspace or runtime.
	PressureDisk = "disk"
)
