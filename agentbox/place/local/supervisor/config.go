package supervisor

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/vmm"
	"agentbox/vmm/lazyimage"
)

// Config is what the daemon tells a new supervisor on its standard input. Reader and writer are
// always of one build: the daemon starts the supervisor that came with it.
type Config struct {
	Box       agentbox.BoxID     `json:"box"`
	Home      string             `json:"home"`
	Isolation agentbox.Isolation `json:"isolation"`
	Life      int                `json:"life"`
	Hostname  string             `json:"hostname"`
	Spec      vmm.Spec           `json:"spec"`
	// Template: restore from the template whose files are inherited, or Saved relative to it. Else
	// the machine boots, unless there is Saved.
	Template bool `json:"template"`
	// Saved: restore this state.
	Saved string `json:"saved,omitempty"`
	// Pending: Saved is still being written; the daemon's start request says when it is complete.
	Pending bool `json:"pending,omitempty"`
	// Resume: Saved is the pause of this box, which fits its disks only until the guest runs.
	Resume bool `json:"resume,omitempty"`
	// Lease: how long the machine goes on when nobody works in the box.
	Lease time.Duration `json:"lease"`
	// Image replaces Spec.Image when that is not completely on this host.
	Image *LazyImage `json:"image,omitempty"`
	// Note says how the box is isolated, for its audit log.
	Note string `json:"note,omitempty"`
}

// LazyImage is an image that the daemon completes while the machine reads it. It replaces
// Spec.Image where that is not completely on this host.
type LazyImage struct {
	lazyimage.Image
	Digest agentbox.Digest `json:"digest"`
}

// Files are the descriptors that the daemon hands down beside the configuration, in this order from
// descriptor 3 on. The sockets are bound before the process exists, so the daemon may connect at
// once.
type Files struct {
	// Lock is held by flock through this descriptor for as long as the supervisor or its machine
	// lives; nil in the supervisor, which keeps it as a bare descriptor.
	Lock     *os.File
	Control  *os.File // listening
	SSH      *os.File // listening
	Template []*os.File
}

// firstFD is the descriptor of the first of Files, behind standard input, output and error.
const firstFD = 3

// List is the files in the order they are inherited.
func (f Files) List() []*os.File { return append([]*os.File{f.Lock, f.Control, f.SSH}, f.Template...) }

// minLockFD is the lowest descriptor of the lock: a child's own files take the lower ones.
const minLockFD = 64

// inherited takes over the files that the parent passed on. All but the lock are closed in our
// children.
//
// The machine inherits the lock, so a free lock means that the supervisor and its machine are both
// gone, even when one was killed and the other is still dying. The lock therefore moves out of the
// way of the files that a child is given, and stays a bare descriptor, which no garbage collection
// closes.
func inherited(template int) (Files, error) {
	if _, err := unix.FcntlInt(firstFD, unix.F_DUPFD, minLockFD); err != nil {
		return Files{}, fmt.Errorf("keep the supervisor's lock: %w", err)
	}
	if err := syscall.Close(firstFD); err != nil {
		return Files{}, fmt.Errorf("keep the supervisor's lock: %w", err)
	}
	file := func(i int, name string) *os.File {
		syscall.CloseOnExec(firstFD + i)
		return os.NewFile(uintptr(firstFD+i), name)
	}
	f := Files{Control: file(1, "control"), SSH: file(2, "ssh")}
	for i := range template {
		f.Template = append(f.Template, file(3+i, fmt.Sprintf("template-%d", i)))
	}
	return f, nil
}

// input is Config on the wire, with the number of template files that follow the fixed ones.
type input struct {
	Config
	TemplateFiles int `json:"template_files"`
}

// WriteConfig writes what Main reads.
func WriteConfig(w io.Writer, c Config, templateFiles int) error {
	return json.NewEncoder(w).Encode(input{Config: c, TemplateFiles: templateFiles})
}

// readConfig reads the daemon's configuration and takes over the inherited files.
func readConfig(r io.Reader) (Config, Files, error) {
	var in input
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return Config{}, Files{}, fmt.Errorf("read the supervisor's configuration: %w", err)
	}
	files, err := inherited(in.TemplateFiles)
	return in.Config, files, err
}

func (c Config) names() home.Box { return home.Home{Dir: c.Home}.Box(c.Box) }

// listener makes a listener from an inherited socket. It closes the file: the listener has a
// descriptor of its own.
func listener(f *os.File) (net.Listener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("inherited socket %s: %w", f.Name(), err)
	}
	return l, f.Close()
}
