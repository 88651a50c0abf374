package protocol

// ExportSubsystem is the SSH subsystem that exports a part of the guest's file system as a tar
// archive: an ExportRequest as JSON on its input, the archive on its output. It runs as root. If
// something cannot be read it fails as a whole, with a message on its error output and a non-zero
// exit status.
//
// Changes between two moments are found without any clock: the host takes an inventory at the first
// moment and sends it along at the second. It is opaque to the host, InventoryEntry bytes for each
// file.
const ExportSubsystem = "export@agentbox"

// InventoryEntry is the size of one file's entry in bytes: a digest of its name and metadata.
const InventoryEntry = 16

// ExportRequest says which files to export.
type ExportRequest struct {
	Root      string   `json:"root"`                // names in the archive are relative to it; other file systems below it are left out
	Inventory bool     `json:"inventory,omitempty"` // return an inventory instead of an archive
	Known     int64    `json:"known,omitempty"`     // bytes of an inventory after the request's newline: files that are as in it are left out
	Skip      []string `json:"skip,omitempty"`      // absolute paths that are left out, with all below them and links beside them that lead to them
	// Groups of directories, as absolute paths. A group is exported whole as soon as any file in it
	// is not as in the inventory.
	Whole [][]string `json:"whole,omitempty"`
	Paths []string   `json:"paths,omitempty"` // only these below Root, whether or not they changed; a missing one is no error
	// Most is how many bytes of a file are exported, 0 for all. A larger one is empty, and its size is in
	// SizeRecord.
	Most int64 `json:"most,omitempty"`
}

// SizeRecord is the PAX record with the size of a file whose content was left out.
const SizeRecord = "AGENTBOX.size"
