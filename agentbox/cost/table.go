package cost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
)

// Table is rates.yaml of a user's home. All rates are in Currency, finite and not negative.
type Table struct {
	Currency string           `yaml:"currency" json:"currency"`
	CPU      float64          `yaml:"cpu" json:"cpu,omitempty"`       // an hour of one processor
	Memory   float64          `yaml:"memory" json:"memory,omitempty"` // a GiB for an hour
	In       float64          `yaml:"in" json:"in,omitempty"`         // a GiB that a box receives
	Out      float64          `yaml:"out" json:"out,omitempty"`       // a GiB that it sends
	Models   map[string]Model `yaml:"models" json:"models,omitempty"` // by the beginning of their names: the longest that fits counts
}

// Model is what a million tokens of a model cost. A missing rate is 0.
type Model struct {
	Input      float64 `yaml:"input" json:"input,omitempty"`
	Output     float64 `yaml:"output" json:"output,omitempty"`
	CacheRead  float64 `yaml:"cache-read" json:"cache_read,omitempty"`
	CacheWrite float64 `yaml:"cache-write" json:"cache_write,omitempty"`
}

// maxTable bounds a table, in bytes.
const maxTable = 64 << 10

// Load reads the table at path; nil if there is none. The error has code Invalid and says what is
// wrong.
func Load(path string) (*Table, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "cannot read the rates: %w", err)
	}
	defer f.Close()
	t, err := Parse(f)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s: %w", path, err).WithHint("docs/costs.md has its form")
	}
	return t, nil
}

// Parse reads and checks a table. Unknown keys are errors: a misspelled one would make something
// free.
func Parse(r io.Reader) (*Table, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTable+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxTable {
		return nil, fmt.Errorf("a table of rates has at most %d KiB", maxTable>>10)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	var t Table
	if err := d.Decode(&t); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return &t, t.check()
}

// check reports every invalid rate, in a fixed order.
func (t *Table) check() error {
	if len(t.Currency) == 0 || len(t.Currency) > 8 || strings.ContainsFunc(t.Currency, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("currency: say it in at most 8 characters, as EUR")
	}
	all := map[string]float64{"cpu": t.CPU, "memory": t.Memory, "in": t.In, "out": t.Out}
	for name, m := range t.Models {
		if name == "" {
			return errors.New("models: a model without a name")
		}
		for what, rate := range map[string]float64{"input": m.Input, "output": m.Output, "cache-read": m.CacheRead, "cache-write": m.CacheWrite} {
			all["models: "+name+": "+what] = rate
		}
	}
	var wrong []string
	for what, rate := range all {
		if rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
			wrong = append(wrong, fmt.Sprintf("%s: %v is no rate", what, rate))
		}
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// The units that rates are for; see Table and Model.
const (
	hour    = 3600 // seconds
	gib     = 1 << 30
	million = 1e6
)

// Cost is what consumption costs. c.Memory is in GiB seconds. Tokens of models that the table lacks
// cost nothing, and Unrated names those models, sorted.
func (t *Table) Cost(c agentbox.Consumption) agentbox.Cost {
	out := agentbox.Cost{Currency: t.Currency}
	out.Amount = c.CPU.Seconds()/hour*t.CPU + c.Memory/hour*t.Memory + float64(c.In)/gib*t.In + float64(c.Out)/gib*t.Out
	for name, n := range c.Models {
		m, found := t.model(name)
		if !found {
			// A model that used no tokens is not worth mentioning.
			if n.Total() > 0 {
				out.Unrated = append(out.Unrated, name)
			}
			continue
		}
		out.Amount += (float64(n.Input)*m.Input + float64(n.Output)*m.Output + float64(n.CacheRead)*m.CacheRead + float64(n.CacheWrite)*m.CacheWrite) / million
	}
	slices.Sort(out.Unrated)
	return out
}

func (t *Table) model(name string) (m Model, found bool) {
	longest := -1
	for prefix, rates := range t.Models {
		if strings.HasPrefix(name, prefix) && len(prefix) > longest {
			longest, m, found = len(prefix), rates, true
		}
	}
	return m, found
}
