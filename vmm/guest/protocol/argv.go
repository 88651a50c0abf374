package protocol

// Argv is the SSH channel request that runs a command without a shell: payload an ArgvRequest as
// JSON, in place of exec. Exit status 127 means that the program was not found, 126 that it could
// not be run.
const Argv = "argv@agentbox"

// UserRequest is the SSH channel request, without a reply, that sets the user of the rest of a
// session: payload one SSH string. Empty or "agentbox" is the box's user, any other name that user
// of the box.
const UserRequest = "user@agentbox"

// ArgvRequest is the payload of Argv.
type ArgvRequest struct {
	Argv []string          `json:"argv"`          // none: the user's login shell
	Dir  string            `json:"dir,omitempty"` // "" is the workspace when attached, else the user's home
	Env  map[string]string `json:"env,omitempty"` // over the session's
	// As UserRequest, and overrides it.
	User string `json:"user,omitempty"`
}

// Serial numbers of the guest's virtio-blk slots.
const (
	SlotImage     = "image"     // erofs, read-only
	SlotRuntime   = "runtime"   // ext4
	SlotWorkspace = "workspace" // ext4
)

// PortName is the name of the virtio-serial port that carries the stream.
const PortName = "agentbox.0"

// Started is the first line that the agent prints on a virtual machine's console.
const Started = "agentbox: the first program runs"

// LabelChown is the ext4 label of a workspace whose files do not belong to the box's user yet.
// Attach changes their owner and then removes the label, so it is repeated after a crash in
// between.
const LabelChown = "chown"
