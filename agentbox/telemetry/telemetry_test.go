package telemetry

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A collector gets spans and metrics as OTLP's JSON has them, with the user's headers, at the end of a
// run at the latest.
func TestExporter(t *testing.T) {
	got := map[string]string{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got[r.URL.Path] = string(b)
		if r.Header.Get("X-Key") != "a b" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v", r.Header)
		}
	}))
	defer collector.Close()
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL + "/base", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b", "OTEL_RESOURCE_ATTRIBUTES": "team=blue",
		"OTEL_SERVICE_NAME": "ours",
	}
	e, err := FromEnvironment(func(name string) string { return env[name] }, "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1, 5)
	e.Add(Span{Trace: [16]byte{1}, ID: [8]byte{2}, Parent: [8]byte{3}, Name: "task", Start: at, End: at.Add(time.Second), Attributes: map[string]any{"n": 7}, Err: "failed", Events: []Event{{Time: at, Name: "policy.denied"}}})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	e.Run(ctx, func() []Metric {
		return []Metric{{Name: "boxes", Value: 2}, {Name: "hits_total", Counter: true, Value: 3, Attributes: map[string]any{"what": "image"}}}
	})
	var traces struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []struct{ Key string } }
			ScopeSpans []struct{ Spans []map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(got["/base/v1/traces"]), &traces); err != nil || len(traces.ResourceSpans) != 1 {
		t.Fatalf("%q, %v", got, err)
	}
	span, _ := json.Marshal(traces.ResourceSpans[0].ScopeSpans[0].Spans[0])
	for _, want := range []string{
		`"traceId":"01000000000000000000000000000000"`, `"spanId":"0200000000000000"`, `"parentSpanId":"0300000000000000"`, `"startTimeUnixNano":"1000000005"`,
		`"endTimeUnixNano":"2000000005"`, `{"key":"n","value":{"intValue":"7"}}`, `"status":{"code":2,"message":"failed"}`, `"policy.denied"`,
	} {
		if !strings.Contains(string(span), want) {
			t.Errorf("no %s in %s", want, span)
		}
	}
	for path, wants := range map[string][]string{
		"/base/v1/traces":  {`{"key":"service.name","value":{"stringValue":"ours"}}`, `"team"`},
		"/base/v1/metrics": {`"gauge":{"dataPoints":[{"asDouble":2`, `"aggregationTemporality":2`, `"isMonotonic":true`, `"hits_total"`},
	} {
		for _, want := range wants {
			if !strings.Contains(got[path], want) {
				t.Errorf("%s: no %s in %s", path, want, got[path])
			}
		}
	}
}

// Without a collector nothing is done; one that is away costs spans and no time; and mistakes do not
// quote a credential.
func TestWithoutCollector(t *testing.T) {
	for _, env := range []map[string]string{{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}} {
		e, err := FromEnvironment(func(name string) string { return env[name] }, "1", slog.New(slog.DiscardHandler))
		if e != nil || err != nil {
			t.Errorf("%v, %v", e, err)
		}
		e.Add(Span{})
		e.Run(t.Context(), nil)
	}
	for _, env := range []map[string]string{{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_HEADERS": "hunter2"}} {
		if _, err := FromEnvironment(func(name string) string { return env[name] }, "1", nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", env, err)
		}
	}
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
	e, err := FromEnvironment(func(name string) string { return env[name] }, "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range maxQueue + 10 {
		e.Add(Span{})
	}
	if got := e.dropped.Load(); got != 10 {
		t.Errorf("dropped %d", got)
	}
	e.flush(t.Context(), nil)
	if len(e.spans) != 0 || !e.failing {
		t.Errorf("%d wait", len(e.spans))
	}
}
