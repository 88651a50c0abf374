package idle

import (
	"context"
	"os"
	"time"

	"github.com/godbus/dbus/v5"

	"agentbox/agentbox/background"
)

// Names of logind, as org.freedesktop.login1(5) has them.
const (
	logindName    = "org.freedesktop.login1"
	logindPath    = dbus.ObjectPath("/org/freedesktop/login1")
	logindManager = "org.freedesktop.login1.Manager"
	sleepSignal   = logindManager + ".PrepareForSleep"
)

// reconnectEvery is how long a bus, or logind, is left alone that is not there.
const reconnectEvery = time.Minute

// Run follows logind until ctx ends. Where there is none, it looks for one now and then.
func (w Watcher) Run(ctx context.Context) {
	for {
		if w.Wanted() {
			if err := w.follow(ctx); err != nil && ctx.Err() == nil {
				w.Log.Debug("logind does not say when this machine sleeps", "error", err)
			}
		}
		if !background.Sleep(ctx, reconnectEvery) {
			return
		}
	}
}

// follow follows logind until the bus ends, or it is not wanted any more.
func (w Watcher) follow(ctx context.Context) error {
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if err != nil {
		return err
	}
	defer conn.Close()
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(logindName), dbus.WithMatchObjectPath(logindPath)); err != nil {
		return err
	}
	lock, err := inhibit(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { lock.Close() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s, ok := <-signals:
			switch {
			case !ok:
				return dbus.ErrClosed
			case s.Name != sleepSignal:
				w.Changed()
			case starts(s):
				w.sleep(ctx, conn)
				lock.Close()
			default:
				w.Woke()
				if lock, err = inhibit(ctx, conn); err != nil {
					return err
				}
			}
		}
	}
}

// starts tells whether the machine is about to sleep, or has woken up.
func starts(s *dbus.Signal) bool {
	if len(s.Body) != 1 {
		return false
	}
	start, ok := s.Body[0].(bool)
	return ok && start
}

// inhibit has logind wait, when the machine is to sleep, until the file is closed.
func inhibit(ctx context.Context, conn *dbus.Conn) (*os.File, error) {
	var fd dbus.UnixFD
	err := conn.Object(logindName, logindPath).CallWithContext(ctx, logindManager+".Inhibit", 0, "sleep", "agentbox", "tasks go on elsewhere", "delay").Store(&fd)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "sleep"), nil
}

// sleep has as long as logind waits, less a bit.
func (w Watcher) sleep(ctx context.Context, conn *dbus.Conn) {
	limit := 5 * time.Second // the default of logind.conf(5)
	if v, err := conn.Object(logindName, logindPath).GetProperty(logindManager + ".InhibitDelayMaxUSec"); err == nil {
		if us, ok := v.Value().(uint64); ok {
			limit = time.Duration(min(us, uint64(time.Hour/time.Microsecond))) * time.Microsecond
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit*9/10)
	defer cancel()
	w.Sleep(ctx)
}
