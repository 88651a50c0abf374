package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agentbox/agentbox"
	"agentbox/agentbox/team"
)

// metricsEnv is a loopback address on which the metrics are served besides the daemon's socket.
const metricsEnv = "AGENTBOX_METRICS"

// metrics serves GET /metrics in Prometheus' text format. Its names are a contract with dashboards.
func (d *daemon) metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{d})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// serveMetrics serves them on the address that the environment names, if it names one, until ctx
// ends. Anybody on this machine can read that: names of peers and numbers, and nothing of what
// boxes do. Another address than the loopback's is refused: there is no login.
func (d *daemon) serveMetrics(ctx context.Context) error {
	at := os.Getenv(metricsEnv)
	if at == "" {
		return nil
	}
	// A name such as localhost is refused too: what it resolves to is not ours to say.
	if a, err := netip.ParseAddrPort(at); err != nil || !a.Addr().IsLoopback() {
		return agentbox.Errorf(agentbox.Invalid, "%s=%q is no loopback address with a port", metricsEnv, at).WithHint("as 127.0.0.1:9464")
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "serve metrics: %w", err).WithHint("unset %s, or name a free port", metricsEnv)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", d.metrics())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	// A scrape that is under way is cut: the next one asks the next daemon.
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.cfg.Log.Error("metrics", "error", err)
		}
	}()
	return nil
}

// collector reads the numbers when somebody asks. So nothing has to be counted twice, and a daemon
// that nobody asks spends nothing on it.
type collector struct{ d *daemon }

// Describe tells nothing beforehand: which counters there are depends on what runs.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect gives the numbers as they are now.
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

// emit gives one number; labels are pairs of name and value.
type emit func(name, help string, kind prometheus.ValueType, v float64, labels ...string)

// store gives the numbers of the store, if it can be opened within a second: a scrape must not wait
// for a store that is being opened.
func (c collector) store(one emit) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := c.d.store.Store(ctx)
	if err != nil {
		return // doctor says why
	}
	if u, err := s.Usage(ctx); err == nil {
		one("store_bytes", "Bytes of the store on disk.", prometheus.GaugeValue, float64(u.Bytes))
		one("store_blobs", "Blobs in the store.", prometheus.GaugeValue, float64(u.Manifests))
	}
	one("store_damaged_chunks", "Chunks that are damaged and put aside.", prometheus.GaugeValue, float64(len(s.Damaged())))
}

// team gives the numbers of the mesh, and how often the team had what would else have been made
// here.
func (c collector) team(one emit) {
	if c.d.mesh == nil {
		return
	}
	s := c.d.mesh.Status()
	one("mesh_members", "Machines of the team.", prometheus.GaugeValue, float64(s.Members))
	one("mesh_peers_here", "Other machines of the team that are here.", prometheus.GaugeValue, float64(s.Here))
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

// exchange gives the numbers of what peers send each other, also by peer: teams are small, so
// labels are few.
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
	one("exchange_duplicate_bytes_total", "Bytes of pieces that another peer had sent already.", prometheus.CounterValue, float64(st.Twice))
	for p, t := range node.Traffic() {
		one("exchange_sent_bytes_total", "Bytes of pieces sent to a peer.", prometheus.CounterValue, float64(t.Sent), "peer", p.String())
		one("exchange_received_bytes_total", "Bytes of pieces got from a peer that were right.", prometheus.CounterValue, float64(t.Received), "peer", p.String())
		one("exchange_peer_wrong_pieces_total", "Pieces with wrong bytes by a peer.", prometheus.CounterValue, float64(t.Wrong), "peer", p.String())
	}
}
