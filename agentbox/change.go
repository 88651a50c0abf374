package agentbox

// FileChange is one file that differs between two states of a working tree.
type FileChange struct {
	Path    string `json:"path"`
	Status  string `json:"status"` // added, deleted, modified, renamed, copied, type
	From    string `json:"from,omitempty"`
	Added   int    `json:"added"`   // lines
	Deleted int    `json:"deleted"` // lines
	Binary  bool   `json:"binary,omitempty"`
}
