package idle

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
)

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`

// TestWatcher has a real bus and a real logind, in a mount namespace in which the kernel is said to know
// how to sleep. What logind asks for sleep, systemd, is a stand-in: nothing sleeps.
func TestWatcher(t *testing.T) {
	const logind = "/lib/systemd/systemd-logind"
	if _, err := exec.LookPath("dbus-daemon"); err != nil || os.Getuid() != 0 {
		t.Skip("needs dbus-daemon, and root")
	}
	if _, err := os.Stat(logind); err != nil {
		t.Skip("needs logind")
	}
	dir := t.TempDir()
	bus := filepath.Join(dir, "bus")
	for name, text := range map[string]string{"conf": fmt.Sprintf(busConfig, bus), "state": "mem\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+bus)
	start(t, exec.Command("dbus-daemon", "--nofork", "--print-address", "--config-file="+filepath.Join(dir, "conf")))
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	manager := &systemd{conn: conn, asked: make(chan struct{}, 1)}
	manager.serve(t)

	owned := make(chan *dbus.Signal, 16)
	conn.Signal(owned)
	if err := conn.AddMatchSignal(dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, logindName)); err != nil {
		t.Fatal(err)
	}
	own := exec.Command("sh", "-c", `mount --make-rprivate / && mount --bind "$0/state" /sys/power/state && mount -t tmpfs none /run &&
		mkdir -p /run/systemd/system /run/systemd/seats /run/systemd/users /run/systemd/sessions && echo ready && exec `+logind, dir)
	own.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	start(t, own)
	<-owned

	events := make(chan string)
	slept := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watcher{
			Wanted: func() bool { events <- "wanted"; return true }, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
			Sleep: func(ctx context.Context) {
				if _, ok := ctx.Deadline(); !ok {
					t.Error("it may take for ever")
				}
				events <- "sleep"
				<-slept
			},
			Woke: func() { events <- "woke" },
		}.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
	<-events
	login := conn.Object(logindName, logindPath)
	for held := 0; held == 0; { // the lock is taken by another connection
		var all [][]any
		if err := login.Call(logindManager+".ListInhibitors", 0).Store(&all); err != nil {
			t.Fatal(err)
		}
		held = len(all)
	}
	for range 2 { // the lock is taken again
		if err := login.Call(logindManager+".Suspend", 0, false).Err; err != nil {
			t.Fatal(err)
		}
		if e := <-events; e != "sleep" {
			t.Fatal(e)
		}
		select {
		case <-manager.asked:
			t.Fatal("the machine sleeps before we are ready")
		default:
		}
		slept <- struct{}{}
		<-manager.asked
		manager.wake(t)
		if e := <-events; e != "woke" {
			t.Fatal(e)
		}
		for held := 0; held == 0; {
			var all [][]any
			if err := login.Call(logindManager+".ListInhibitors", 0).Store(&all); err != nil {
				t.Fatal(err)
			}
			held = len(all)
		}
	}
}

// start starts a program, returns when it has written something, and ends it with the test.
func start(t *testing.T, cmd *exec.Cmd) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := out.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
}

// systemd stands in for org.freedesktop.systemd1: it starts units by saying so.
type systemd struct {
	conn  *dbus.Conn
	asked chan struct{}
}

const (
	systemdPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	sleepJob    = systemdPath + "/job/1"
)

func (s *systemd) serve(t *testing.T) {
	for path, face := range map[dbus.ObjectPath]string{systemdPath: "org.freedesktop.systemd1.Manager", systemdPath + "/unit/suspend_2etarget": "org.freedesktop.DBus.Properties"} {
		if err := s.conn.Export(s, path, face); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.conn.RequestName("org.freedesktop.systemd1", 0); err != nil {
		t.Fatal(err)
	}
}

func (s *systemd) Get(_, _ string) (dbus.Variant, *dbus.Error) {
	return dbus.MakeVariant("loaded"), nil
}
func (s *systemd) Subscribe() *dbus.Error { return nil }

func (s *systemd) StartUnit(_, _ string) (dbus.ObjectPath, *dbus.Error) {
	s.asked <- struct{}{}
	return sleepJob, nil
}

// wake ends the job that made the machine sleep.
func (s *systemd) wake(t *testing.T) {
	if err := s.conn.Emit(systemdPath, "org.freedesktop.systemd1.Manager.JobRemoved", uint32(1), sleepJob, "suspend.target", "done"); err != nil {
		t.Fatal(err)
	}
}
