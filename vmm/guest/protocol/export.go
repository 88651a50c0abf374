package protocol

// ExportSubsystem is the SSH subsystem that gives a part of the guest's file system as a tar
// archive: an ExportRequest as JSON on its input, the archive on its output. It runs as root. It
// fails, with a message on its error output and an exit status that is not zero, when something
// could not be read: half an export is none.
//
// What changed between two moments is found without any clock: an inventory is taken at the first
// and sent along at the second. It is opaque, InventoryEntry bytes for each file: the host, which
// keeps it in between, needs nothing else.
const ExportSubsystem = "export@agentbox"

// InventoryEntry is the size of what an inventory has for one file, in bytes: a digest of its name
// and of what was seen of it.
const InventoryEntry = 16

// ExportRequest says which files to give.
type ExportRequest struct {
	Root      string   `json:"root"`                // names in the archive are relative to it; other file systems below it are left out
	Inventory bool     `json:"inventory,omitempty"` // give an inventory instead of an archive
	Known     int64    `json:"known,omitempty"`     // bytes of an inventory that follow the request's newline: files that are as in it are left out
	Skip      []string `json:"skip,omitempty"`      // absolute paths that are left out, with all below them and links beside them that lead to them
	// Whole has directories that belong together, as absolute paths: all of them are given whole as
	// soon as anything in one is not as in the inventory.
	Whole [][]string `json:"whole,omitempty"`
	Paths []string   `json:"paths,omitempty"` // only these below Root, whether or not they changed; a missing one is no error
}
