package bounded

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

var errFull = errors.New("full")

func TestHeadDropsTheRest(t *testing.T) {
	var b bytes.Buffer
	h := &Head{W: &b, Remaining: 5}
	for _, s := range []string{"ab", "", "cdef", "gh"} {
		if n, err := h.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
	if b.String() != "abcde" || h.Remaining != 0 {
		t.Errorf("%q, %d left", b.String(), h.Remaining)
	}
	if _, err := (&Head{W: failing{}, Remaining: 1}).Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

func TestAtMostRefusesTheRest(t *testing.T) {
	var b bytes.Buffer
	a := &LimitedWriter{W: &b, Remaining: 5, Err: errFull}
	if n, err := a.Write([]byte("abcde")); n != 5 || err != nil {
		t.Errorf("what fits: %d, %v", n, err)
	}
	if n, err := a.Write([]byte("f")); n != 0 || !errors.Is(err, errFull) {
		t.Errorf("what does not: %d, %v", n, err)
	}
	b.Reset()
	a = &LimitedWriter{W: &b, Remaining: 5, Err: errFull}
	if n, err := a.Write([]byte("abcdefg")); n != 5 || !errors.Is(err, errFull) || b.String() != "abcde" {
		t.Errorf("what fits in part: %d, %v, %q", n, err, b.String())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
