package mesh

import (
	"bufio"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/catalogue"
	"agentbox/tools/lab/netlab"
	"agentbox/tools/suites/meshtest"
)

// nodeEnv has this test program be a machine of a team, in the directory that it names.
const nodeEnv = "AGENTBOX_TEST_MESH_NODE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(nodeEnv); dir != "" {
		if err := runNode(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// order is a line of a machine's standard input, report the line that answers.
type order struct {
	Do      string // init, invite, join, look, offer, doctor
	Token   string
	Records int
}

type report struct {
	Error   string
	Token   string
	Here    int                         // others
	Records int                         // of their catalogues
	Others  map[string][]netip.AddrPort // where they are, by name
	Clocks  []time.Duration
	Blocked string
}

func runNode(dir string, in io.Reader, out io.Writer) error {
	seed, err := os.ReadFile(filepath.Join(dir, "seed"))
	if err != nil {
		return err
	}
	m, err := Open(Config{
		Dir: filepath.Join(dir, "mesh"), Key: ed25519.NewKeyFromSeed(seed), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		NoMulticast: os.Getenv("ALONE") != "",
	})
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		r, err := execute(m, o)
		if err != nil {
			r.Error = err.Error()
		}
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	}
	return m.Close()
}

func execute(m *Mesh, o order) (r report, err error) {
	switch o.Do {
	case "init":
		return r, m.Init("first", "")
	case "invite":
		_, r.Token, err = m.Invite(time.Hour, nil, nil)
		return r, err
	case "join":
		ctx, cancel := contextOf(time.Minute)
		defer cancel()
		return r, m.Join(ctx, o.Token, "second", "")
	case "offer":
		var records []catalogue.Record
		for i := range o.Records {
			records = append(records, catalogue.Record{Kind: catalogue.Task, Key: fmt.Sprint(i), Text: fmt.Sprintf("%0200d", i)})
		}
		return r, m.Catalogues().Update(func(e *catalogue.Edit) { e.Replace(catalogue.Task, records) })
	}
	if o.Do == "doctor" {
		ctx, cancel := contextOf(time.Minute)
		defer cancel()
		for _, ahead := range m.ClockOffsets(ctx) {
			r.Clocks = append(r.Clocks, ahead)
		}
		if err := m.CheckSend(); err != nil {
			r.Blocked = err.Error()
		}
		return r, nil
	}
	peers, err := m.Peers()
	r.Others = map[string][]netip.AddrPort{}
	for _, p := range peers {
		if p.Self || !p.Online {
			continue
		}
		r.Here++
		r.Records += p.Records[string(catalogue.Task)]
		r.Others[p.Name] = p.Addresses
	}
	return r, err
}

// machine is a process of a team, in a namespace of its own.
type machine struct {
	t           *testing.T
	lab         *netlab.Net
	number      int
	dir         string
	noMulticast bool
	cmd         *exec.Cmd
	in          io.WriteCloser
	out         *bufio.Reader
}

// network makes machines that are joined by cables. The test is skipped where that cannot be done.
func network(t *testing.T, n int) (*netlab.Net, []*machine) {
	t.Helper()
	lab, err := netlab.New(t.Context(), n, 0)
	if agentbox.CodeOf(err) == agentbox.Missing {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	var out []*machine
	for i := range n {
		m := &machine{t: t, lab: lab, number: i, dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(m.dir, "seed"), meshtest.Key(t).Seed(), 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
		t.Cleanup(m.kill)
	}
	return lab, out
}

func (m *machine) start() {
	m.t.Helper()
	m.cmd = m.lab.Command(m.t.Context(), m.number, os.Args[0])
	m.cmd.Env = append(os.Environ(), nodeEnv+"="+m.dir)
	if m.noMulticast {
		m.cmd.Env = append(m.cmd.Env, "ALONE=1")
	}
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	m.cmd.Stderr = log
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		m.t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.out = bufio.NewReader(out)
}

func (m *machine) do(o order) report {
	m.t.Helper()
	var r report
	err := json.NewEncoder(m.in).Encode(o)
	if err == nil {
		var line []byte
		if line, err = m.out.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &r)
		}
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		b, _ := os.ReadFile(filepath.Join(m.dir, "log"))
		m.t.Fatalf("machine %d, %s: %v\n%s", m.number, o.Do, err, b)
	}
	return r
}

// stop has the process end in order.
func (m *machine) stop() {
	m.t.Helper()
	m.in.Close()
	if err := m.cmd.Wait(); err != nil {
		m.t.Fatal(err)
	}
	m.cmd = nil
}

func (m *machine) kill() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill() // it may have ended
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

// team has all machines be members of one, the first of which made it.
func team(t *testing.T, all []*machine) {
	t.Helper()
	for i, m := range all {
		m.start()
		if i == 0 {
			m.do(order{Do: "init"})
			continue
		}
		m.do(order{Do: "join", Token: all[0].do(order{Do: "invite"}).Token})
	}
	awaitConnected(t, all)
}

func awaitConnected(t *testing.T, all []*machine) {
	t.Helper()
	for _, m := range all {
		meshtest.Eventually(t, fmt.Sprintf("machine %d sees the others", m.number), func() bool { return m.do(order{Do: "look"}).Here == len(all)-1 })
	}
}
