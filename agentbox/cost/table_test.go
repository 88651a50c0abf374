package cost

import (
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

const table = `
currency: XTS
cpu: 2
memory: 1
in: 3
out: 5
models:
  big: {input: 4, output: 8, cache-read: 1, cache-write: 6}
  big-cheap: {input: 1}
`

func TestCost(t *testing.T) {
	rates, err := Parse(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		used agentbox.Consumption
		want agentbox.Cost
	}{
		"nothing": {agentbox.Consumption{}, agentbox.Cost{Currency: "XTS"}},
		"machine": {agentbox.Consumption{CPU: 30 * time.Minute, Memory: 7200, In: 1 << 30, Out: 2 << 30}, agentbox.Cost{Amount: 1 + 2 + 3 + 10, Currency: "XTS"}},
		"models": {agentbox.Consumption{Models: map[string]agentbox.Tokens{
			"big-1": {Input: 1_000_000, Output: 500_000, CacheRead: 2_000_000, CacheWrite: 1_000_000}, "big-cheap-2": {Input: 3_000_000, Output: 9}, "other": {Input: 5}, "": {Unreported: 1},
		}}, agentbox.Cost{Amount: 4 + 4 + 2 + 6 + 3, Currency: "XTS", Unrated: []string{"other"}}},
	} {
		got := rates.Cost(c.used)
		if math.Abs(got.Amount-c.want.Amount) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, got.Amount, c.want.Amount)
		}
		if got.Amount = c.want.Amount; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

func TestInvalidTables(t *testing.T) {
	for text, want := range map[string]string{
		"cpu: 1": "currency", "currency: EUR\ncpu: -1": "cpu: -1 is no rate", "currency: EUR\nmodels: {m: {input: .inf}}": "models: m: input",
		"currency: EUR\ncpus: 1": "cpus not found", "currency: EUR\nmodels: {m: {inputs: 1}}": "inputs", "currency: [": "yaml", "currency: \"E\\nU\"": "currency",
		"# " + strings.Repeat("x", maxTable): "KiB",
	} {
		if _, err := Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if got, err := Load(filepath.Join(t.TempDir(), "none")); got != nil || err != nil {
		t.Errorf("no table: %v, %v", got, err)
	}
}
