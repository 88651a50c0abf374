package telemetry

import "time"

// Metric is one number now. A counter only grows while this process runs.
type Metric struct {
	Name, Help string
	Counter    bool
	Value      float64
	Attributes map[string]any
}

func (e *Exporter) points(metrics []Metric) []any {
	var out []any
	now := time.Now()
	for _, m := range metrics {
		point := object{"startTimeUnixNano": nano(e.started), "timeUnixNano": nano(now), "asDouble": m.Value, "attributes": list(m.Attributes)}
		data := object{"dataPoints": []any{point}}
		metric := object{"name": m.Name, "description": m.Help, "gauge": data}
		if m.Counter {
			const cumulative = 2
			data["aggregationTemporality"], data["isMonotonic"] = cumulative, true
			metric = object{"name": m.Name, "description": m.Help, "sum": data}
		}
		out = append(out, metric)
	}
	return out
}
