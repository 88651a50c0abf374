// Package telemetry sends spans and metrics to a collector of OpenTelemetry, as OTLP in JSON over
// HTTP, if the environment names one: OTEL_EXPORTER_OTLP_ENDPOINT, with OTEL_EXPORTER_OTLP_HEADERS,
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES. It is not the SDK, which would add megabytes to the
// daemon, and propagates no context. What a collector does not take is dropped and never waited for.
package telemetry

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The bounds of what waits to be sent, and how often it is.
const (
	maxQueue = 2048
	every    = 10 * time.Second
	sendTime = 10 * time.Second
)

// Span is one operation that has ended.
type Span struct {
	Trace  [16]byte
	ID     [8]byte
	Parent [8]byte // zero for none
	Name   string
	Start  time.Time
	End    time.Time
	// Attributes have texts, integers, booleans and floating-point numbers.
	Attributes map[string]any
	Events     []Event
	Err        string // why it failed; "" if it did not
}

// Event is something at one time of a span.
type Event struct {
	Time       time.Time
	Name       string
	Attributes map[string]any
}

// Exporter sends to one collector. A nil Exporter takes spans and does nothing. Run sends them; its
// other methods may be called concurrently, and do not block.
type Exporter struct {
	base     *url.URL
	headers  map[string]string
	resource object
	log      *slog.Logger
	spans    chan Span
	dropped  atomic.Int64
	started  time.Time
	failing  bool // of Run
}

type object = map[string]any

// FromEnvironment makes the exporter that variables ask for; nil if they name no collector. The error
// says which variable is wrong.
func FromEnvironment(getenv func(string) string, version string, log *slog.Logger) (*Exporter, error) {
	text := getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	if text == "" || getenv("OTEL_SDK_DISABLED") == "true" {
		return nil, nil
	}
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT=%q is not a URL with http or https", text)
	}
	headers, err := pairs(getenv("OTEL_EXPORTER_OTLP_HEADERS"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	about, err := pairs(getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	attributes := object{"service.name": "agentbox", "service.version": version}
	if name, err := os.Hostname(); err == nil {
		attributes["host.name"] = name
	}
	for name, v := range about {
		attributes[name] = v
	}
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		attributes["service.name"] = name
	}
	return &Exporter{
		base: base, headers: headers, resource: object{"attributes": list(attributes)}, log: log, spans: make(chan Span, maxQueue), started: time.Now(),
	}, nil
}

func pairs(text string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, errors.New("it is no list of NAME=VALUE") // the value may be a credential
		}
		out[strings.TrimSpace(name)] = value
	}
	return out, nil
}

// Add queues a span, or drops it if too many wait.
func (e *Exporter) Add(s Span) {
	if e == nil {
		return
	}
	select {
	case e.spans <- s:
	default:
		e.dropped.Add(1)
	}
}

// Run sends spans and what gather returns until ctx ends, and what is left then.
func (e *Exporter) Run(ctx context.Context, gather func() []Metric) {
	if e == nil {
		return
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for done := false; !done; {
		select {
		case <-t.C:
		case <-ctx.Done():
			done = true
		}
		e.flush(context.WithoutCancel(ctx), gather())
	}
}

func (e *Exporter) flush(ctx context.Context, metrics []Metric) {
	var spans []any
	for n := len(e.spans); n > 0; n-- {
		spans = append(spans, encode(<-e.spans))
	}
	scope := object{"name": "agentbox"}
	if len(spans) > 0 {
		e.send(ctx, "v1/traces", object{"resourceSpans": []any{object{"resource": e.resource, "scopeSpans": []any{object{"scope": scope, "spans": spans}}}}})
	}
	if points := e.points(metrics); len(points) > 0 {
		e.send(ctx, "v1/metrics", object{"resourceMetrics": []any{object{"resource": e.resource, "scopeMetrics": []any{object{"scope": scope, "metrics": points}}}}})
	}
}

// send posts a document. The log has the first of several failures and the end of them.
func (e *Exporter) send(ctx context.Context, path string, doc any) {
	err := e.post(ctx, path, doc)
	if failed := err != nil; failed != e.failing {
		e.failing = failed
		if failed {
			e.log.Warn("the collector of OpenTelemetry does not take what is sent", "error", err)
		} else {
			e.log.Info("the collector of OpenTelemetry takes what is sent again", "dropped", e.dropped.Load())
		}
	}
}

// direct follows no redirect: another address gets none of the user's headers.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (e *Exporter) post(ctx context.Context, path string, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, v := range e.headers {
		req.Header.Set(name, v)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := direct.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", req.URL.Redacted(), resp.Status)
	}
	return nil
}

// encode is a span as OTLP's JSON has it: IDs in hex, times as texts of nanoseconds.
func encode(s Span) object {
	out := object{
		"traceId": hex.EncodeToString(s.Trace[:]), "spanId": hex.EncodeToString(s.ID[:]), "name": s.Name, "kind": 1,
		"startTimeUnixNano": nano(s.Start), "endTimeUnixNano": nano(s.End), "attributes": list(s.Attributes),
	}
	if s.Parent != [8]byte{} {
		out["parentSpanId"] = hex.EncodeToString(s.Parent[:])
	}
	if s.Err != "" {
		out["status"] = object{"code": 2, "message": s.Err}
	}
	var events []any
	for _, v := range s.Events {
		events = append(events, object{"timeUnixNano": nano(v.Time), "name": v.Name, "attributes": list(v.Attributes)})
	}
	if events != nil {
		out["events"] = events
	}
	return out
}

func nano(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func list(attributes map[string]any) []any {
	out := []any{}
	for name, v := range attributes {
		value := object{"stringValue": fmt.Sprint(v)}
		switch v := v.(type) {
		case int, int64, uint64:
			value = object{"intValue": fmt.Sprint(v)}
		case bool:
			value = object{"boolValue": v}
		case float64:
			value = object{"doubleValue": v}
		}
		out = append(out, object{"key": name, "value": value})
	}
	return out
}
