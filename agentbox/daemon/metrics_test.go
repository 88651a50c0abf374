package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
)

// A scrape reads parts of the daemon, which are closed as soon as the metrics are no longer served.
func TestMetricsEndAfterLastScrape(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reads atomic.Bool
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reads.Store(true)
		cancel()
		<-r.Context().Done() // the connection is cut off
		for range 1000 {
			runtime.Gosched()
		}
		reads.Store(false)
	})
	scraped := make(chan struct{})
	go func() {
		defer close(scraped)
		if resp, err := http.Get("http://" + l.Addr().String() + "/metrics"); err == nil {
			resp.Body.Close()
		}
	}()
	serveMetrics(ctx, l, handler, slog.New(slog.DiscardHandler))
	if reads.Load() {
		t.Error("a scrape goes on")
	}
	<-scraped
}
