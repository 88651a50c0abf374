package agentbox

// Bounds on what a box may be given, whether by a configuration, a flag or the API. Sizes are in
// bytes. The upper bounds promise nothing: they catch a mistyped unit before it becomes an
// arithmetic overflow or a sparse file that no disk can hold.
const (
	MinCPUs         = 1
	MaxCPUs         = 1024
	MinMemory int64 = 128 << 20 // a kernel, the agent and a shell
	MaxMemory int64 = 16 << 40
	MinDisk   int64 = 256 << 20
	MaxDisk   int64 = 64 << 40
)
