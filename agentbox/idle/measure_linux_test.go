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
	for name, content := range map[string]string{
		"proc/loadavg":                         "4.00 2.00 1.00 2/345 6789\n",
		"proc/pressure/cpu":                    "some avg10=1.00 avg60=12.50 avg300=3.00 total=99\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
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
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := measure(t.Context(), root)
	if f.Load == nil || *f.Load <= 0 || f.Pressure == nil || *f.Pressure != 12.5 || f.Battery == nil || !*f.Battery {
		t.Errorf("%+v", f)
	}
	for _, battery := range []string{"BAT0", "BAT1"} {
		if err := os.RemoveAll(filepath.Join(root, "sys/class/power_supply", battery)); err != nil {
			t.Fatal(err)
		}
	}
	if f := measure(t.Context(), root); f.Battery != nil {
		t.Errorf("a mouse is a battery: %v", *f.Battery)
	}
	if f := measure(t.Context(), t.TempDir()); f.Load != nil || f.Pressure != nil || f.Battery != nil {
		t.Errorf("%+v", f)
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
