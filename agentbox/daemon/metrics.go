package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agentbox/agentbox"
	"agentbox/agentbox/team"
)

// metricsEnv names a loopback address that serves the metrics in addition to the daemon's socket.
const metricsEnv = "AGENTBOX_METRICS"

// metrics serves GET /metrics. Dashboards depend on the names, so they must not change.
func (d *daemon) metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{d})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// listenMetrics listens on the address in metricsEnv; l is nil if there is none. Every user of this
// machine can read the metrics: they contain numbers and names of peers, but nothing that boxes do.
// Only a loopback address is accepted, because there is no login.
func listenMetrics() (l net.Listener, err error) {
	at := os.Getenv(metricsEnv)
	if at == "" {
		return nil, nil
	}
	// A name such as localhost is refused too, because we do not control what it resolves to.
	if a, err := netip.ParseAddrPort(at); err != nil || !a.Addr().IsLoopback() {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s=%q is no loopback address with a port", metricsEnv, at).WithHint("as 127.0.0.1:9464")
	}
	if l, err = net.Listen("tcp", at); err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "serve metrics: %w", err).WithHint("unset %s, or name a free port", metricsEnv)
	}
	return l, nil
}

// serveMetrics serves handler on l until ctx ends, and returns when the last call of handler has
// returned: it reads parts of the daemon that are closed next. A scrape under way is cut off; the
// next one asks the next daemon.
func serveMetrics(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	var running sync.WaitGroup // the listener and all connections, each of which has a goroutine
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ConnState: func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			running.Add(1)
		case http.StateClosed, http.StateHijacked:
			running.Done()
		}
	}}
	running.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics", "error", err)
		}
	})
	<-ctx.Done()
	server.Close()
	running.Wait()
}

// collector reads the numbers when they are scraped. Nothing has to be counted twice, and a daemon
// that is not scraped does no work for it.
type collector struct{ d *daemon }

// Describe announces nothing, because the set of counters depends on what runs.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current numbers.
func (c collector) Collect(out chan<- prometheus.Metric) {
	one := func(name, help string, kind prometheus.ValueType, v float64, labels ...string) {
		var names, values []string
		for i := 0; i+1 < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("agentbox_"+name, help, names, nil), kind, v, values...)
	}
	boxes, pool, _ := c.d.boxes.Count()
	one("build_info", "The version that serves.", prometheus.GaugeValue, 1, "version", c.d.cfg.Version)
	one("boxes", "Boxes of this machine.", prometheus.GaugeValue, float64(boxes))
	one("pool_machines", "Machines that are kept ready.", prometheus.GaugeValue, float64(pool))
	c.store(one)
	c.team(one)
	c.exchange(one)
}

// emit sends one number. labels are pairs of name and value.
type emit func(name, help string, kind prometheus.ValueType, v float64, labels ...string)

// store collects the numbers of the store if it opens within a second. A scrape must not wait
// longer for a store that is being opened.
func (c collector) store(one emit) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := c.d.shares.store.Store(ctx)
	if err != nil {
		return // doctor reports why
	}
	if u, err := s.Usage(ctx); err == nil {
		one("store_bytes", "Bytes of the store on disk.", prometheus.GaugeValue, float64(u.Bytes))
		one("store_blobs", "Blobs in the store.", prometheus.GaugeValue, float64(u.Manifests))
	}
	one("store_damaged_chunks", "Chunks that are damaged and put aside.", prometheus.GaugeValue, float64(len(s.Damaged())))
}

// team collects the numbers of the mesh, and how often the team had a result that would otherwise
// have been made here.
func (c collector) team(one emit) {
	if c.d.shares.mesh == nil {
		return
	}
	s := c.d.shares.mesh.Status()
	one("mesh_members", "Machines of the team.", prometheus.GaugeValue, float64(s.Members))
	one("mesh_peers_here", "Other machines of the team that are here.", prometheus.GaugeValue, float64(s.Online))
	for name, n := range s.Counters {
		one("mesh_"+name+"_total", "What the limits and checks of the mesh did.", prometheus.CounterValue, float64(n))
	}
	n := c.d.shares.team.Counters()
	for _, l := range []struct {
		what string
		n    team.Lookups
	}{{"image", n.Images}, {"setup", n.Setups}, {"template", n.Templates}, {"kernel", n.Kernels}} {
		const help = "What was asked of the team before it was made here."
		one("team_lookups_total", help, prometheus.CounterValue, float64(l.n.Found), "what", l.what, "result", "hit")
		one("team_lookups_total", help, prometheus.CounterValue, float64(l.n.Missed), "what", l.what, "result", "miss")
	}
}

// exchange collects the numbers of what peers exchange, in total and by peer. Teams are small, so
// there are few labels.
func (c collector) exchange(one emit) {
	node := c.d.shares.team.Peers()
	if node == nil {
		return
	}
	st := node.Stats()
	one("exchange_sessions", "Open sessions about blobs.", prometheus.GaugeValue, float64(node.Sessions()))
	for _, l := range []struct {
		name, help string
		n          int
	}{
		{"requests", "Requests for pieces.", st.Asked}, {"hedged_requests", "Requests for a piece that another peer was slow with.", st.Hedged},
		{"cancelled_requests", "Requests taken back.", st.Cancelled}, {"stalled_requests", "Requests without progress.", st.Stalled},
		{"wrong_pieces", "Pieces with wrong bytes.", st.Wrong},
	} {
		one("exchange_"+l.name+"_total", l.help, prometheus.CounterValue, float64(l.n))
	}
	one("exchange_duplicate_bytes_total", "Bytes of pieces that another peer had sent already.", prometheus.CounterValue, float64(st.DuplicateBytes))
	for p, t := range node.Traffic() {
		one("exchange_sent_bytes_total", "Bytes of pieces sent to a peer.", prometheus.CounterValue, float64(t.Sent), "peer", p.String())
		one("exchange_received_bytes_total", "Bytes of pieces got from a peer that were right.", prometheus.CounterValue, float64(t.Received), "peer", p.String())
		one("exchange_peer_wrong_pieces_total", "Pieces with wrong bytes by a peer.", prometheus.CounterValue, float64(t.Wrong), "peer", p.String())
	}
}
