package protocol

// WatchSubsystem is the SSH subsystem that tells what changes in a directory: a WatchRequest as a line of
// JSON on its input, whose end ends it, and WatchEvents as such lines on its output. The first is empty:
// whatever changes from then on is told. It runs as the session's user. If it cannot watch, or changes
// come faster than they are read, it fails with a message on its error output.
const WatchSubsystem = "watch@agentbox"

// WatchRequest says what to watch. Changes of files whose names begin with Hidden are not told, and
// where one gets another name, that one is written.
type WatchRequest struct {
	Dir       string `json:"dir"`
	Recursive bool   `json:"recursive,omitempty"`
	Hidden    string `json:"hidden,omitempty"`
}

// WatchEvent is a change: create, write, remove, rename (which gives the former name) or chmod.
type WatchEvent struct {
	Name string `json:"name,omitempty"` // relative to Dir
	Kind string `json:"kind,omitempty"`
}
