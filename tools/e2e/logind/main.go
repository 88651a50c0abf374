// Command logind is what a script has for logind: it says that the machine will sleep, and waits for
// those who asked for that. Nothing sleeps. It is NetworkManager, too, whose network is paid by the byte.
//
//	logind serve SOCKET   a bus, and logind on it, until interrupted
//	logind sleep SOCKET   returns when nobody holds the sleep up any more; fails if nobody ever did
//	logind wake SOCKET
//
// The protocol is that of org.freedesktop.login1(5). TestWatcher has the real one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

// patience is how long it waits, where logind waits five seconds: machines of tests are slow.
const patience = 5 * time.Minute

const (
	name = "org.freedesktop.login1"
	path = dbus.ObjectPath("/org/freedesktop/login1")
	face = "org.freedesktop.login1.Manager"

	network = "org.freedesktop.NetworkManager"

	config = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: logind serve|sleep|wake SOCKET")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "logind:", err)
		os.Exit(1)
	}
}

func run(what, socket string) error {
	if what == "serve" {
		return serve(socket)
	}
	conn, err := dbus.Connect("unix:path=" + socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return conn.Object(name, path).CallWithContext(ctx, face+"."+map[string]string{"sleep": "Sleep", "wake": "Wake"}[what], 0).Err
}

func serve(socket string) error {
	if err := os.WriteFile(socket+".conf", fmt.Appendf(nil, config, socket), 0o600); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	runtime.LockOSThread() // the bus ends with this thread
	bus := exec.CommandContext(ctx, "dbus-daemon", "--nofork", "--print-address", "--config-file="+socket+".conf")
	bus.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := bus.StdoutPipe()
	if err != nil {
		return err
	}
	if err := bus.Start(); err != nil {
		return err
	}
	if _, err := out.Read(make([]byte, 100)); err != nil {
		return err
	}
	conn, err := dbus.Connect("unix:path=" + socket)
	if err != nil {
		return err
	}
	l := &logind{conn: conn}
	if err := conn.Export(l, path, face); err != nil {
		return err
	}
	delay := prop.Map{face: {"InhibitDelayMaxUSec": {Value: uint64(patience / time.Microsecond)}}}
	if _, err := prop.Export(conn, path, delay); err != nil {
		return err
	}
	if _, err := prop.Export(conn, "/org/freedesktop/NetworkManager", prop.Map{network: {"Metered": {Value: uint32(1)}}}); err != nil {
		return err
	}
	for _, name := range []string{network, name} {
		if _, err := conn.RequestName(name, 0); err != nil {
			return err
		}
	}
	if err := bus.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

type logind struct {
	conn *dbus.Conn
	mu   sync.Mutex
	held []lock
}

// lock is a pipe whose end for writing somebody else has, too. It is at its end when that is closed.
type lock struct{ r, w *os.File }

func (l *logind) Inhibit(_, _, _, _ string) (dbus.UnixFD, *dbus.Error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	l.mu.Lock()
	l.held = append(l.held, lock{r, w})
	l.mu.Unlock()
	return dbus.UnixFD(w.Fd()), nil
}

func (l *logind) Sleep() *dbus.Error {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if len(held) == 0 {
		return dbus.MakeFailedError(errors.New("nobody has asked for time before the machine sleeps"))
	}
	if err := l.conn.Emit(path, face+".PrepareForSleep", true); err != nil {
		return dbus.MakeFailedError(err)
	}
	for _, one := range held {
		one.w.Close()
		_, _ = io.Copy(io.Discard, one.r)
		one.r.Close()
	}
	return nil
}

func (l *logind) Wake() *dbus.Error {
	if err := l.conn.Emit(path, face+".PrepareForSleep", false); err != nil {
		return dbus.MakeFailedError(err)
	}
	return nil
}
