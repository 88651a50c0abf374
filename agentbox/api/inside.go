package api

// The calls for programs without SSH: a command in a box, and a file of it. All wake the box.
var (
	// RunInBox runs a command to its end. Closing the connection ends the command. Its end by a
	// timeout is no error.
	RunInBox = Endpoint[RunRequest, RunResult]{"/v1/box/exec"}
	// ReadFile returns a part of a file. It is NotFound if there is no file.
	ReadFile = Endpoint[FileRead, FilePart]{"/v1/box/file/read"}
	// WriteFile replaces a file as a whole, or makes it, with the directories above it.
	WriteFile = Endpoint[FileWrite, None]{"/v1/box/file/write"}
)

// RunRequest is a command. Exactly one of Argv and Script is set; a Script is run by sh -c.
type RunRequest struct {
	BoxRef
	Argv   []string          `json:"argv,omitempty"`
	Script string            `json:"script,omitempty"`
	Dir    string            `json:"dir,omitempty"` // in the box; "": the workspace
	Env    map[string]string `json:"env,omitempty"`
	User   string            `json:"user,omitempty"`
	Stdin  string            `json:"stdin,omitempty"`
	// Seconds is when the command is ended; 0: never.
	Seconds float64 `json:"seconds,omitempty"`
	// MaxOutput bounds each of the outputs, in bytes; 0 means MaxRunOutput, which is also the most.
	MaxOutput int `json:"max_output,omitempty"`
}

// MaxRunOutput bounds each output of a command. A job keeps more (StartJob, JobLog).
const MaxRunOutput = 256 << 10

// RunResult is how a command ended. Of an output that is too long, the beginning and the end are
// there, with a line between that says how much is not. Bytes that are not UTF-8 are replaced.
type RunResult struct {
	Status   int    `json:"status"` // as a shell says it
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	// Dropped counts the bytes of both outputs that are not in the answer.
	Dropped int64 `json:"dropped,omitempty"`
}

// FileRead asks for at most Limit bytes from Offset; 0 means MaxFilePart, which is also the most.
// Path is a path in the box; a relative one begins in the workspace.
type FileRead struct {
	BoxRef
	Path   string `json:"path"`
	User   string `json:"user,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// MaxFilePart bounds what one call reads or writes of a file.
const MaxFilePart = 2 << 20

// FilePart is a part of a file, which has Size bytes in all.
type FilePart struct {
	Content []byte `json:"content"`
	Size    int64  `json:"size"`
}

// FileWrite is the whole content of a file, MaxFilePart at most.
type FileWrite struct {
	BoxRef
	Path    string `json:"path"`
	User    string `json:"user,omitempty"`
	Content []byte `json:"content"`
	Mode    uint32 `json:"mode,omitempty"` // permissions; 0: those of the file, or 0644
}
