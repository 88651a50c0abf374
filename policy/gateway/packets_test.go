package gateway

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneWayFlowIsNotIdle: a stream of datagrams that only one side sends, such as telemetry or
// video, is in use for as long as they come.
func TestOneWayFlowIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, client := net.Pipe()
		away, server := net.Pipe()
		ended := make(chan struct{})
		go func() { defer close(ended); relayDatagrams(box, away, &traffic{}) }()
		b := make([]byte, 1)
		for i := range byte(10) {
			time.Sleep(idlePackets / 2)
			if _, err := server.Write([]byte{i}); err != nil {
				t.Fatalf("datagram %d: %v", i, err)
			}
			if _, err := client.Read(b); err != nil || b[0] != i {
				t.Fatalf("datagram %d came as %d: %v", i, b[0], err)
			}
		}
		select {
		case <-ended:
			t.Fatal("the flow has ended while it was in use")
		default:
		}
		<-ended // by silence
	})
}
