package supervisor

import (
	"log/slog"
	"testing"
	"time"

	"agentbox/agentbox/place"
)

// The end of a lease is acted on after whatever else is being done to the machine, and may have been
// overtaken by then: somebody has come, or the lease was renewed.
func TestRenewedLeaseEndsNothing(t *testing.T) {
	for name, pauses := range map[string]bool{"box": true, "task": false} {
		for what, come := range map[string]func(l *lease){
			"renewed": func(l *lease) { l.renew(time.Hour) },
			"worked":  func(l *lease) { t.Cleanup(l.hold()) },
		} {
			s := &Supervisor{started: make(chan struct{}), ended: make(chan struct{}), meter: newMeter(nil, nil), log: slog.New(slog.DiscardHandler)}
			s.meter.limit(place.Limits{Pause: pauses})
			s.attached.Store(true)
			s.lease = newLease(time.Nanosecond)
			defer s.lease.stop()
			<-s.lease.ended
			come(s.lease)
			if s.atLeaseEnd(t.Context()) {
				t.Errorf("%s, %s: its machine ends", name, what)
			}
		}
	}
}
