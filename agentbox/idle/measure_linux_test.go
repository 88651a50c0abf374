package idle

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

func TestMeasure(t *testing.T) {
	root := t.TempDir()
	var m Meter
	write := func(name, content string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		"proc/stat":                            "cpu  100 0 100 800 0 0 0 50 0 0\ncpu0 50 0 50 400 0 0 0 25 0 0\ncpu1 50 0 50 400 0 0 0 25 0 0\nprocs_running 3\n",
		"proc/pressure/cpu":                    "some avg10=1.00 avg60=12.50 avg300=3.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"sys/class/power_supply/AC/type":       "Mains\n",
		"sys/class/power_supply/BAT0/type":     "Battery\n",
		"sys/class/power_supply/BAT0/status":   "Discharging\n",
		"sys/class/power_supply/mouse/type":    "Battery\n",
		"sys/class/power_supply/mouse/scope":   "Device\n",
		"sys/class/power_supply/mouse/status":  "Discharging\n",
		"sys/class/power_supply/BAT1/type":     "Battery\n",
		"sys/class/power_supply/BAT1/status":   "Full\n",
		"sys/class/power_supply/BAT1/capacity": "100\n",
	} {
		write(name, content)
	}
	f := m.measure(t.Context(), root, false)
	if f.Load == nil || *f.Load != 1 || f.Pressure != nil || f.Battery == nil || !*f.Battery {
		t.Errorf("at once: %+v", f)
	}
	write("proc/stat", "cpu  200 0 100 950 150 0 0 50 0 0\ncpu0 100 0 50 475 75 0 0 25 0 0\ncpu1 100 0 50 475 75 0 0 25 0 0\nprocs_running 9\n")
	write("proc/pressure/cpu", "some avg10=1.00 avg60=12.50 avg300=3.00 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	if f := m.measure(t.Context(), root, false); *f.Load != 0.25 || f.Pressure == nil || *f.Pressure != 25 {
		t.Errorf("two seconds later: load %v, %+v", *f.Load, f)
	}
	for _, battery := range []string{"BAT0", "BAT1"} {
		if err := os.RemoveAll(filepath.Join(root, "sys/class/power_supply", battery)); err != nil {
			t.Fatal(err)
		}
	}
	if f := m.measure(t.Context(), root, false); f.Battery != nil {
		t.Errorf("a mouse is a battery: %v", *f.Battery)
	}
	if f := m.measure(t.Context(), t.TempDir(), false); f.Load != nil || f.Pressure != nil || f.Battery != nil {
		t.Errorf("%+v", f)
	}
}

func TestMetered(t *testing.T) {
	for n, want := range map[uint32]*bool{0: nil, 1: new(true), 2: new(false), 3: new(true), 4: new(false), 5: nil} {
		if got := fromNetworkManager(dbus.MakeVariant(n)); (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%d: %v", n, got)
		}
	}
	if fromNetworkManager(dbus.MakeVariant("yes")) != nil {
		t.Error("a text tells")
	}
}

func TestFromLogind(t *testing.T) {
	since := uint64(1_700_000_000_000_000)
	properties := func(idle, lid bool, since uint64) map[string]dbus.Variant {
		return map[string]dbus.Variant{"IdleHint": dbus.MakeVariant(idle), "LidClosed": dbus.MakeVariant(lid), "IdleSinceHint": dbus.MakeVariant(since)}
	}
	if input, lid := fromLogind(properties(false, false, since)); input == nil || !input.Equal(time.Unix(1_700_000_000, 0)) || *lid {
		t.Error(input, lid)
	}
	for _, gone := range []map[string]dbus.Variant{properties(true, false, since), properties(false, true, since)} {
		if input, _ := fromLogind(gone); input == nil || !input.IsZero() {
			t.Error(input)
		}
	}
	if input, _ := fromLogind(properties(false, false, 0)); input != nil {
		t.Error("a server has input", input)
	}
	if input, lid := fromLogind(nil); input != nil || lid != nil {
		t.Error(input, lid)
	}
}
