package agentbox

// FileChange is one file that differs between two states of a working tree. The names were chosen
// in a box, so print them only through Printable.
type FileChange struct {
	// Path is relative to the root of the repository, with slashes. From is the previous path of a
	// file that was renamed or copied.
	Path    string `json:"path"`
	Status  string `json:"status"` // added, deleted, modified, renamed, copied, type
	From    string `json:"from,omitempty"`
	Added   int    `json:"added"`   // lines
	Deleted int    `json:"deleted"` // lines
	Binary  bool   `json:"binary,omitempty"`
}
