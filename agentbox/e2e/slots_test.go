package e2e

import (
	"agentbox/agentbox/resources"
)

// slots limits how many scripts run at once.
type slots chan struct{}

func (s slots) take() { s <- struct{}{} }
func (s slots) give() { <-s }

// without frees the slot during wait, so that another script can run.
func (s slots) without(wait func()) {
	s.give()
	defer s.take()
	wait()
}

// memoryOfScript is what a script's boxes, its daemon and its builds need, in bytes: 2 GiB, more
// than most use.
const memoryOfScript = 2 << 30

// rooms returns slots for two scripts on each CPU, as far as memory permits: machines are
// emulated where there is no hardware for them, and building an image waits for a mirror and a
// disk. Scripts that mostly wait have slots of their own, half as many.
func rooms() (working, waiting slots, err error) {
	here, err := resources.Measure()
	if err != nil {
		return nil, nil, err
	}
	n := max(1, min(here.CPUs*2, int(here.Available/memoryOfScript)))
	return make(slots, n), make(slots, max(1, n/2)), nil
}
