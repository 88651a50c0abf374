package idle

import (
	"context"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/sysfs"

	"agentbox/agentbox/api"
)

// logindTimeout bounds the question to logind, which may be hung.
const logindTimeout = time.Second

// measure reads the facts from the file systems proc and sys below root, and from logind. guests tells
// whether tasks of others run.
func (m *Meter) measure(ctx context.Context, root string, guests bool) (f api.IdleFacts) {
	if fs, err := procfs.NewFS(filepath.Join(root, "proc")); err == nil {
		if now, ok := look(fs); ok {
			var load float64
			load, f.Pressure = m.add(now, guests)
			f.Load = &load
		}
	}
	if fs, err := sysfs.NewFS(filepath.Join(root, "sys")); err == nil {
		f.Battery = onBattery(fs)
	}
	f.Input, f.Lid, f.Metered = bus(ctx)
	return f
}

// look takes a sample. What a hypervisor took away, or a disk, is nobody's use of a CPU.
func look(fs procfs.FS) (sample, bool) {
	stat, err := fs.Stat()
	if err != nil {
		return sample{}, false
	}
	c := stat.CPUTotal
	s := sample{cpus: len(stat.CPU), busy: c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ, runnable: max(int(stat.ProcessesRunning)-1, 0)} // without this one
	s.all = s.busy + c.Idle + c.Iowait + c.Steal
	if psi, err := fs.PSIStatsForResource("cpu"); err == nil && psi.Some != nil {
		waited := float64(psi.Some.Total) / 1e6
		s.waited = &waited
	}
	return s, true
}

// onBattery is true if a battery is being discharged, nil without a battery. A wireless mouse has
// one, too: its scope is Device.
func onBattery(fs sysfs.FS) *bool {
	supplies, err := fs.PowerSupplyClass()
	if err != nil {
		return nil
	}
	var on *bool
	for _, s := range supplies {
		if s.Type == "Battery" && s.Scope != "Device" {
			discharging := s.Status == "Discharging" || on != nil && *on
			on = &discharging
		}
	}
	return on
}

// bus asks what others know of this machine.
func bus(ctx context.Context) (input *time.Time, lid, metered *bool) {
	ctx, cancel := context.WithTimeout(ctx, logindTimeout)
	defer cancel()
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if err != nil {
		return nil, nil, nil
	}
	defer conn.Close()
	input, lid = logind(ctx, conn)
	var v dbus.Variant
	manager := conn.Object("org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager")
	if manager.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", dbus.FlagNoAutoStart, "org.freedesktop.NetworkManager", "Metered").Store(&v) == nil {
		metered = fromNetworkManager(v)
	}
	return input, lid, metered
}

// fromNetworkManager reads NMMetered: 0 unknown, 1 yes, 2 no, 3 and 4 the same as a guess.
func fromNetworkManager(v dbus.Variant) *bool {
	n, ok := v.Value().(uint32)
	if !ok || n < 1 || n > 4 {
		return nil
	}
	yes := n%2 == 1
	return &yes
}

// logind asks since when somebody uses this machine, and whether the lid is closed. A machine on
// which no graphical session tells logind that it is idle has no answer.
func logind(ctx context.Context, conn *dbus.Conn) (input *time.Time, lid *bool) {
	var all map[string]dbus.Variant
	manager := conn.Object("org.freedesktop.login1", "/org/freedesktop/login1")
	if manager.CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, "org.freedesktop.login1.Manager").Store(&all) != nil {
		return nil, nil
	}
	return fromLogind(all)
}

// fromLogind reads the properties of logind's manager. IdleSinceHint is 0 where no session has ever
// given a hint, as on a server.
func fromLogind(all map[string]dbus.Variant) (input *time.Time, lid *bool) {
	if closed, ok := all["LidClosed"].Value().(bool); ok {
		lid = &closed
	}
	idle, ok := all["IdleHint"].Value().(bool)
	since, known := all["IdleSinceHint"].Value().(uint64)
	if !ok || !known || since == 0 {
		return nil, lid
	}
	var at time.Time
	if !idle && (lid == nil || !*lid) {
		at = time.UnixMicro(int64(since))
	}
	return &at, lid
}
