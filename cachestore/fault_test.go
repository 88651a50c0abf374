package cachestore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
)

// runWorkload is a short life of a store: it stores, names, pins, evicts, verifies. done is told of
// what is promised: kept by a pin, or gone.
func runWorkload(ctx context.Context, s *Store, round int, done func(promise)) error {
	seed := uint64(round)
	shared := diskImage(1, 4)
	image := bytes.Clone(shared)
	copy(image[2*blob.BlockSize:], noise(seed, 1000))
	st, err := s.PutImage(ctx, bytes.NewReader(image), int64(len(image)), blob.Info{Kind: blob.Image})
	if err != nil {
		return err
	}
	if err := s.Pin(ctx, "image", st.Manifest); err != nil {
		return err
	}
	done(promise{pin: "image", digest: st.Manifest, sum: blob.Sum(image)})
	stream := append(noise(seed+100, 400<<10), noise(3, 1<<20)...)
	if st, err = s.PutStream(ctx, bytes.NewReader(stream), blob.Info{Kind: blob.Cache}); err != nil {
		return err
	}
	n := blob.Name{Namespace: "cache", Key: fmt.Sprint(round), Manifest: st.Manifest, Scope: blob.Team}
	if _, err := s.Publish(ctx, n); err != nil {
		return err
	}
	done(promise{pin: "cache", digest: st.Manifest, sum: blob.Sum(stream)})
	if round > 1 {
		if err := s.Unpublish("cache", fmt.Sprint(round-1)); err != nil && agentbox.CodeOf(err) != agentbox.NotFound {
			return err
		}
	}
	if _, err := s.GC(ctx, GCOptions{All: true}); err != nil {
		return err
	}
	_, err = s.Verify(ctx, VerifyOptions{Rebuild: round%2 == 0})
	return err
}

// promise is what a store may not break. A later one for the same pin takes its place.
type promise struct {
	pin         string
	digest, sum agentbox.Digest
}

// checkPromises opens the store and finds everything that was promised, and nothing damaged.
func checkPromises(t *testing.T, dir, when string, promises map[string]promise) {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, Key: testKey, ReserveFile: -1, Grace: -1, KeepFree: 1})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer s.Close()
	for _, p := range promises {
		b, err := tryRead(t.Context(), s, p.digest, nil)
		if err != nil || blob.Sum(b) != p.sum {
			t.Errorf("%s: %s was promised: %v", when, p.pin, err)
		}
	}
	// The index claims nothing that the files do not hold.
	rep, err := s.Verify(t.Context(), VerifyOptions{})
	if err != nil || len(rep.Damaged) != 0 || rep.Lost != 0 {
		t.Errorf("%s: %+v, %v", when, rep, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", disk.TempPrefix+"*")); len(left) != 0 {
		t.Errorf("%s: left behind: %v", when, left)
	}
}

const (
	envKillDir  = "AGENTBOX_TEST_STORE"
	envKillStep = "AGENTBOX_TEST_STEP"
	envKillFrom = "AGENTBOX_TEST_ROUND"
)

// TestMain is also the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(envKillDir); dir != "" {
		os.Exit(runUntilKilled(dir))
	}
	os.Exit(m.Run())
}

// runUntilKilled works on a store until it kills itself at the step it was told, and says what it
// promised.
func runUntilKilled(dir string) int {
	step, _ := strconv.Atoi(os.Getenv(envKillStep))
	round, _ := strconv.Atoi(os.Getenv(envKillFrom))
	d := &faultDisk{at: step, do: func(string) error {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}}
	s, err := Open(context.Background(), Config{Dir: dir, FS: d, Key: testKey, ReserveFile: -1, Grace: -1, KeepFree: 1})
	if err == nil {
		err = runWorkload(context.Background(), s, round, func(p promise) { fmt.Println(p.pin, p.digest, p.sum) })
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("steps", d.steps())
	return 0
}

// killCount is how many processes are killed: AGENTBOX_CHAOS for make chaos, a few for make test.
func killCount() int {
	if n, err := strconv.Atoi(os.Getenv("AGENTBOX_CHAOS")); err == nil {
		return n
	}
	if testing.Short() {
		return 12
	}
	return 40
}

func TestKilledAtAnyStep(t *testing.T) {
	dir := t.TempDir()
	promises := map[string]promise{}
	run := func(round, step int) (steps int, dead bool) {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), envKillDir+"="+dir, fmt.Sprintf("%s=%d", envKillStep, step), fmt.Sprintf("%s=%d", envKillFrom, round))
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if fields[0] == "steps" {
				steps, _ = strconv.Atoi(fields[1])
				continue
			}
			p := promise{pin: fields[0]}
			errs := []error{p.digest.UnmarshalText([]byte(fields[1])), p.sum.UnmarshalText([]byte(fields[2]))}
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			promises[p.pin] = p
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() >= 0 {
			t.Fatalf("round %d, step %d: %v\n%s", round, step, err, errs.String())
		}
		return steps, err != nil
	}
	steps, _ := run(1, 0)
	if steps < 40 {
		t.Fatalf("a life has only %d steps", steps)
	}
	dead := 0
	for i := range killCount() {
		step := 1 + rand.IntN(steps)
		if _, killed := run(i+2, step); killed {
			dead++
		}
		checkPromises(t, dir, fmt.Sprintf("killed at step %d of round %d", step, i+2), promises)
		if t.Failed() {
			return
		}
	}
	if dead == 0 { // a later life may have fewer steps than the first
		t.Errorf("none of %d was killed", killCount())
	}
}

// TestFaultAtEachStep lets each step that changes something fail in turn. What fails says so; what
// was promised holds; and the same work succeeds afterwards.
func TestFaultAtEachStep(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 7
	}
	dir := t.TempDir()
	count := &faultDisk{}
	runLife(t, dir, count, 1, map[string]promise{})
	promises := map[string]promise{}
	for step := 1 + rand.IntN(every); step <= count.steps(); step += every {
		fault := faults[step%len(faults)]
		var hit string
		d := &faultDisk{at: step, do: func(op string) error { hit = op; return fault }}
		s, err := Open(t.Context(), Config{Dir: dir, FS: d, Key: testKey, ReserveFile: -1, Grace: -1, KeepFree: 1})
		if err == nil {
			err = runWorkload(t.Context(), s, step+1, func(p promise) { promises[p.pin] = p })
			first := hit
			// The store goes on: the next work is done with what is left of the last.
			if again := runWorkload(t.Context(), s, step+2, func(p promise) { promises[p.pin] = p }); again != nil && first != "" {
				t.Errorf("%v at %s: the store does not recover: %v", fault, hit, again)
			}
			s.Close()
		}
		if err != nil && agentbox.CodeOf(err) == agentbox.Internal {
			t.Errorf("%v at %s is not explained: %v", fault, hit, err)
		}
		checkPromises(t, dir, fmt.Sprintf("%v at step %d (%s)", fault, step, hit), promises)
		if t.Failed() {
			return
		}
	}
}

func runLife(t *testing.T, dir string, d disk.FS, round int, promises map[string]promise) {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, FS: d, Key: testKey, ReserveFile: -1, Grace: -1, KeepFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := runWorkload(t.Context(), s, round, func(p promise) { promises[p.pin] = p }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// errCut ends a life at the moment of the power cut.
var errCut = errors.New("the power is cut")

func TestPowerCuts(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 9
	}
	dir := t.TempDir()
	count := &faultDisk{}
	promises := map[string]promise{}
	runLife(t, dir, count, 1, promises)
	for step := 1 + rand.IntN(every); step <= count.steps(); step += every {
		var dark atomic.Bool
		d := &faultDisk{log: newJournal(), at: step, dark: true, do: func(string) error { dark.Store(true); return errCut }}
		s, err := Open(t.Context(), Config{Dir: dir, FS: d, Key: testKey, ReserveFile: -1, Grace: -1, KeepFree: 1})
		if err == nil {
			err = runWorkload(t.Context(), s, step+1, func(p promise) {
				if !dark.Load() {
					promises[p.pin] = p
				}
			})
			s.Close()
		}
		if dark.Load() {
			if err := d.log.cut(); err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		checkPromises(t, dir, fmt.Sprintf("power cut at step %d", step), promises)
		if t.Failed() {
			return
		}
	}
}

func TestFullDisk(t *testing.T) {
	d := &faultDisk{}
	s := openStore(t, t.TempDir(), func(c *Config) { c.FS, c.KeepFree = d, 1<<20 })
	putImage(t, s, diskImage(1, 4))
	d.full = true
	_, err := s.PutStream(t.Context(), bytes.NewReader(noise(1, 1<<20)), blob.Info{Kind: blob.Artifact})
	if agentbox.CodeOf(err) != agentbox.NoSpace || !strings.Contains(agentbox.AsError(err).Hint, "agentbox cache gc") {
		t.Fatalf("%v", err)
	}
	d.full = false
	if _, err := s.PutStream(t.Context(), bytes.NewReader(noise(1, 1<<20)), blob.Info{Kind: blob.Artifact}); err != nil {
		t.Fatal(err)
	}
}
