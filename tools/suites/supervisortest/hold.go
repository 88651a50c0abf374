// Package supervisortest has processes that hold locks as supervisors do, for tests: a lock that is
// held by the test itself would not be free when it is killed. A package that uses it calls Main
// from its TestMain, as the processes are the test binary once more.
package supervisortest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// holdEnv makes the test binary a process that holds the lock it names until its input ends.
const holdEnv = "AGENTBOX_TEST_HOLD"

// Main runs the tests of a package, or is such a process. It refuses to be any other: a supervisor
// is this program with a verb, and if that ran the tests again they would start the next, without
// end.
func Main(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintf(os.Stderr, "a test has run %q: no supervisor is to be had here\n", os.Args[1:])
		os.Exit(1)
	}
	if path := os.Getenv(holdEnv); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		}
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Hold has a child hold a lock, as a supervisor does, and write says what is in the file. let ends
// the child; ended is closed when it has ended. All is over at the end of the test in any case.
func Hold(t *testing.T, lock string, write func(pid int) string) (pid int, let func(), ended <-chan struct{}) {
	t.Helper()
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+lock, "GORACE=atexit_sleep_ms=0")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "<nil>\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if err := os.WriteFile(lock, []byte(write(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		stdin.Close()
		<-done
	})
	return cmd.Process.Pid, func() { stdin.Close() }, done
}

// Itself is what a supervisor writes into its lock.
func Itself(pid int) string { return fmt.Sprintln(pid) }

// Within waits for something that is bound to happen. A minute is for ever here: nothing that is
// tested takes a second.
func Within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s takes for ever", what)
	}
}
