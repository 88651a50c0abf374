package supervisor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/job"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/control"
	"agentbox/agentbox/place/local/drivers"
	"agentbox/policy/gateway"
	"agentbox/vmm"
	"agentbox/vmm/lazyimage"
	"agentbox/vmm/netstack"
)

// Supervisor is one box's process. The fields that start sets (machine, link, network, ports, gate,
// jobs) may be used after started is closed, and do not change afterwards. op guards operations on
// the machine as a whole: attach, hold, save, pause, stop. Goroutines that start begins end with
// the context of run, which waits for them.
type Supervisor struct {
	cfg        Config
	names      home.Box
	log        *slog.Logger
	driver     vmm.Driver
	machine    vmm.Machine
	image      *lazyimage.File // nil when the machine's image is a plain file
	link       *link
	network    *netstack.Stack // nil for a machine without a card
	ports      *ports
	lease      *lease
	guard      *guard
	ca         func() (*gateway.CA, error) // what the box believes; made or read once
	gate       *gate                       // made when the machine runs
	meter      *meter
	jobs       *job.Hub // made when the machine runs
	accounting *accounting

	startRequests chan control.StartRequest // the daemon's request to greet the guest
	greetedAt     time.Time                 // when the guest was; written before started is closed
	started       chan struct{}             // closed when the machine answers or startErr is set
	startErr      error

	pauseErr atomic.Pointer[string] // why it could not be paused when its lease ended

	op       sync.Mutex  // one operation on the machine at a time
	attached atomic.Bool // the guest has the box's workspace; written under op, read by anybody
	still    atomic.Bool // a user froze the machine; the same

	ended    chan struct{} // closed by end
	endOnce  sync.Once
	endCause agentbox.End
}

// Main runs a supervisor with the configuration on stdin and the inherited files until its machine
// has ended. If it returns an error, the caller exits with a failure.
//
// The last thing it does is to write into the box's directory why it ended, for whichever daemon
// runs then; so a supervisor that was killed leaves nothing. It forbids core dumps before it reads
// anything secret.
func Main(ctx context.Context, stdin io.Reader) error {
	limitToOneThread()
	cfg, files, err := readConfig(stdin)
	if err != nil {
		return err
	}
	if err := disableCoreDumps(); err != nil {
		return err
	}
	names := cfg.names()
	logFile, err := os.OpenFile(names.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	log := slog.New(slog.NewTextHandler(logFile, nil)).With("box", cfg.Box.String())
	s, err := newSupervisor(cfg, log)
	if err != nil {
		log.Error("supervisor ended", "error", err)
		return errors.Join(err, writeExit(names.Dir, failureExit(err, false)))
	}
	if err := s.run(ctx, files); err != nil {
		log.Error("supervisor ended", "error", err)
		return errors.Join(err, writeExit(names.Dir, failureExit(err, s.machine != nil)))
	}
	log.Info("supervisor ended", "end", s.endCause)
	return writeExit(names.Dir, Exit{End: s.endCause})
}

// failureExit is the Exit of a supervisor that ends with an error. The error crosses to the daemon
// as it is, with its code and hint. ran tells whether there has been a machine: one that could not
// be greeted, or not ended well, died, and did not fail to start. A restore that failed late
// counts.
func failureExit(err error, ran bool) Exit {
	e := agentbox.AsError(err)
	cause := agentbox.EndFailed
	if ran || errors.As(err, new(*vmm.MayHaveRun)) {
		cause = agentbox.EndDied
	}
	return Exit{End: agentbox.End{Cause: cause, Detail: e.Message}, Reason: e}
}

// newSupervisor makes a supervisor that has not started anything. An account that cannot be read is
// started over, with a warning: it is no reason not to run the box.
func newSupervisor(cfg Config, log *slog.Logger) (*Supervisor, error) {
	driver, err := drivers.Open(cfg.Isolation, home.Home{Dir: cfg.Home}, log)
	if err != nil {
		return nil, err
	}
	s := &Supervisor{
		cfg: cfg, names: cfg.names(), log: log, driver: driver,
		startRequests: make(chan control.StartRequest, 1), started: make(chan struct{}), ended: make(chan struct{}),
	}
	s.attached.Store(cfg.Saved != "") // a saved machine had its workspace already
	s.meter = newMeter(s.cpuTime, s.noteLimit)
	if s.accounting, err = openAccounting(s.names.Account(), s.meter.hasAccount); err != nil {
		log.Warn("the usage of this box is counted from now on", "error", err)
	}
	s.meter.used = s.accounting.used
	s.ca = sync.OnceValues(func() (*gateway.CA, error) { return authority(s.names) })
	s.guard = newGuard(cfg, home.Home{Dir: cfg.Home}.Audit(cfg.Box), s.meter, log)
	s.lease = newLease(cfg.Lease)
	s.meter.work = s.lease.hold
	return s, nil
}

// run serves until the machine or ctx has ended. Everything that it started has ended when it
// returns. It serves its control socket from the beginning, so that calls wait for the machine in
// the handlers, and to the end, so that the call that ended the machine is still answered.
func (s *Supervisor) run(ctx context.Context, files Files) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	control, err := listener(files.Control)
	if err != nil {
		return err
	}
	sshListener, err := listener(files.SSH)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	server := &http.Server{Handler: s.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	wg.Go(func() { _ = server.Serve(control) })
	defer func() {
		// Answers that are under way, the one that ended us included, are written before we go.
		grace, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		_ = server.Shutdown(grace)
	}()

	wg.Go(func() { s.watchLease(ctx) })
	defer s.cleanUp()
	if err := raiseOOMScore("/proc"); err != nil { // before there is a machine, which inherits it
		s.log.Warn("Linux may end other programs before this box when memory runs out", "error", err)
	}
	s.startErr = s.start(ctx, files, sshListener, &wg)
	close(s.started)
	if s.startErr != nil {
		// The daemon reads the error from its call, or from the exit note when it calls too late.
		s.end(agentbox.End{})
		cancel() // what start has started ends
		return s.startErr
	}
	if err := s.awaitEnd(ctx); err != nil {
		return err
	}
	cancel()
	_ = sshListener.Close()
	s.ports.closeAll()
	return nil
}

// cleanUp ends what start has made, as far as it came. Each part ends before what it uses: the
// machine is killed and its network cut before the gate and the audit log are closed.
func (s *Supervisor) cleanUp() {
	if s.machine != nil {
		_ = s.machine.Kill()
	}
	s.disconnectNetwork()
	if s.gate != nil {
		s.gate.close()
	}
	s.guard.close()
	s.lease.stop()
}

// awaitEnd returns when the machine has ended, or is to end. When ctx ends it stops the machine:
// the system is going down, or a person wants the box to stop. The workspace is synced in either
// case.
func (s *Supervisor) awaitEnd(ctx context.Context) error {
	select {
	case <-ctx.Done():
		s.op.Lock()
		defer s.op.Unlock()
		return s.stop(context.WithoutCancel(ctx), control.StopRequest{Grace: signalGrace})
	case <-s.machine.Done():
		s.end(machineEnd(s.machine.Err()))
	case <-s.ended:
	}
	return nil
}

// signalGrace is how long a signalled supervisor takes to end its machine politely. A system that
// goes down gives some seconds before it kills.
const signalGrace = 3 * time.Second

// end makes run return; the first cause counts. The account is written before the machine's
// processes go, as their counters go with them.
func (s *Supervisor) end(cause agentbox.End) {
	s.endOnce.Do(func() {
		s.sampleAccount(true) // while its processes are there
		s.endCause = cause
		close(s.ended)
	})
}

// machineEnd is the end of a machine that nobody asked to end, as its driver says.
func machineEnd(err error) agentbox.End {
	if err == nil {
		return agentbox.End{Cause: agentbox.EndExit}
	}
	return agentbox.End{Cause: agentbox.EndDied, Detail: err.Error()}
}

// cpuTime is the processor time of the machine, 0 before it runs.
func (s *Supervisor) cpuTime() time.Duration {
	select {
	case <-s.started:
	default:
		return 0
	}
	if s.machine == nil {
		return 0
	}
	return cpuTime(s.machine.PIDs())
}

// waitStarted returns when the machine answers, or with the reason why it does not.
func (s *Supervisor) waitStarted(ctx context.Context) error {
	select {
	case <-s.started:
		return s.startErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// status waits for the machine to answer, and returns what this process knows. The guest is asked
// if the request wants that; if it does not answer, only its part is missing.
func (s *Supervisor) status(ctx context.Context, req place.Question) (control.Status, error) {
	if err := s.waitStarted(ctx); err != nil {
		return control.Status{}, err
	}
	st := control.Status{Status: place.Status{
		PID: os.Getpid(), Life: s.cfg.Life, Configured: s.attached.Load(), Frozen: s.still.Load(), Ports: s.ports.list(), Kernel: s.link.kernel(),
		NoNetworkCard: s.network == nil, AuditLogFailed: s.guard.failed.Load(), Lease: s.leaseStatus(),
	}}
	if req.Processes {
		st.Machine = s.machine.PIDs()
	}
	if !s.attached.Load() || st.Frozen || !req.Guest {
		return st, nil
	}
	client, err := s.link.client(ctx)
	if err != nil {
		// A guest that does not answer has no services to tell; the rest is still true.
		return st, nil
	}
	if stats, err := client.Stats(ctx); err == nil {
		st.OOMKills, st.ForkBombs = stats.OOMKills, stats.ForkBombs
	}
	if services, err := client.Services(ctx); err == nil {
		st.Services = services
	}
	return st, nil
}
