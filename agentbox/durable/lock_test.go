package durable

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held, err := Held(path); held || err != nil {
		t.Fatalf("a lock that is not there: %v, %v", held, err)
	}
	f, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := Held(path); !held || err != nil {
		t.Errorf("held: %v, %v", held, err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrHeld) {
		t.Errorf("taken twice: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Lock(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("waited for what is not let go: %v", err)
	}
	release, err := Lock(t.Context(), path, func() { f.Close() })
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if held, err := Held(path); held || err != nil {
		t.Errorf("let go: %v, %v", held, err)
	}
}

// Asking whether a lock is held must not make it look held to others who ask.
func TestHeldTakesNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for range 100 {
		done := make(chan bool, 2)
		for range cap(done) {
			go func() {
				held, err := Held(path)
				done <- held || err != nil
			}()
		}
		for range cap(done) {
			if <-done {
				t.Fatal("nobody holds it")
			}
		}
	}
}
