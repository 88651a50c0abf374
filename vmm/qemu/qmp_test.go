package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/vmm/child"
)

// scripted is a QEMU that answers from a function.
func scripted(t *testing.T, answer func(name string, id uint64, conn net.Conn)) (*monitor, chan string) {
	ours, theirs, err := child.SocketPair("qmp")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	events := make(chan string, 10)
	m := newMonitor(ours, func(name string, _ json.RawMessage) { events <- name })
	served := make(chan struct{})
	go func() {
		defer close(served)
		fmt.Fprintln(conn, `{"QMP": {"version": {}, "capabilities": []}}`)
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			var c struct {
				Execute string
				ID      uint64
			}
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Error(err)
			}
			answer(c.Execute, c.ID, conn)
		}
	}()
	t.Cleanup(func() {
		m.close()
		conn.Close()
		<-served
	})
	return m, events
}

func TestMonitorAnswersAndEvents(t *testing.T) {
	m, events := scripted(t, func(name string, id uint64, conn net.Conn) {
		switch name {
		case "fail":
			fmt.Fprintf(conn, `{"error": {"class": "GenericError", "desc": "no such thing"}, "id": %d}`+"\n", id)
		default:
			fmt.Fprintln(conn, `{"event": "RESUME", "data": {}}`)
			fmt.Fprintf(conn, `{"return": {"name": %q}, "id": %d}`+"\n", name, id)
		}
	})
	ctx := context.Background()
	if err := m.negotiate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.run(ctx, time.Minute, "cont", nil); err != nil {
		t.Error(err)
	}
	if <-events != "RESUME" {
		t.Error("the event is lost")
	}
	if err := m.run(ctx, time.Minute, "fail", nil); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
}

func TestMonitorTimeout(t *testing.T) {
	m, _ := scripted(t, func(string, uint64, net.Conn) {})
	err := m.run(context.Background(), 20*time.Millisecond, "stop", nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestMonitorEndsWithItsSocket(t *testing.T) {
	for what, say := range map[string]string{"close": "", "nonsense": "hello\n", "endless line": strings.Repeat("x", maxMessage+1)} {
		m, _ := scripted(t, func(_ string, _ uint64, conn net.Conn) {
			conn.Write([]byte(say)) // fails halfway when the monitor has had enough
			conn.Close()
		})
		if err := m.run(context.Background(), time.Minute, "stop", nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", what, err)
		}
		if err := m.run(context.Background(), time.Minute, "stop", nil); err == nil {
			t.Errorf("%s: a command ran on a dead monitor", what)
		}
	}
}

func TestMonitorPassesFiles(t *testing.T) {
	ours, theirs, err := child.SocketPair("qmp")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	m := newMonitor(ours, func(string, json.RawMessage) {})
	defer m.close()
	f, err := os.CreateTemp(t.TempDir(), "passed")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.run(ctx, time.Minute, "add-fd", map[string]int{"fdset-id": 1}, f) // nobody answers
	}()
	defer func() { cancel(); <-ended }()
	buf, oob := make([]byte, 1024), make([]byte, 64)
	n, oobn, _, _, err := unix.Recvmsg(int(theirs.Fd()), buf, oob, 0)
	if err != nil || !strings.Contains(string(buf[:n]), `"execute":"add-fd","arguments":{"fdset-id":1}`) {
		t.Fatalf("got %q, %v", buf[:n], err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		t.Fatalf("got %v, %v", messages, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("got %v, %v", fds, err)
	}
	unix.Close(fds[0])
}

// QEMU would keep the descriptor, and with it the blocks of a file that is removed, for as long as
// the machine runs.
func TestFailedSaveClosesFile(t *testing.T) {
	var held atomic.Bool
	qmp, _ := scripted(t, func(name string, id uint64, conn net.Conn) {
		switch name {
		case "add-fd", "remove-fd":
			held.Store(name == "add-fd")
		case "xen-save-devices-state":
			fmt.Fprintf(conn, `{"error": {"class": "GenericError", "desc": "no space left"}, "id": %d}`+"\n", id)
			return
		}
		fmt.Fprintf(conn, `{"return": {}, "id": %d}`+"\n", id)
	})
	m := &machine{qmp: qmp, End: child.NewEnd()}
	err := m.saveDevices(t.Context(), t.TempDir(), &manifest{})
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("save: %v", err)
	}
	if held.Load() {
		t.Error("QEMU still holds the file")
	}
}
