package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
)

// TestOneDaemonPerHome serves an empty home: a second daemon is refused, a call answers, and a call
// ends it.
func TestOneDaemonPerHome(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(home.EnvDir, dir)
	cfg := Config{Home: home.Home{Dir: dir}, Version: "1", Log: slog.New(slog.DiscardHandler)}
	if err := cfg.Home.Create(); err != nil {
		t.Fatal(err)
	}
	// A socket that a killed daemon left must not be in the way.
	if err := os.WriteFile(cfg.Home.Socket(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	defer cancel()
	client := api.NewClient(cfg.Home.Socket())
	defer client.Close()
	status, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	for deadline := time.Now().Add(5 * time.Minute); err != nil && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		status, err = api.Call(ctx, client, api.Status, api.None{}, nil)
	}
	if err != nil || status.Version != "1" || status.Home != dir || status.Boxes != 0 {
		t.Fatalf("%+v, %v", status, err)
	}
	if fi, err := os.Stat(cfg.Home.Socket()); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("its socket: %v, %v", fi, err)
	}
	if err := Run(ctx, cfg); !errors.Is(err, ErrRunning) {
		t.Errorf("a second daemon: %v", err)
	}
	if boxes, err := api.Call(ctx, client, api.ListBoxes, api.ListRequest{}, nil); err != nil || len(boxes) != 0 {
		t.Errorf("boxes: %v, %v", boxes, err)
	}
	_, err = api.Call(ctx, client, api.ShowBox, api.BoxRef{Box: "nothing"}, nil)
	if agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a box that is not there: %v", err)
	}
	if _, err := api.Call(ctx, client, api.Shutdown, api.None{}, nil); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("it does not end")
	}
	if lock, err := acquire(filepath.Join(dir, "daemon.lock")); err != nil {
		t.Errorf("its lock is not free: %v", err)
	} else {
		lock.Close()
	}
}
