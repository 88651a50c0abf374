package lending

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/project"
	"agentbox/policy/secrets"
)

func newClients(t *testing.T) *Clients {
	t.Helper()
	dir, err := os.MkdirTemp("", "clients") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := home.Home{Dir: dir}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	ps := egress.New(egress.Config{Home: h, Store: project.NewStore(h), Registries: project.NewRegistries(h.Registries()), Boxes: noneRunning{}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(ps.Close)
	return &Clients{Home: h, Log: slog.New(slog.DiscardHandler), Policies: ps}
}

type noneRunning struct{ egress.Boxes }

func (noneRunning) Running() []egress.Box { return nil }

// A value is asked by the connection that is there now, whatever earlier ones left.
func TestClientIsAsked(t *testing.T) {
	laptop, gpu := newClients(t), newClients(t)
	if err := gpu.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	value := filepath.Join(laptop.Home.Dir, "value")
	if err := os.WriteFile(value, []byte("the-value"), 0o600); err != nil {
		t.Fatal(err)
	}
	req := api.SecretRequest{Name: "TOKEN", To: []string{"https://api.example"}, From: secrets.Reference{Kind: secrets.File, Target: value}, LentTo: &api.Lent{Host: "gpu", Project: "p"}}
	if _, err := laptop.Policies.SetSecret(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	ask := func(client, name string) (string, error) {
		return gpu.ask(t.Context(), client, api.LentValue{Project: "p", Name: name})
	}
	if _, err := ask("laptop", "TOKEN"); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("without a connection: %v", err)
	}
	socket, err := laptop.Lend(t.Context(), api.LendRequest{Host: "gpu"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(socket, filepath.Join(gpu.Home.Clients(), "laptop.1")); err != nil { // as ssh does
		t.Fatal(err)
	}
	stale := filepath.Join(gpu.Home.Clients(), "laptop.2")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if err := os.Chtimes(stale, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if v, err := ask("laptop", "TOKEN"); v != "the-value" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	}
	if _, err := os.Lstat(stale); err == nil {
		t.Error("the socket of a connection that ended is still there")
	}
	for client, name := range map[string]string{"laptop": "OTHER", "lap": "TOKEN", "*": "TOKEN", "../clients/laptop": "TOKEN"} {
		if v, err := ask(client, name); err == nil {
			t.Errorf("%s %s: %q", client, name, v)
		}
	}
	// The next daemon answers at the same place.
	laptop.Close()
	next := &Clients{Home: laptop.Home, Log: laptop.Log, Policies: laptop.Policies}
	if err := next.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if v, err := ask("laptop", "TOKEN"); v != "the-value" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
}
