package supervisor

import (
	"os"
	"runtime"
)

// limitToOneThread runs this program on one thread, unless the environment sets GOMAXPROCS. A
// supervisor carries bytes between a guest and other programs. Waking a thread on another processor
// for each step costs more than the step, and takes that processor from the guest.
func limitToOneThread() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
