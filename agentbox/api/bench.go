package api

import "encoding/json"

// ListBenchmarks returns the last report of `agentbox bench` for each directory, the newest first.
var ListBenchmarks = Endpoint[None, []Benchmark]{"/v1/bench/list"}

// Benchmark is a report about the repository in a directory. Package bench has its type.
type Benchmark struct {
	Directory string          `json:"directory"`
	Report    json.RawMessage `json:"report"`
}
