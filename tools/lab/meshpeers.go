package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
	"agentbox/tools/lab/netlab"
)

// meshPeer is another program that distributes one image to many machines. Each has the settings
// that make it fast here, and must do as much as we do: the image is complete, verified and on disk
// at the end.
type meshPeer struct {
	name    string // of its scenarios
	program string
	hint    string // where it comes from
	// open has machine 0 offer the image, and prepares the others to get it.
	open func(ctx context.Context, o *cluster, program string, machines int) (distributor, error)
}

// distributor is such a program at work.
type distributor interface {
	// get has machine i get the image, complete, verified and on disk, and returns the time.
	get(ctx context.Context, i int) (time.Duration, error)
	close() error
}

// meshPeers are programs in common use for this: one that copies, one that distributes container
// images, and one that is peer to peer.
var meshPeers = []meshPeer{
	{"rsync", "rsync", "apt-get install rsync", openRsync},
	{"registry", "registry", "make bench-peers builds it from tools/registry", openRegistry},
	{"ipfs", "ipfs", "make bench-peers builds it from tools/ipfs", openIPFS},
}

// find returns the path of the program, from the directory of peers or from PATH.
func (p meshPeer) find(dir string) (string, error) {
	if dir != "" {
		program := filepath.Join(dir, p.program)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return filepath.Abs(program)
		}
	}
	program, err := exec.LookPath(p.program)
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "%s is not here", p.program).WithHint("%s", p.hint)
	}
	return program, nil
}

// peerScenarios returns the scenarios of the installed peers, which do what mesh/swarm-N does, and
// the names of those that are not installed.
func (l *MeshLab) peerScenarios(o *cluster, n int, baseline string) (out []bench.Scenario, missing []bench.Missing) {
	if !l.cfg.Peers {
		return nil, nil
	}
	for _, p := range meshPeers {
		name := fmt.Sprintf("mesh/%s-swarm-%d", p.name, n)
		// The report lists what is missing, so that nobody takes a shorter table for a result.
		program, err := p.find(l.cfg.Tools)
		if err != nil {
			missing = append(missing, bench.Missing{Name: name, Why: err.Error() + ": " + agentbox.AsError(err).Hint})
			continue
		}
		out = append(out, l.scenario(name, baseline, oneByOne(func(ctx context.Context) ([]time.Duration, error) {
			return o.peerSwarm(ctx, p, program, n)
		})))
	}
	return out, missing
}

// peerSwarm returns the times of all machines of a peer's swarm, which begin at once.
func (o *cluster) peerSwarm(ctx context.Context, p meshPeer, program string, n int) (times []time.Duration, err error) {
	giver, err := p.open(ctx, o, program, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, giver.close()) }()
	return runConcurrently(n-1, func(i int) (time.Duration, error) { return giver.get(ctx, i+1) })
}

// server is a program that runs on a machine until it is closed.
type server struct {
	cmd *exec.Cmd
	log *os.File
	out *bufio.Reader // of its standard output, if requested
}

func (o *cluster) serve(ctx context.Context, i int, dir string, environ []string, read bool, program string, args ...string) (*server, error) {
	return serve(ctx, o.links, i, dir, environ, read, program, args...)
}

// serve starts a program on a machine, in dir, where its log goes. With read, the caller reads its
// standard output. It outlives ctx, as a sample may end before it is closed. The caller closes it.
func serve(ctx context.Context, links *netlab.Net, i int, dir string, environ []string, read bool, program string, args ...string) (*server, error) {
	log, err := os.OpenFile(filepath.Join(dir, filepath.Base(program)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s := &server{cmd: links.Command(context.WithoutCancel(ctx), i, program, args...), log: log}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = dir, append(os.Environ(), environ...), log, log
	if read {
		s.cmd.Stdout = nil
		pipe, err := s.cmd.StdoutPipe()
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		s.out = bufio.NewReader(pipe)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return s, nil
}

// waitForOutput waits for a line that contains what in a server's output, and discards the rest.
func (s *server) waitForOutput(what string) error {
	for {
		line, err := s.out.ReadString('\n')
		if strings.Contains(line, what) {
			go io.Copy(io.Discard, s.out) // until it ends
			return nil
		}
		if err != nil {
			b, _ := os.ReadFile(s.log.Name())
			return fmt.Errorf("it ended before it was ready: %.300s", b)
		}
	}
}

// close ends the program. A nil server is valid.
func (s *server) close() error {
	if s == nil {
		return nil
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
	return s.log.Close()
}

// run runs a program on a machine to its end, and returns its standard output and the time since
// its start. The error has its standard error.
func (o *cluster) run(ctx context.Context, i int, environ []string, program string, args ...string) (out string, took time.Duration, err error) {
	cmd := o.links.Command(ctx, i, program, args...)
	var errs strings.Builder
	cmd.Env, cmd.Stderr = append(os.Environ(), environ...), &errs
	start := time.Now()
	b, err := cmd.Output()
	took = time.Since(start)
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %.200s", filepath.Base(program), args[0], err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(string(b)), took, err
}

// retryUntil calls try until it succeeds, as for a server that was just started. After twenty
// seconds it returns the last error.
func retryUntil(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		if bench.Sleep(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// peerDir makes an empty directory for a peer, new for each swarm, so that nothing of the previous
// one is left.
func (o *cluster) peerDir(name string) (string, error) {
	dir := filepath.Join(o.l.dir, name)
	return dir, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700))
}
