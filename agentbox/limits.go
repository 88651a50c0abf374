package agentbox

// What a box may be given, the same wherever it is asked for: in a configuration, by a flag or
// through the API. Sizes are bytes.
const (
	MinCPUs         = 1
	MaxCPUs         = 1024
	MinMemory int64 = 128 << 20 // a kernel, the agent and a shell
	MaxMemory int64 = 16 << 40
	MinDisk   int64 = 256 << 20
	MaxDisk   int64 = 64 << 40
)
