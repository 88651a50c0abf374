package daemon

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/telemetry"
)

// A traced call answers as before, and its span says which box it was about or why it failed.
func TestTraced(t *testing.T) {
	var got []string
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = append(got, string(b))
	}))
	defer collector.Close()
	e, err := telemetry.FromEnvironment(func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}[name]
	}, "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	call := traced(e, "enter", func(_ context.Context, ref api.BoxRef, p agentbox.Progress) (api.Connection, error) {
		p.Begin("boot", "")("warm")
		if ref.Box == "" {
			return api.Connection{}, agentbox.Errorf(agentbox.NotFound, "there is no box")
		}
		return api.Connection{Name: ref.Box}, nil
	})
	var seen []agentbox.Event
	if c, err := call(t.Context(), api.BoxRef{Box: "app"}, func(e agentbox.Event) { seen = append(seen, e) }); len(seen) != 2 || c.Name != "app" || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := call(t.Context(), api.BoxRef{}, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	e.Run(ctx, func() []telemetry.Metric { return nil })
	text := strings.Join(got, "")
	if !json.Valid([]byte(text)) || strings.Count(text, `"name":"enter"`) != 2 || strings.Count(text, `"name":"enter.boot","parentSpanId"`) != 2 || !strings.Contains(text, `"stringValue":"app"`) || !strings.Contains(text, `"stringValue":"not_found"`) {
		t.Error(text)
	}
}
