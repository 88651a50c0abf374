package nbd

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// constantImage is an image of sevens that notes the longest read.
type constantImage struct{ longest atomic.Int64 }

func (c *constantImage) Size() int64 { return 16 << 20 }

func (c *constantImage) ReadBlocks(_ context.Context, p []byte, _ int64) error {
	for i := range p {
		p[i] = 7
	}
	for old := c.longest.Load(); int64(len(p)) > old && !c.longest.CompareAndSwap(old, int64(len(p))); {
		old = c.longest.Load()
	}
	return nil
}

// QEMU's own client, without a machine: what it is asked for in one piece it asks for in pieces
// that are no longer than it was told, and gets all of it.
func TestQEMUReadSizes(t *testing.T) {
	program, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("QEMU is not installed")
	}
	socket := filepath.Join(t.TempDir(), "nbd")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	image, served := &constantImage{}, make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = Serve(t.Context(), conn, image)
		}
		served <- err
	}()
	cmd := exec.CommandContext(t.Context(), program, "-machine", "none", "-nodefaults", "-display", "none", "-S", "-qmp", "stdio",
		"-blockdev", "driver=nbd,node-name=image,server.type=unix,server.path="+socket+",read-only=on")
	cmd.Stdin = strings.NewReader(`{"execute":"qmp_capabilities"}
{"execute":"human-monitor-command","arguments":{"command-line":"qemu-io image \"read -P 7 1234567 9000000\""}}
{"execute":"quit"}
`)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "read 9000000/9000000 bytes") || strings.Contains(string(out), "Pattern verification failed") {
		l.Close() // it may never have connected
		t.Errorf("%v: %s", err, out)
	}
	if err := <-served; err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if longest := image.longest.Load(); longest == 0 || longest > maxRead {
		t.Errorf("the longest read had %d bytes", longest)
	}
}
