package child

import (
	"errors"
	"io"
	"os/exec"
	"testing"
)

func TestProcessEnd(t *testing.T) {
	ours, theirs, err := SocketPair("input")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.Stdout = theirs, theirs
	p, err := Start(cmd, nil)
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if b := make([]byte, 1); p.PID <= 0 || errors.Is(readFull(ours, b), io.EOF) || b[0] != 'x' {
		t.Errorf("process %d answered %q", p.PID, b)
	}
	for range 2 {
		if err := p.Kill(); err != nil {
			t.Errorf("kill: %v", err)
		}
	}
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.Success() {
		t.Errorf("ended with %v", p.Err())
	}
}

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	return err
}

func TestUnconfinedProcessDoesNotStart(t *testing.T) {
	refused := errors.New("refused")
	if _, err := Start(exec.Command("true"), func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	if _, err := Start(exec.Command("/no/such/program"), nil); err == nil {
		t.Error("what is not there was started")
	}
}
