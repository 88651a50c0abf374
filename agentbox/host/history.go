package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/history"
	"agentbox/agentbox/task/agents"
)

const (
	historyTime = 30 * time.Second     // for getting what an agent remembers, or giving it back
	historyMost = 4 * history.MaxBytes // bytes that are taken of a box, most of which may not be kept
)

// KeepHistory keeps what the agents of a box remember of their conversations. A box that does not
// run is not woken for it.
func (m *Manager) KeepHistory(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.None, error) {
	b, err := m.boxes.find(ctx, ref)
	if err == nil {
		m.keepHistory(ctx, b, progress)
	}
	return api.None{}, err
}

// keepHistory keeps what is remembered in a box that runs. Nothing waits for it for long or fails
// by it: what cannot be kept is told.
func (m *Manager) keepHistory(ctx context.Context, b *box, progress agentbox.Progress) {
	rec := b.record()
	if len(rec.Histories) == 0 || b.live() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	for _, agent := range slices.Sorted(maps.Keys(rec.Histories)) {
		if err := m.keepHistoryOf(ctx, rec, agent, rec.Histories[agent]); err != nil {
			m.log.Warn("cannot keep an agent's history", "box", rec.Box.ID, "agent", agent, "error", err)
			progress.Say("what " + agent + " remembers of its latest conversations in box " + rec.Box.Name + " is not kept: " + err.Error())
		}
	}
}

func (m *Manager) keepHistoryOf(ctx context.Context, rec record, agent string, dirs []string) error {
	kept := m.historyFile(rec, agent)
	defer m.keys.Lock("history " + kept)()
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return agentbox.OrNoSpace(err)
	}
	fresh, err := os.CreateTemp(filepath.Dir(kept), ".tmp-box-")
	if err != nil {
		return agentbox.OrNoSpace(err)
	}
	defer os.Remove(fresh.Name())
	defer fresh.Close()
	client, err := environment.Open(ctx, m.address(rec), rec.User)
	if err != nil {
		return err
	}
	defer client.Close()
	home, err := homeIn(ctx, client)
	if err != nil {
		return err
	}
	what := environment.Export{Root: home}
	for _, dir := range dirs {
		what.Paths = append(what.Paths, path.Join(home, dir))
	}
	if err := what.Take(ctx, client, &bounded.AtMost{W: fresh, Left: historyMost, Err: tooMuch()}); err != nil {
		return agentbox.OrNoSpace(err)
	}
	return agentbox.OrNoSpace(mergeHistory(kept, fresh, dirs))
}

// mergeHistory puts what a box has into what is kept.
func mergeHistory(kept string, fresh *os.File, dirs []string) error {
	var before io.ReadSeeker
	f, err := os.Open(kept)
	if err == nil {
		defer f.Close()
		before = f
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(kept), ".tmp-kept-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // there is none of that name after the rename
	err = history.Merge(out, fresh, before, dirs)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), kept); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(kept))
}

// tooMuch refuses what a box says beyond what is kept.
func tooMuch() error {
	return agentbox.Errorf(agentbox.Conflict, "the box says more than can be kept: delete old conversations in it")
}

func (m *Manager) historyFile(rec record, agent string) string {
	return filepath.Join(m.home.Sessions(m.governed(rec).Project.ID().String(), agent), "kept.tar")
}

// recall gives an agent of a box what it remembers of earlier conversations about the project, once
// in each life of the box, and has what comes to that kept from then on. What is in the box already
// is kept first, so that giving back takes nothing away.
func (m *Manager) recall(ctx context.Context, b *box, agent agents.Profile, progress agentbox.Progress) error {
	rec := b.record()
	if len(agent.Sessions) == 0 || rec.Task || rec.Ephemeral || rec.Recalled[agent.Name] == rec.Life {
		return nil
	}
	var dirs []string
	for _, dir := range agent.Sessions {
		dirs = append(dirs, strings.TrimPrefix(dir, "~/"))
	}
	b.set(func(b *box) {
		b.rec.Histories, b.rec.Recalled = copyOf(b.rec.Histories), copyOf(b.rec.Recalled)
		b.rec.Histories[agent.Name], b.rec.Recalled[agent.Name] = dirs, b.rec.Life
		rec = b.rec
	})
	if err := writeRecord(m.home, rec); err != nil {
		return err
	}
	m.keepHistory(ctx, b, progress)
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	if err := m.giveHistory(ctx, rec, agent.Name); err != nil {
		progress.Say(agent.Name + " does not remember earlier conversations in box " + rec.Box.Name + ": " + err.Error())
	}
	return nil
}

func copyOf[V any](m map[string]V) map[string]V {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]V{}
	}
	return out
}

// giveHistory unpacks what is kept into a box: in there, by its own user.
func (m *Manager) giveHistory(ctx context.Context, rec record, agent string) error {
	f, err := os.Open(m.historyFile(rec, agent))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	client, err := environment.Open(ctx, m.address(rec), rec.User)
	if err != nil {
		return err
	}
	defer client.Close()
	home, err := homeIn(ctx, client)
	if err != nil {
		return err
	}
	files, err := environment.OpenFiles(ctx, client, rec.User)
	if err != nil {
		return err
	}
	return errors.Join(files.TarTo(ctx, f, home, environment.CopyOptions{}), files.Close())
}

// maxHome bounds what a box says its user's home is.
const maxHome = 4 << 10

// homeIn asks a box where its user's home is.
func homeIn(ctx context.Context, client *ssh.Client) (string, error) {
	var home bytes.Buffer
	status, err := environment.Exec(ctx, client, environment.Command{Argv: []string{"sh", "-c", `printf %s "$HOME"`}, Stdout: &bounded.AtMost{W: &home, Left: maxHome, Err: tooMuch()}})
	if err != nil {
		return "", err
	}
	if status.Code != 0 || !path.IsAbs(home.String()) {
		return "", agentbox.Errorf(agentbox.Conflict, "its user has no home directory")
	}
	return home.String(), nil
}
