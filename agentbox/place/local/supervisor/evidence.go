package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
)

// How often and how much. Processor time is cheap to look at; the kernel walks through memory to
// measure it; and the guest's answer takes its processor. Hence not at every look.
const (
	cpuEvery     = meterEvery      // at the processor time of a task's machine
	memoryEvery  = 8               // looks from one at its memory to the next
	guestEvery   = 24              // and from one question to the guest to the next
	guestTimeout = 5 * time.Second // a guest that is full of processes may not answer
	// That a machine at its limit goes on, for the logs of its services.
	serviceGrace = 3 * time.Second
	almostFull   = 16 << 20  // bytes of a disk
	maxLogs      = 64        // services whose logs are kept
	maxLogBytes  = 256 << 10 // of each, from its end
)

// keepAccount updates the account of a task's box until ctx ends. Other boxes have no account:
// nobody asks what they cost.
func (s *Supervisor) keepAccount(ctx context.Context) {
	for n := 0; s.meter.await(ctx, s.meter.hasAccount) && background.Sleep(ctx, cpuEvery); n++ {
		s.sampleAccount(n%memoryEvery == 0)
		if n%guestEvery == 0 {
			s.pollGuest(ctx)
		}
	}
}

// sampleAccount writes down what the machine has used, with its memory if asked to.
func (s *Supervisor) sampleAccount(memory bool) {
	select {
	case <-s.started:
	default:
		return
	}
	begun, accounts := s.meter.accountStart()
	if s.machine == nil || !accounts {
		return
	}
	// Time counts from the task's beginning, not from the first sample: the task may end before
	// that.
	s.accounting.begin(begun)
	pids := s.machine.PIDs()
	s.accounting.sampleCPU(pids)
	if memory {
		s.accounting.measureMemory(pids, time.Now())
	}
	if err := s.accounting.write(); err != nil {
		s.log.Warn("cannot record what the box has used", "error", err)
	}
}

// pressureWatch is the shortages that the guest has reported so far.
type pressureWatch struct {
	kills, bombs       int
	workspace, runtime bool // almost full
}

// pollGuest records the shortages that the guest has come to since it was last asked. It uses the
// connection that exists and makes none: nothing here waits for a guest that does not answer.
func (s *Supervisor) pollGuest(ctx context.Context) {
	client := s.link.liveConnection()
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	stats, err := client.Stats(ctx)
	if err != nil {
		return // it is asked again
	}
	s.accounting.underPressure(stats, time.Now().UTC())
}

// unreported returns what is new in a report, which is known from then on. The numbers are the
// guest's own. They may be lies, which then end up in the evidence of the box's own task.
func (p *pressureWatch) unreported(now protocol.GuestStats) (list []agentbox.Pressure) {
	if now.OOMKills > p.kills {
		list = append(list, agentbox.Pressure{What: agentbox.PressureMemory, Count: now.OOMKills})
	}
	if now.ForkBombs > p.bombs {
		list = append(list, agentbox.Pressure{What: agentbox.PressureProcesses, Count: now.ForkBombs})
	}
	workspace, runtime := now.WorkspaceFree < almostFull, now.RuntimeFree < almostFull
	if workspace && !p.workspace {
		list = append(list, agentbox.Pressure{What: agentbox.PressureDisk, Detail: "workspace"})
	}
	if runtime && !p.runtime {
		list = append(list, agentbox.Pressure{What: agentbox.PressureDisk, Detail: "runtime"})
	}
	*p = pressureWatch{now.OOMKills, now.ForkBombs, workspace, runtime}
	return list
}

// flushEvidence completes what the box's directory has about its machine, before the machine ends:
// the account, and the ends of its services' logs. The logs of a guest that does not answer are
// lost.
func (s *Supervisor) flushEvidence(ctx context.Context) {
	if !s.meter.hasAccount() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, serviceGrace)
	defer cancel()
	// Both wait for the guest, and share a few seconds.
	var work sync.WaitGroup
	work.Go(func() {
		if err := s.keepServiceLogs(ctx); err != nil {
			s.log.Warn("cannot keep the logs of the box's services", "error", err)
		}
	})
	s.pollGuest(ctx)
	work.Wait()
	s.sampleAccount(true)
}

// serviceName matches the name of a service. The configuration was checked against it, but here the
// names come from the guest and become file names of this host.
var serviceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// keepServiceLogs copies the end of each service's log from the guest into the box's directory. An
// error with one service does not affect the others; errors are joined.
func (s *Supervisor) keepServiceLogs(ctx context.Context) error {
	client := s.link.liveConnection()
	if client == nil {
		return nil
	}
	list, err := client.Services(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	if err := os.MkdirAll(s.names.ServiceLogs(), 0o700); err != nil {
		return err
	}
	files, err := environment.OpenFiles(ctx, client.SSH(), "")
	if err != nil {
		return err
	}
	defer files.Close()
	var errs []error
	// The list is the guest's: bounded, and each name is checked before it is a file's.
	for _, v := range list[:min(len(list), maxLogs)] {
		if !serviceName.MatchString(v.Name) {
			errs = append(errs, fmt.Errorf("a service called %.80q", v.Name))
			continue
		}
		end, err := readTail(files, path.Join(protocol.ServiceLogDir, v.Name+".log"))
		if agentbox.CodeOf(err) == agentbox.NotFound {
			continue // it has not begun
		}
		if err == nil {
			err = durable.Replace(filepath.Join(s.names.ServiceLogs(), v.Name+".log"), end, 0o600)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// readTail is the last maxLogBytes of a file of the guest, whatever size the guest claims.
func readTail(files *environment.Files, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(info.Size()-maxLogBytes, 0)
	return io.ReadAll(io.NewSectionReader(f, from, maxLogBytes))
}
