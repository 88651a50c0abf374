package agentbox

// What a box may be given, the same wherever it is asked for: in a configuration, by a flag or
// through the API. Sizes are bytes. The upper bounds are no promises: they catch a mistyped unit
// before it becomes an arithmetic overflow or a sparse file that nothing can hold.
const (
	MinCPUs         = 1
	MaxCPUs         = 1024
	MinMemory int64 = 128 << 20 // a kernel, the agent and a shell
	MaxMemory int64 = 16 << 40
	MinDisk   int64 = 256 << 20
	MaxDisk   int64 = 64 << 40
)
