package supervisor

import (
	"os"
	"runtime"
)

// oneProcessor has this program's goroutines take turns on one thread, unless the environment says
// how many may run. A supervisor carries bytes between a guest and the rest of the world, which are
// other programs: to wake a thread on another processor for each step costs more than the step, and
// takes the processor from the guest.
func oneProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
